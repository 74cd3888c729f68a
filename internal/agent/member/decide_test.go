// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
)

func TestDecide(t *testing.T) {
	const ours, another = "cafe", "beef"
	good, foreign := Data{State: DataPresent, ClusterID: ours, MemberID: "a1"}, Data{State: DataPresent, ClusterID: another}
	gone := Data{State: DataPresent, ClusterID: ours, MemberID: "a1", Removed: true}
	damaged := Data{State: DataDamaged, ClusterID: ours, MemberID: "a1", Damage: "the database: it is missing"}
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
		{"one of several, restored when it was alone", Input{Data: restored, ClusterID: ours, Successors: successors}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "newer data of cafe: nothing was changed. If no quorum of cafe comes back, create a QuorumLossRecovery"},

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

		{"data lost", Input{ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours, Listed: "a1"}, Wait, v1alpha1.ReasonDataLost, "has no data in /data, and the cluster serves and lists it as a1: it rejoins as a learner once the operator has replaced it"},
		{"data lost before the ID was recorded", Input{Others: AnswerStarted, OthersClusterID: ours, Listed: "a1"}, Wait, v1alpha1.ReasonDataLost, "once the operator has replaced it"},
		{"data damaged", Input{Data: damaged, ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours}, SetAside, "", "it is missing"},
		{"data damaged on the first start", Input{Data: damaged, Others: AnswerNeverStarted, OthersClusterID: ours, Listed: "a1"}, Wait, v1alpha1.ReasonDataDamaged, "lists it as a1"},
		{"data damaged on the first start, illegibly", Input{Data: Data{State: DataDamaged}, Others: AnswerNeverStarted, OthersClusterID: ours, Listed: "a1"}, Wait, v1alpha1.ReasonDataDamaged, "does not say of which member it is"},
		{"data damaged, removed already", Input{Data: damaged, ClusterID: ours, Others: AnswerNotListed, OthersClusterID: ours}, SetAside, "", "a quorum of the cluster has all of it"},
		{"data damaged, replaced already", Input{Data: damaged, ClusterID: ours, Others: AnswerNeverStarted, OthersClusterID: ours, Listed: "b2"}, SetAside, "", "damaged"},
		{"replaced already", Input{ClusterID: ours, Others: AnswerNeverStarted, OthersClusterID: ours, Listed: "b2"}, Join, "", "never seen it run"},
		{"added by scale-out", Input{ClusterID: ours, Others: AnswerNotListed, OthersClusterID: ours}, Wait, v1alpha1.ReasonNotListed, "once the operator has added it"},
		{"removed, and its data was set aside", Input{ClusterID: ours, Leaving: true, Others: AnswerNotListed, OthersClusterID: ours}, Wait, v1alpha1.ReasonNotListed, "serves without listing it"},
		{"others of another cluster", Input{ClusterID: ours, Others: AnswerNotListed, OthersClusterID: another}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "the other members belong to cluster beef"},

		{"data, and listed", Input{Data: good, ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours, DataListed: true}, Start, "", "has its data"},
		{"data, and told that it leaves", Input{Data: good, ClusterID: ours, Leaving: true, Others: AnswerStarted, OthersClusterID: ours, DataListed: true}, Start, "", "has its data"},
		{"told, and the others do not answer", Input{Data: good, ClusterID: ours, Leaving: true}, Start, "", "has its data"},
		{"data, and others of another cluster", Input{Data: good, ClusterID: ours, Others: AnswerNotListed, OthersClusterID: another}, Start, "", "has its data"},
		{"removed while it was down, and told", Input{Data: good, ClusterID: ours, Leaving: true, Others: AnswerNotListed, OthersClusterID: ours}, SetAside, "", "has removed member a1"},
		{"removed while it was down, and not told", Input{Data: good, ClusterID: ours, Others: AnswerNotListed, OthersClusterID: ours}, SetAside, "", "has removed member a1"},
		{"the same, and nothing recorded", Input{Data: good, Others: AnswerNotListed, OthersClusterID: ours}, Wait, v1alpha1.ReasonMemberRemoved, "no cluster ID is recorded"},
		{"removed, and the others do not answer", Input{Data: gone, ClusterID: ours}, Wait, v1alpha1.ReasonMemberRemoved, "no quorum of that cluster answers"},
		{"removed, and the others answer", Input{Data: gone, Others: AnswerNotListed, OthersClusterID: ours}, SetAside, "", "has removed member a1"},
		{"removed, and another was added in its place", Input{Data: gone, ClusterID: ours, Others: AnswerNeverStarted, OthersClusterID: ours, Listed: "b2"}, SetAside, "", "has removed member a1"},
		{"removed while it was down, and another was added in its place", Input{Data: good, ClusterID: ours, Others: AnswerNeverStarted, OthersClusterID: ours, Listed: "b2"}, SetAside, "", "has removed member a1"},
		{"removed, and listed again", Input{Data: gone, ClusterID: ours, Others: AnswerStarted, OthersClusterID: ours, Listed: "a1", DataListed: true}, Wait, v1alpha1.ReasonMemberRemoved, "and the cluster lists it"},
		{"removed, and others of another cluster", Input{Data: gone, ClusterID: ours, Others: AnswerNotListed, OthersClusterID: another}, Wait, v1alpha1.ReasonMemberRemoved, "no quorum of that cluster answers"},
		{"removed from another cluster", Input{Data: Data{State: DataPresent, ClusterID: another, MemberID: "a1", Removed: true}, ClusterID: ours}, Refuse, v1alpha1.ReasonDataOfAnotherCluster, "nothing was changed"},

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
		present := f.Data.State == DataPresent
		unlisted := f.Others != AnswerNone && f.OthersClusterID == f.Data.ClusterID && !f.DataListed
		current := f.Recovery == nil && !foreign || f.Recovery != nil && f.Data.ClusterID == ours
		removed := present && current && (f.Data.Removed || unlisted)
		for _, p := range []struct {
			promise string
			broken  bool
		}{
			{"no new cluster beside one that answers", begins && f.Others != AnswerNone},
			{"no bootstrap of a cluster that has served", d.Action == Bootstrap && f.ClusterID != ""},
			{"nothing begins without a permission or a recorded cluster", begins && f.Recovery == nil && !f.MayBegin && f.ClusterID == "" && f.Data.State == DataNone},
			{"a member of several restores only to recover", d.Action == Restore && !f.Single && !chosen},
			{"good data is neither replaced nor restored over", present && !removed && d.Action != Start && d.Action != Refuse && f.Recovery == nil},
			{"a member with good data of the recovered cluster starts", present && !removed && f.Recovery != nil && f.Data.ClusterID == ours && d.Action != Start},
			{"no start with data of the previous cluster", d.Action == Start && (previous || earlier)},
			{"no refusal because of data of the previous cluster", d.Reason == v1alpha1.ReasonDataOfAnotherCluster && previous},
			{"only the chosen member starts the recovered cluster", begins && f.Recovery != nil && !chosen},
			{"no bootstrap in a recovery", d.Action == Bootstrap && f.Recovery != nil},
			{"a recovered cluster that has served is not recovered again", begins && f.Recovery != nil && (f.ClusterID == f.NewClusterID || !f.Single && f.Data.ClusterID == f.NewClusterID)},
			{"a rebuild needs data of the previous cluster", d.Action == Rebuild && !f.Rebuilt && (!previous || !present)},
			{"a recovery uses its recorded source", begins && f.Recovery != nil && (d.Action == Rebuild) != (f.Recovery.Source == RecoverFromData)},
			{"no rebuild without a recovery", d.Action == Rebuild && f.Recovery == nil},
			{"data of another cluster is not changed", foreign && d.Action != Refuse},
			{"a single member starts with what it has restored", restored && present && !removed && d.Action != Start},
			{"a member starts only with good data", d.Action == Start && !present},
			{"damaged data does not join or bootstrap", f.Data.State == DataDamaged && (d.Action == Join || d.Action == Bootstrap)},
			{"a replacement needs a quorum of this cluster", (d.Action == Replace || d.Action == Join) && (f.Others == AnswerNone || ours != "" && f.OthersClusterID != ours)},
			{"a member that does not start says why", (d.Action == Wait || d.Action == Refuse) && (d.Reason == "" || strings.TrimSpace(d.Why) == "")},
			{"no new cluster while the store may hold backups", d.Action == Bootstrap && (f.Backup == BackupHolds || f.Backup == BackupUnreachable)},

			{"only a recovery lets a member change the list", d.Action == Replace && f.Recovery == nil},
			{"while the members change, a member without data does not change the list", d.Action == Replace && f.Planned && f.ClusterID == ours && f.Data.State == DataNone},
			{"data of a removed member serves nowhere", removed && (d.Action == Start || begins || d.Action == Join)},
			{"data is set aside only if a quorum serves without its member", d.Action == SetAside && present && (!removed || !unlisted)},
			{"damaged data is set aside only if a quorum serves", d.Action == SetAside && f.Others == AnswerNone},
			{"what only the list says of data is no reason to remove it later", d.Action == SetAside && present && !f.Data.Removed && !f.Leaving && d.Suffix != AsideSuffix},
			{"a member joins only if it is listed and has never run", d.Action == Join && f.Others != AnswerNeverStarted},
			{"data of another cluster is said to be there", foreign && d.Volume != (cluster.Volume{Store: cluster.StoreOther, ClusterID: f.Data.ClusterID})},
			{"a volume with good data is not free", d.Volume.Store == cluster.StoreFree && present},
			{"a member is lost only while it is listed", d.Volume.Lost != "" && (d.Volume.Store != cluster.StoreFree || d.Volume.Lost != f.Listed || f.Others == AnswerNotListed)},
			{"a member that waits without data beside a quorum says that its volume is free", d.Action == Wait && f.Recovery == nil && f.Data.State == DataNone && f.Others != AnswerNone && d.Volume.Store != cluster.StoreFree},
			{"only a member that does not start speaks of its volume", d.Volume != (cluster.Volume{}) && d.Action != Wait && d.Action != Refuse},
			{"the data of a removed member is said to be left", d.Action == Wait && removed && d.Volume.Store != cluster.StoreLeft},
		} {
			if p.broken {
				t.Errorf("%s: %+v decides %+v", p.promise, f, d)
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
			if f.Others == AnswerNeverStarted || f.Others == AnswerStarted {
				f.Listed = "a1"
			}
			if !withMembers(f, yield) {
				return
			}
		}
	}
}

// withMembers yields an input with all that may be known of the member of its data.
func withMembers(f Input, yield func(Input) bool) bool {
	if f.Data.State == DataNone {
		planned := f
		planned.Planned = f.ClusterID != ""
		return yield(f) && (!planned.Planned || yield(planned))
	}
	for i := range 2 * 2 * 2 * 3 {
		pick := func(n int) int { r := i % n; i /= n; return r }
		f.Data.Removed, f.DataListed, f.Leaving = pick(2) == 1, pick(2) == 1, pick(2) == 1
		f.Data.MemberID = []string{"a1", "b2", ""}[pick(3)]
		present := f.Data.State == DataPresent
		if !present && (f.Data.Removed || f.DataListed || f.Leaving) || present && f.Data.MemberID != "a1" || f.DataListed && f.Others == AnswerNone {
			continue
		}
		if !yield(f) {
			return false
		}
	}
	return true
}

func TestEveryActionIsReached(t *testing.T) {
	reached := map[Action]bool{}
	for f := range everyInput() {
		reached[Decide(f).Action] = true
	}
	NewWithT(t).Expect(reached).To(HaveLen(9), fmt.Sprint(reached))
}
