// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

func TestDecideRecovery(t *testing.T) {
	const before = "cafe"
	old, recovered := Data{State: DataPresent, ClusterID: before}, Data{State: DataPresent, ClusterID: newID}
	damaged := Data{State: DataDamaged, ClusterID: before, Damage: "the database: it is missing"}
	illegible := Data{State: DataDamaged, Damage: "the write-ahead log does not name its cluster"}
	damagedNew := Data{State: DataDamaged, ClusterID: newID, Damage: "the database: it is missing"}
	const chosen, other = "main-2", "main-0"
	had := &Recovery{HadData: true}
	for _, tc := range []struct {
		name   string
		member string
		source RecoverySource
		in     Input
		want   Action
		reason string
		why    string
	}{
		{"the chosen one, data", chosen, RecoverFromData, Input{Data: old, ClusterID: before}, Rebuild, "", "from the data of this member"},
		{"the chosen one, nothing recorded", chosen, RecoverFromData, Input{Data: old}, Rebuild, "", "from the data of this member"},
		{"interrupted before the renames", chosen, RecoverFromData, Input{Data: old, ClusterID: before, Rebuilt: true}, Rebuild, "", ""},
		{"interrupted between the renames", chosen, RecoverFromData, Input{ClusterID: before, Rebuilt: true}, Rebuild, "", ""},
		{"the chosen one, rebuilt", chosen, RecoverFromData, Input{Data: recovered, ClusterID: before}, Start, "", "of the recovered cluster"},
		{"the chosen one, rebuilt and recorded", chosen, RecoverFromData, Input{Data: recovered, ClusterID: newID}, Start, "", "of the recovered cluster"},
		{"the chosen one, removed before", chosen, RecoverFromData, Input{Data: Data{State: DataPresent, ClusterID: before, Removed: true}, ClusterID: before}, Rebuild, "", "from the data of this member"},
		{"removed from the recovered cluster", other, RecoverFromData, Input{Data: recovered, ClusterID: newID, Others: AnswerNotListed, OthersClusterID: newID}, SetAside, "", "has removed member"},
		{"lost, while the members change", other, RecoverFromData, Input{Planned: true, ClusterID: newID, Others: AnswerStarted, OthersClusterID: newID, Listed: "a1"}, Wait, v1alpha1.ReasonDataLost, "once the operator has replaced it"},
		{"removed from it, while the members change", other, RecoverFromData, Input{Planned: true, ClusterID: newID, Others: AnswerNotListed, OthersClusterID: newID}, Wait, v1alpha1.ReasonNotListed, "once the operator has added it"},
		{"the chosen one has lost its data", chosen, RecoverFromData, Input{ClusterID: before}, Refuse, v1alpha1.ReasonDataLost, "delete task t"},
		{"the chosen one has damaged data", chosen, RecoverFromData, Input{Data: damaged, ClusterID: before}, Refuse, v1alpha1.ReasonDataDamaged, "delete task t"},
		{"the chosen one has lost the rebuilt data, but the others serve", chosen, RecoverFromData, Input{ClusterID: newID, Others: AnswerStarted, OthersClusterID: newID}, Replace, "", "joins it as a learner"},
		{"the chosen one has old data, but the others serve", chosen, RecoverFromData, Input{Data: old, ClusterID: newID, Others: AnswerStarted, OthersClusterID: newID}, Replace, "", "joins it as a learner"},
		{"the chosen one has old data, and the new cluster has served", chosen, RecoverFromData, Input{Data: old, ClusterID: newID}, Wait, v1alpha1.ReasonRecovering, "Restore the other members"},
		{"the chosen one has lost the rebuilt data, and no other answers", chosen, RecoverFromData, Input{ClusterID: newID}, Wait, v1alpha1.ReasonDataLost, "member main-2 has no data in /data, and no quorum of the recovered cluster"},
		{"rebuilt data is damaged", chosen, RecoverFromData, Input{Data: damagedNew, ClusterID: before}, Wait, v1alpha1.ReasonDataDamaged, "no quorum of the recovered cluster"},
		{"the previous cluster answers", chosen, RecoverFromData, Input{Data: old, ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonPreviousClusterServes, "cluster cafe answers with a quorum, and cluster cafe is being recovered from quorum loss: if it has come back, delete task t, and the operator withdraws the recovery unless main-2"},
		{"the previous cluster answers, and the backup is restored otherwise", chosen, RecoverFromBackup, Input{Data: old, ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonPreviousClusterServes, "delete task t"},
		{"the previous cluster answers, and the data is lost", chosen, RecoverFromData, Input{ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonRecovering, "delete task t"},
		{"the previous cluster answers, and the new data is damaged", chosen, RecoverFromData, Input{Data: damagedNew, ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonRecovering, "delete task t"},
		{"the previous cluster answers, and the data is damaged", chosen, RecoverFromData, Input{Data: damaged, ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonRecovering, "delete task t"},
		{"an earlier cluster answers", chosen, RecoverFromData, Input{Data: old, ClusterID: before, Others: AnswerStarted, OthersClusterID: "ace"}, Wait, v1alpha1.ReasonRecovering, "cluster ace answers with a quorum"},

		{"a point, good data", chosen, RecoverFromPoint, Input{Data: old, ClusterID: before}, Rebuild, "", "goes back to an earlier state by task t: revision 7 in the backup, by member main-2"},
		{"a point, no data", chosen, RecoverFromPoint, Input{ClusterID: before}, Rebuild, "", "revision 7"},
		{"a point, damaged data", chosen, RecoverFromPoint, Input{Data: damaged, ClusterID: before}, Rebuild, "", "revision 7"},
		{"a point, interrupted between the renames", chosen, RecoverFromPoint, Input{ClusterID: before, Rebuilt: true}, Rebuild, "", ""},
		{"a point, restored", chosen, RecoverFromPoint, Input{Data: recovered, ClusterID: before}, Start, "", "of the recovered cluster"},
		{"a point, and the new cluster has served", chosen, RecoverFromPoint, Input{Data: old, ClusterID: newID}, Wait, v1alpha1.ReasonRecovering, "Restore the other members"},
		{"a point, and the cluster before serves", chosen, RecoverFromPoint, Input{Data: old, ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonPreviousClusterServes, "stop the members that run with its data. To keep it as it is, delete task t"},
		{"a point, and another member is chosen", other, RecoverFromPoint, Input{Data: old, ClusterID: before}, Wait, v1alpha1.ReasonRecovering, "main-0 joins it as a learner once it serves"},
		{"a point, and data of a cluster that was none", chosen, RecoverFromPoint, Input{Data: Data{State: DataPresent, ClusterID: "fade"}, ClusterID: before}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "nothing was changed"},
		{"a point, and another member has begun with it", chosen, RecoverFromPoint, Input{ClusterID: before, Begun: true}, Wait, v1alpha1.ReasonDataLost, "the new cluster f00d may have begun"},
		{"a point, old data, and another member has begun with it", chosen, RecoverFromPoint, Input{Data: old, ClusterID: before, Begun: true}, Wait, v1alpha1.ReasonRecovering, "has data of cluster cafe from before the recovery, and the new cluster f00d may have begun"},
		{"a point, restored and not renamed, and it has begun elsewhere", chosen, RecoverFromPoint, Input{ClusterID: before, Rebuilt: true, Begun: true}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"a point, and the store does not say whether it has begun", chosen, RecoverFromPoint, Input{Data: old, ClusterID: before, BegunUnknown: true}, Wait, v1alpha1.ReasonBackupUnreachable, "goes back to an earlier state by task t, from revision 7 in the backup, by member main-2, and it is unknown whether the new cluster f00d has begun with other data: the backup store does not answer"},
		{"a point, restored and not renamed, and the store does not say", chosen, RecoverFromPoint, Input{ClusterID: before, Rebuilt: true, BegunUnknown: true}, Wait, v1alpha1.ReasonBackupUnreachable, "unknown"},
		{"a point, set aside and not renamed", chosen, RecoverFromPoint, Input{ClusterID: before, Rebuilt: true, KeptAside: true}, Rebuild, "", ""},
		{"a point, set aside and lost", chosen, RecoverFromPoint, Input{ClusterID: before, KeptAside: true, Recovery: had}, Wait, v1alpha1.ReasonDataLost, "delete task t, and create a QuorumLossRecovery"},
		{"a point, the volume is another", chosen, RecoverFromPoint, Input{ClusterID: before, Recovery: had}, Wait, v1alpha1.ReasonDataLost, "member main-2 has no data in /data, and the new cluster f00d may have begun"},
		{"a point, illegible before", chosen, RecoverFromPoint, Input{Data: illegible, ClusterID: before}, Rebuild, "", ""},
		{"a point, illegible since", chosen, RecoverFromPoint, Input{Data: illegible, ClusterID: before, KeptAside: true}, Wait, v1alpha1.ReasonDataDamaged, "may have begun"},
		{"kept data", chosen, RecoverFromKept, Input{Data: old, ClusterID: before}, Rebuild, "", "the data in new.etcd.before-x-1 on the volume of member main-2"},
		{"kept data, and what was made of it is lost", chosen, RecoverFromKept, Input{ClusterID: before, KeptAside: true}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"kept data, and what was made of it is illegible", chosen, RecoverFromKept, Input{Data: illegible, ClusterID: before, KeptAside: true}, Wait, v1alpha1.ReasonDataDamaged, "may have begun"},
		{"kept data, set aside and not renamed", chosen, RecoverFromKept, Input{ClusterID: before, Rebuilt: true, KeptAside: true, Recovery: had}, Rebuild, "", ""},
		{"kept data of a single member, and what was made of it is lost", chosen, RecoverFromKept, Input{ClusterID: before, Single: true, KeptAside: true, Recovery: had}, Rebuild, "", ""},

		{"backup, no data", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupHolds}, Restore, "", "from the newest backup"},
		{"backup, good data", chosen, RecoverFromBackup, Input{Data: old, ClusterID: before, Backup: BackupHolds}, Restore, "", "from the newest backup"},
		{"backup, damaged data", chosen, RecoverFromBackup, Input{Data: damaged, ClusterID: before, Backup: BackupHolds}, Restore, "", "from the newest backup"},
		{"backup, store unreachable", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupUnreachable}, Wait, v1alpha1.ReasonBackupUnreachable, "check the store"},
		{"backup, none", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupEmpty}, Refuse, v1alpha1.ReasonRestoreFailed, "there is none"},
		{"backup, no store", chosen, RecoverFromBackup, Input{ClusterID: before}, Refuse, v1alpha1.ReasonRestoreFailed, "there is none"},
		{"backup, set aside and not renamed", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupHolds, Rebuilt: true, KeptAside: true, Recovery: had}, Restore, "", "from the newest backup"},
		{"backup, set aside and lost", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupHolds, KeptAside: true, Recovery: had}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"backup, the volume is another", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupHolds, Recovery: had}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"backup, the volume is another one of a single member", chosen, RecoverFromBackup, Input{ClusterID: before, Single: true, Backup: BackupHolds, Recovery: had}, Restore, "", ""},
		{"backup, and another member has begun with it", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupHolds, Begun: true}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"backup, restored and not renamed, and it has begun elsewhere", chosen, RecoverFromBackup, Input{ClusterID: before, Backup: BackupHolds, Rebuilt: true, Begun: true}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"backup, and the store does not say whether it has begun", chosen, RecoverFromBackup, Input{ClusterID: before, BegunUnknown: true, StoreSays: "the store answered 403"}, Wait, v1alpha1.ReasonBackupUnreachable, "has begun with other data: the store answered 403"},
		{"backup, the volume is another, and the store does not answer", chosen, RecoverFromBackup, Input{ClusterID: before, Recovery: had, BegunUnknown: true}, Wait, v1alpha1.ReasonDataLost, "may have begun"},
		{"backup, illegible since", chosen, RecoverFromBackup, Input{Data: illegible, ClusterID: before, Backup: BackupHolds, KeptAside: true}, Wait, v1alpha1.ReasonDataDamaged, "may have begun"},
		{"backup, restored", chosen, RecoverFromBackup, Input{Data: recovered, ClusterID: before}, Start, "", "of the recovered cluster"},
		{"backup, restored and lost", chosen, RecoverFromBackup, Input{ClusterID: newID, Backup: BackupHolds}, Wait, v1alpha1.ReasonDataLost, "Restore the other members"},

		{"old data waits", other, RecoverFromData, Input{Data: old, ClusterID: before}, Wait, v1alpha1.ReasonRecovering, "is being recovered from the data of member main-2: main-0 joins it as a learner"},
		{"old data waits for the restore", other, RecoverFromBackup, Input{Data: old, ClusterID: before, Backup: BackupHolds}, Wait, v1alpha1.ReasonRecovering, "the newest backup, by member main-2"},
		{"no data waits", other, RecoverFromData, Input{ClusterID: before}, Wait, v1alpha1.ReasonRecovering, "main-0 joins it as a learner"},
		{"damaged data waits", other, RecoverFromData, Input{Data: damaged}, Wait, v1alpha1.ReasonRecovering, "main-0 joins it as a learner"},
		{"illegible data waits", other, RecoverFromData, Input{Data: illegible}, Wait, v1alpha1.ReasonRecovering, "main-0 joins it as a learner"},
		{"old data, the cluster serves", other, RecoverFromData, Input{Data: old, ClusterID: before, Others: AnswerNotListed, OthersClusterID: newID}, Replace, "", "from before the recovery"},
		{"old data, replaced half", other, RecoverFromData, Input{Data: old, ClusterID: newID, Others: AnswerNeverStarted, OthersClusterID: newID}, Replace, "", "from before the recovery"},
		{"no data, added already", other, RecoverFromData, Input{ClusterID: newID, Others: AnswerNeverStarted, OthersClusterID: newID}, Join, "", "never seen it run"},
		{"no data, the cluster serves", other, RecoverFromData, Input{ClusterID: newID, Others: AnswerNotListed, OthersClusterID: newID}, Replace, "", "joins it as a learner"},
		{"new data", other, RecoverFromData, Input{Data: recovered, ClusterID: before}, Start, "", "of the recovered cluster"},
		{"old data, its cluster answers", other, RecoverFromData, Input{Data: old, ClusterID: before, Others: AnswerStarted, OthersClusterID: before}, Wait, v1alpha1.ReasonRecovering, "delete task t"},
		{"data of an earlier cluster waits", other, RecoverFromData, Input{Data: Data{State: DataPresent, ClusterID: "ace"}, ClusterID: before}, Wait, v1alpha1.ReasonRecovering, "main-0 joins it as a learner"},
		{"data of an earlier cluster, the cluster serves", other, RecoverFromData, Input{Data: Data{State: DataPresent, ClusterID: "ace"}, ClusterID: newID, Others: AnswerNotListed, OthersClusterID: newID}, Replace, "", "data of cluster ace from before the recovery"},
		{"the chosen one has data of an earlier cluster", chosen, RecoverFromData, Input{Data: Data{State: DataPresent, ClusterID: "ace"}, ClusterID: before}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "must be recovered from data of cluster cafe"},
		{"data of a third cluster", other, RecoverFromData, Input{Data: Data{State: DataPresent, ClusterID: "beef"}, ClusterID: before}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "cluster beef, but this is cluster f00d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			f := tc.in
			f.Member, f.DataDir, f.NewClusterID = tc.member, "/data", newID
			f.Recovery = &Recovery{Task: "9a7e", TaskName: "t", Member: chosen, Source: tc.source, PreviousClusterID: before, EarlierClusterIDs: []string{"ace"}, HadData: tc.in.Recovery != nil}
			if tc.source == RecoverFromPoint || tc.source == RecoverFromKept {
				f.Recovery.Restore = &RestorePoint{Base: "Full-00000000-00000005-5", Revision: 7, Kept: "new.etcd.before-x-1", Bump: 1}
			}
			got := Decide(f)
			g.Expect(got.Action).To(Equal(tc.want), got.Why)
			g.Expect(got.Reason).To(Equal(tc.reason))
			g.Expect(got.Why).To(ContainSubstring(tc.why))
		})
	}
}

