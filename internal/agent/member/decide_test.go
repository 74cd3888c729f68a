// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

func TestDecide(t *testing.T) {
	const ours, another = "cafe", "beef"
	good, foreign := Data{State: DataPresent, ClusterID: ours}, Data{State: DataPresent, ClusterID: another}
	damaged := Data{State: DataDamaged, ClusterID: ours, Damage: "the database: it is missing"}
	restored, successors := Data{State: DataPresent, ClusterID: successorID}, []string{"5ca1e", successorID}
	for _, tc := range []struct {
		name string
		in   Input
		want Action
		// reason if the member does not start.
		reason string
		why    string // part of it
	}{
		{"data, nothing recorded", Input{Data: good}, Start, "", "has its data"},
		{"data, known cluster", Input{Data: good, ClusterID: ours}, Start, "", "has its data"},
		{"data, only member", Input{Data: good, ClusterID: ours, Single: true}, Start, "", "has its data"},

		{"data of another cluster", Input{Data: foreign, ClusterID: ours}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "cluster beef, but this is cluster cafe"},
		{"damaged data of another cluster", Input{Data: Data{State: DataDamaged, ClusterID: another}, ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "nothing was changed"},
		{"only member, data of another cluster", Input{Data: foreign, ClusterID: ours, Single: true, Backup: BackupHolds}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "nothing was changed"},

		{"only member, restored, not recorded yet", Input{Data: restored, ClusterID: ours, Successors: successors, Single: true}, Start, "", "has its data"},
		{"only member, restored with TLS between peers, not recorded yet", Input{Data: Data{State: DataPresent, ClusterID: successors[0]}, ClusterID: ours, Successors: successors, Single: true}, Start, "", "has its data"},
		{"only member, restored and recorded", Input{Data: restored, ClusterID: successorID, Successors: []string{"d00d"}, Single: true}, Start, "", "has its data"},
		{"only member, restored and damaged", Input{Data: Data{State: DataDamaged, ClusterID: successorID}, ClusterID: ours, Successors: successors, Single: true, Backup: BackupHolds}, Restore, "", "the only member"},
		{"only member, the volume from before a recorded restore", Input{Data: good, ClusterID: successorID, Successors: []string{"d00d"}, Single: true, Backup: BackupHolds}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "cluster cafe, but this is cluster babe"},
		{"only member, restored from another cluster", Input{Data: foreign, ClusterID: ours, Successors: successors, Single: true}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "nothing was changed"},
		{"one of several, restored when it was alone", Input{Data: restored, ClusterID: ours, Successors: successors}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "nothing was changed"},

		{"first start of the first members", Input{MayBegin: true}, Bootstrap, "", "no recorded cluster"},
		{"first start of the only member", Input{MayBegin: true, Single: true}, Bootstrap, "", "no recorded cluster"},
		{"first start, empty store", Input{MayBegin: true, Backup: BackupEmpty}, Bootstrap, "", "no recorded cluster"},
		{"first start of the only member, backup", Input{MayBegin: true, Single: true, Backup: BackupHolds}, Restore, "", "the store holds a backup"},
		{"first start of several, backup", Input{MayBegin: true, Backup: BackupHolds}, Wait, v1alpha1.ReasonBackupOfEarlierCluster, "with one replica"},
		{"first start, store unreachable", Input{MayBegin: true, Single: true, Backup: BackupUnreachable}, Wait, v1alpha1.ReasonBackupUnreachable, "check the store"},
		{"first start, not permitted", Input{}, Wait, v1alpha1.ReasonFirstStartBlocked, "spec.replicas of the Etcd to 0"},
		{"first start of the only member, backup, not permitted", Input{Single: true, Backup: BackupHolds}, Wait, v1alpha1.ReasonFirstStartBlocked, "other volumes may hold data"},
		{"permitted once, and served since", Input{MayBegin: true, ClusterID: ours}, Wait, v1alpha1.ReasonDataLost, "beside a living one"},
		{"first start, the others already serve", Input{Others: AnswerNeverStarted, OthersClusterID: ours}, Join, "", "never seen it run"},
		{"first start, late", Input{ClusterID: ours, Others: AnswerNeverStarted, OthersClusterID: ours}, Join, "", "never seen it run"},

		{"data lost", Input{ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours}, Replace, "", "has no data in /data, and the cluster serves"},
		{"data lost before the ID was recorded", Input{Others: AnswerStarted, OthersClusterID: ours}, Replace, "", "replaced by a learner"},
		{"data damaged", Input{Data: damaged, ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours}, Replace, "", "it is missing"},
		{"data damaged on the first start", Input{Data: damaged, Others: AnswerNeverStarted, OthersClusterID: ours}, Replace, "", "damaged"},
		{"data damaged, removed already", Input{Data: damaged, ClusterID: ours, Others: AnswerNotListed, OthersClusterID: ours}, Replace, "", "damaged"},
		{"added by scale-out", Input{ClusterID: ours, Others: AnswerNotListed, OthersClusterID: ours}, Replace, "", "joins as a learner"},
		{"others of another cluster", Input{ClusterID: ours, Others: AnswerNotListed, OthersClusterID: another}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "the other members belong to cluster beef"},

		{"data lost, and the quorum too", Input{ClusterID: ours}, Wait, v1alpha1.ReasonDataLost, "beside a living one"},
		{"data lost, and the quorum too, backup", Input{ClusterID: ours, Backup: BackupHolds}, Wait, v1alpha1.ReasonDataLost, "beside a living one"},
		{"data damaged, and no quorum", Input{Data: damaged, ClusterID: ours}, Wait, v1alpha1.ReasonDataDamaged, "beside a living one"},
		{"data damaged, nothing recorded, no quorum", Input{Data: damaged}, Wait, v1alpha1.ReasonDataDamaged, "damaged"},

		{"only member, data lost, backup", Input{ClusterID: ours, Single: true, Backup: BackupHolds}, Restore, "", "the only member"},
		{"only member, data damaged, backup", Input{Data: damaged, ClusterID: ours, Single: true, Backup: BackupHolds}, Restore, "", "damaged"},
		{"first start, the store refuses", Input{MayBegin: true, Single: true, Backup: BackupUnreachable, StoreSays: "S3 container x answered 404"}, Wait, v1alpha1.ReasonBackupUnreachable, "a backup to restore: S3 container x answered 404"},
		{"only member, data lost, the store refuses", Input{ClusterID: ours, Single: true, Backup: BackupUnreachable, StoreSays: "S3 container x answered 403"}, Wait, v1alpha1.ReasonBackupUnreachable, "S3 container x answered 403"},
		{"only member, data lost, store unreachable", Input{ClusterID: ours, Single: true, Backup: BackupUnreachable}, Wait, v1alpha1.ReasonBackupUnreachable, "check the store"},
		{"only member, data lost, no backup yet", Input{ClusterID: ours, Single: true, Backup: BackupEmpty}, Refuse, v1alpha1.ReasonDataLost, "create it again"},
		{"only member, data lost, no store", Input{ClusterID: ours, Single: true}, Refuse, v1alpha1.ReasonDataLost, "create it again"},
		{"only member, data damaged, no store", Input{Data: damaged, Single: true}, Refuse, v1alpha1.ReasonDataDamaged, "create it again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			tc.in.Member, tc.in.DataDir = "etcd-main-1", "/data"
			got := Decide(tc.in)
			g.Expect(got.Action).To(Equal(tc.want), got.Why)
			g.Expect(got.Reason).To(Equal(tc.reason))
			g.Expect(got.Why).To(ContainSubstring(tc.why))
		})
	}
}

// These promises hold for every input.
func TestDecidePromises(t *testing.T) {
	for f := range everyInput() {
		d := Decide(f)
		begins := d.Action == Bootstrap || d.Action == Restore || d.Action == Rebuild
		ours, before, chosen := f.ClusterID, "", false
		if r := f.Recovery; r != nil {
			ours, before, chosen = f.NewClusterID, r.PreviousClusterID, r.Member == f.Member
		}
		earlier := f.Recovery != nil && f.Data.ClusterID == "ace"
		restored := f.Recovery == nil && f.Single && f.Data.ClusterID == successorID && f.ClusterID == "cafe"
		foreign := ours != "" && f.Data.ClusterID != "" && f.Data.ClusterID != ours && f.Data.ClusterID != before && !earlier && !restored
		previous := before != "" && f.Data.ClusterID == before
		for promise, broken := range map[string]bool{
			"no new cluster beside one that answers":                     begins && f.Others != AnswerNone,
			"no bootstrap of a cluster that has served":                  d.Action == Bootstrap && f.ClusterID != "",
			"nothing begins without a permission or a recorded cluster":  begins && f.Recovery == nil && !f.MayBegin && f.ClusterID == "" && f.Data.State == DataNone,
			"a member of several restores only to recover":               d.Action == Restore && !f.Single && !chosen,
			"good data is neither replaced nor restored over":            f.Data.State == DataPresent && d.Action != Start && d.Action != Refuse && f.Recovery == nil,
			"a member with good data of the recovered cluster starts":    f.Data.State == DataPresent && f.Recovery != nil && f.Data.ClusterID == ours && d.Action != Start,
			"no start with data of the previous cluster":                 d.Action == Start && (previous || earlier),
			"no refusal because of data of the previous cluster":         d.Reason == v1alpha1.ReasonDataOfAnotherCluster && previous,
			"only the chosen member starts the recovered cluster":        begins && f.Recovery != nil && !chosen,
			"no bootstrap in a recovery":                                 d.Action == Bootstrap && f.Recovery != nil,
			"a recovered cluster that has served is not recovered again": begins && f.Recovery != nil && (f.ClusterID == f.NewClusterID || !f.Single && f.Data.ClusterID == f.NewClusterID),
			"a rebuild needs data of the previous cluster":               d.Action == Rebuild && !f.Rebuilt && (!previous || f.Data.State != DataPresent),
			"a recovery uses its recorded source":                        begins && f.Recovery != nil && (d.Action == Rebuild) != (f.Recovery.Source == RecoverFromData),
			"no rebuild without a recovery":                              d.Action == Rebuild && f.Recovery == nil,
			"data of another cluster is not changed":                     foreign && d.Action != Refuse,
			"a single member starts with what it has restored":           restored && f.Data.State == DataPresent && d.Action != Start,
			"a member starts only with good data":                        d.Action == Start && f.Data.State != DataPresent,
			"damaged data does not join or bootstrap":                    f.Data.State == DataDamaged && (d.Action == Join || d.Action == Bootstrap),
			"a replacement needs a quorum of this cluster":               (d.Action == Replace || d.Action == Join) && (f.Others == AnswerNone || ours != "" && f.OthersClusterID != ours),
			"a member that does not start says why":                      (d.Action == Wait || d.Action == Refuse) && (d.Reason == "" || strings.TrimSpace(d.Why) == ""),
			"no new cluster while the store may hold backups":            d.Action == Bootstrap && (f.Backup == BackupHolds || f.Backup == BackupUnreachable),
		} {
			if broken {
				t.Errorf("%s: %+v decides %+v", promise, f, d)
			}
		}
	}
}