func TestDecideWakingUp(t *testing.T) {
	const before, chosen, other = "cafe", "main-0", "main-1"
	for _, tc := range []struct {
		name   string
		member string
		in     Input
		want   Action
		reason string
		why    string
	}{
		{"the first one", chosen, Input{ClusterID: before, Backup: BackupHolds}, Restore, "", "the cluster wakes up from the newest backup"},
		{"a single one", chosen, Input{ClusterID: before, Single: true, Backup: BackupHolds}, Restore, "", "the cluster wakes up"},
		{"restored", chosen, Input{Data: Data{State: DataPresent, ClusterID: newID}, ClusterID: before}, Start, "", ""},
		{"the store is unreachable", chosen, Input{ClusterID: before, Backup: BackupUnreachable}, Wait, v1alpha1.ReasonBackupUnreachable, "check the store"},
		{"the store is empty", chosen, Input{ClusterID: before, Backup: BackupEmpty}, Refuse, v1alpha1.ReasonRestoreFailed, "its final snapshot, at revision 42, which is missing"},
		{"there is no store", chosen, Input{ClusterID: before}, Refuse, v1alpha1.ReasonRestoreFailed, "which is missing"},
		{"another member runs with the old data", chosen, Input{ClusterID: before, Others: AnswerStarted, OthersClusterID: before, Backup: BackupHolds}, Wait, v1alpha1.ReasonWakingUp, "was hibernated and is waking up"},
		{"it has served, and lost its data", chosen, Input{ClusterID: newID, Backup: BackupHolds}, Wait, v1alpha1.ReasonDataLost, "Restore the other members"},
		{"a single one, restored and damaged", chosen, Input{Data: Data{State: DataDamaged, ClusterID: newID}, ClusterID: before, Single: true, Backup: BackupHolds}, Restore, "", "the cluster wakes up"},
		{"restored and damaged", chosen, Input{Data: Data{State: DataDamaged, ClusterID: newID}, ClusterID: before, Backup: BackupHolds}, Wait, v1alpha1.ReasonDataDamaged, "Restore the other members"},
		{"another member has begun with it", chosen, Input{ClusterID: before, Backup: BackupHolds, Begun: true}, Wait, v1alpha1.ReasonDataLost, "create a QuorumLossRecovery"},
		{"another waits", other, Input{ClusterID: before}, Wait, v1alpha1.ReasonWakingUp, "main-1 joins it as a learner once it serves"},
		{"another joins", other, Input{ClusterID: newID, Others: AnswerNotListed, OthersClusterID: newID}, Replace, "", "joins it as a learner"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			f := tc.in
			f.Member, f.DataDir, f.NewClusterID = tc.member, "/data", newID
			f.Recovery = &Recovery{Task: "h", Member: chosen, Source: RecoverFromBackup, PreviousClusterID: before, Revision: 42}
			got := Decide(f)
			g.Expect(got.Action).To(Equal(tc.want), got.Why)
			g.Expect(got.Reason).To(Equal(tc.reason), got.Why)
			g.Expect(got.Why).To(ContainSubstring(tc.why))
			g.Expect(got.Why).NotTo(ContainSubstring("task"), "there is none")
			g.Expect(got.Why).NotTo(ContainSubstring("lost quorum"), "the cluster hibernated")
			if got.Reason != "" {
				g.Expect(v1alpha1.IsDataVolumeReason(got.Reason)).To(BeTrue())
			}
		})
	}
}