// newID is the ID of the recovered cluster, and successorID that of the one that a restore makes of cluster cafe.
const newID, successorID = "f00d", "babe"

// everyInput iterates over all combinations.
func everyInput() func(yield func(Input) bool) {
	return func(yield func(Input) bool) {
		for i := range 3 * 6 * 2 * 3 * 4 * 3 * 4 * 5 * 2 * 2 {
			pick := func(n int) int { r := i % n; i /= n; return r }
			f := Input{Member: "m", DataDir: "/data"}
			f.Data = Data{State: DataState(pick(3)), ClusterID: []string{"", "cafe", "beef", newID, "ace", successorID}[pick(6)]}
			f.Single = pick(2) == 1
			f.ClusterID = []string{"", "cafe", newID}[pick(3)]
			if f.ClusterID == "cafe" {
				f.Successors = []string{"5ca1e", successorID}
			}
			f.Others = Answer(pick(4))
			f.OthersClusterID = []string{"cafe", "beef", newID}[pick(3)]
			f.Backup = Backup(pick(4))
			if n := pick(5); n > 0 {
				f.NewClusterID = newID
				f.Recovery = &Recovery{
					Task: "t", Member: []string{"m", "other"}[n%2], Source: []RecoverySource{RecoverFromData, RecoverFromBackup}[n/3], PreviousClusterID: "cafe", EarlierClusterIDs: []string{"ace"},
				}
			}
			f.Rebuilt, f.MayBegin = pick(2) == 1, pick(2) == 1
			if f.Single && f.Others != AnswerNone || f.Data.State == DataNone && f.Data.ClusterID != "" || f.Recovery == nil && f.Rebuilt {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

func TestEveryActionIsReached(t *testing.T) {
	reached := map[Action]bool{}
	for f := range everyInput() {
		reached[Decide(f).Action] = true
	}
	NewWithT(t).Expect(reached).To(HaveLen(8), fmt.Sprint(reached))
}
