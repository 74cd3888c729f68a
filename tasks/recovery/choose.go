// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"k8s.io/apimachinery/pkg/types"
)

// Evidence is what a Choice rests on.
type Evidence struct {
	// Etcd that is recovered.
	Etcd types.NamespacedName
	// Volumes of the members, and of higher ordinals that have one.
	Volumes []survey.Volume
	// Lineage lists the IDs, in hex, of the clusters that the Etcd has had, the oldest first.
	Lineage []string
	// Refused: the configuration of the members names another cluster than the newest one, so members that are started as they are would
	// refuse its data.
	Refused bool
	// Members is how many members are started if nothing is rebuilt.
	Members int32
	Backup  Backup
	// Began is the revision at which the cluster of the last recovery began at least; 0 if it is not known, or not raised.
	Began int64
	// PreferData: a person wants the data to be used even if the backup is ahead of it.
	PreferData bool
}

// Backup is the newest backup; the zero value if there is none.
type Backup struct {
	// Revision is the one that restoring it leads to, and Highest is the highest one recorded for any snapshot.
	Revision, Highest int64
	// Says describes it to people.
	Says string
}

// Choice is how a cluster starts again.
type Choice struct {
	// Source that the cluster is rebuilt from; empty if the members are started as they are, or if nothing is chosen.
	Source v1alpha1.RecoverySource
	// Member that the cluster is rebuilt on.
	Member string
	// ClusterID, in hex, of the data that the cluster is rebuilt from; empty for a backup.
	ClusterID string
	// AtLeast is the revision that the backup must reach if it was chosen over data; otherwise 0.
	AtLeast int64
	// Failed: there is nothing to rebuild the cluster from. Waits: a person has to decide first.
	Failed, Waits bool
	// Why is a sentence for people: what was chosen, over what, and what may be lost; or what to do.
	Why string
}

// choose decides how a cluster starts again, by what is on the volumes of its members. It is pure.
//
// If a quorum has its data, raft finds out which member has every acknowledged write: nothing is rebuilt. A change of the voters that is not
// committed counts as made and as not made, since raft needs a quorum of both (docs/adr/0132-a-quorum-before-and-after.md). If fewer have it, the most
// advanced data is used, unless the newest backup is certainly ahead of all of it. Such a backup has everything that the data has: a backup
// has only what was committed, and data of the newest cluster begins above every earlier backup
// (docs/adr/0094-a-backup-that-is-ahead-comes-before-data.md).
//
// Each recovery makes a new cluster, whose log begins again and cannot be compared with that of an older one. So the newest cluster that
// has left good data counts (docs/adr/0045-the-newest-cluster-counts.md). A person decides if a newer cluster has left only what cannot be
// used. A person also decides if there is data of an unknown cluster, which may have served last, unless a quorum of known data is there.
func choose(e Evidence) Choice {
	f := e.find()
	switch {
	case f.newest && !e.Refused && e.isQuorum(f) && e.electable(f):
		return Choice{Why: fmt.Sprintf("%d of %d members have their data, and those that vote are a quorum: they are started as they are, and nothing is rebuilt%s%s", len(f.usable), len(e.Volumes), f.without(), e.setBack(f))}
	case len(f.unknown) > 0:
		return e.identify(f)
	case f.newest && e.started(f.voting) > 0 && !e.backupIsAhead(f):
		return f.rebuild(e.uncommitted(f) + e.passedOver(f))
	case len(f.doubts) > 0:
		return f.ask()
	case !f.newest && len(f.aside) > 0:
		return f.askAside()
	case len(f.usable) > 0 && e.backupIsAhead(f):
		c := e.restore(fmt.Sprintf("%s has data, but %s, and the newest backup is ahead of it: that leads to revision %d, and the data to %d at most", f.usable[0].Member, e.flaw(f), e.Backup.Revision, f.maxRevision()), f.without())
		c.AtLeast = f.maxRevision() + 1
		return c
	case len(f.usable) > 0:
		return f.rebuild("; " + e.flaw(f) + e.passedOver(f))
	case e.Backup != Backup{}:
		return e.restore("no member has data that it could start with", f.without())
	}
	return Choice{Failed: true, Why: "no member has data that it could start with, and no backup is recorded: nothing can be recovered, and nothing was deleted. " +
		"If a volume can still be found, restore it under the name of its claim and create the task again; otherwise delete the Etcd and its claims, and create the Etcd again" + mayHaveStore + f.without()}
}

// mayHaveStore ends the advice to create an Etcd again: only what agents have recorded of the backup is known here.
const mayHaveStore = "; with one replica, it restores what its store may have"

// started returns how many of the given members are started if nothing is rebuilt.
func (e Evidence) started(members []survey.Volume) (n int) {
	for _, v := range members {
		if v.Ordinal < e.Members {
			n++
		}
	}
	return n
}

// isQuorum reports whether the voters that are started are a quorum, by the end of the most advanced log.
func (e Evidence) isQuorum(f found) bool { return quorum.Exists(e.started(f.voting), f.voters) }

// electable reports whether the members that are started can elect a leader and follow it, by raft's rules. A member counts the votes of the voters
// at its commit index, and members that are more advanced give it none. Once its whole log is committed, it needs a quorum of the voters at its end.
func (e Evidence) electable(f found) bool {
	started := slices.DeleteFunc(slices.Clone(f.usable), func(v survey.Volume) bool { return v.Ordinal >= e.Members })
	isQuorum := func(of []survey.Volume, ids []string) bool {
		voting, voters := survey.Among(of, ids, len(e.Volumes))
		return quorum.Exists(len(voting), voters)
	}
	return slices.ContainsFunc(started, func(v survey.Volume) bool {
		last := v.Survey.Voters
		if len(last) == 0 {
			last = f.usable[0].Survey.Voters
		}
		committed := v.Survey.CommittedVoters
		if len(committed) == 0 {
			committed = last
		}
		elect := slices.DeleteFunc(slices.Clone(started), func(o survey.Volume) bool { return survey.Compare(o, v) < 0 })
		votes := len(committed) == 0 || slices.Contains(committed, v.Survey.MemberID)
		return votes && isQuorum(elect, committed) && isQuorum(started, last)
	})
}

// uncommitted says why a quorum by the end of the most advanced log is not started as it is; empty if it is none, or is refused.
func (e Evidence) uncommitted(f found) string {
	if e.Refused || !e.isQuorum(f) || e.electable(f) {
		return ""
	}
	return "; a change of the voters at the end of its log is not known to be committed, and of the voters before it there is no quorum, so the members would elect no leader as they are"
}

// backupIsAhead reports whether the newest backup is certainly ahead of the data that was found, and may be chosen.
func (e Evidence) backupIsAhead(f found) bool {
	return !e.PreferData && e.Backup.Revision > f.maxRevision()
}

// behind says how far the newest backup is ahead of the data that was found; empty if it is not.
func (e Evidence) behind(f found) string {
	if e.Backup.Revision <= f.maxRevision() {
		return ""
	}
	return fmt.Sprintf("the newest backup (%s) leads to revision %d, and the data to %d at most", e.Backup.Says, e.Backup.Revision, f.maxRevision())
}

// passedOver says that the backup is ahead of the data but was not chosen, since a person wants the data; otherwise it is empty.
func (e Evidence) passedOver(f found) string {
	if behind := e.behind(f); behind != "" && e.PreferData {
		return "; " + behind + ": the backup was passed over, since the data was asked for"
	}
	return ""
}

// setBack says that the volumes of a quorum were set back; otherwise it is empty. A backup has only what a quorum had, so a quorum with
// less than the backup has lost data. This does not hold if a person has recorded the ID of another cluster: the backup may not be of that.
func (e Evidence) setBack(f found) string {
	if behind := e.behind(f); behind != "" && !e.PreferData {
		return fmt.Sprintf("; but %s: the volumes have lost what was acknowledged, as after they were restored from copies. What the backup leads to is listed by kubectl etcdtask restorable %s -n %s", behind, e.Etcd.Name, e.Etcd.Namespace)
	}
	return ""
}

// highest returns the highest revision that any cluster of the Etcd is known to have reached, by the records of snapshots, by good data, and by
// where the last recovery began, all of whose data may be lost. Revisions that no cluster can reach are ignored.
func (e Evidence) highest() int64 {
	highest := max(e.Backup.Highest, e.Began, 1)
	for _, id := range e.Lineage {
		usable, _ := survey.Sift(e.Volumes, id)
		for _, v := range usable {
			if r := v.Survey.MaxRevision(); r <= newcluster.MaxRevision {
				highest = max(highest, r)
			}
		}
	}
	return highest
}

// hadData reports whether the volume of a member has data with a readable cluster ID.
func (e Evidence) hadData(member string) bool {
	return slices.ContainsFunc(e.Volumes, func(v survey.Volume) bool {
		return v.Member == member && v.State == survey.Seen && v.Survey.ClusterID != ""
	})
}

// restore chooses the backup, on the first member whose volume was read, or else on the first without a volume. A higher ordinal than that
// of the known members is not chosen: that member may have been removed, and would be started for good. By now there is no data of an
// unknown cluster, which a member would refuse to set aside.
func (e Evidence) restore(why, without string) Choice {
	c := Choice{Source: v1alpha1.RecoverFromBackup}
	for _, state := range []survey.State{survey.Gone, survey.Seen} {
		for _, v := range slices.Backward(e.Volumes) {
			if v.State == state && v.Ordinal < max(e.Members, 1) {
				c.Member = v.Member
			}
		}
	}
	c.Why = fmt.Sprintf("%s: the cluster is rebuilt from the newest backup, on %s (%s); writes after its last delta snapshot are lost%s", why, c.Member, e.Backup.Says, without)
	return c
}

// found is what the survey has found: the good data of the newest cluster that has left any, and what speaks against using it.
type found struct {
	// clusterID of that cluster, in hex; empty if there is no good data.
	clusterID string
	// usable are the volumes with its data, the most advanced first, and others describes the rest of the volumes.
	usable []survey.Volume
	others []string
	// voting are the usable volumes of voters, and voters is the number of all voters, by what the most advanced volume knows.
	voting []survey.Volume
	voters int
	// newest: no later cluster is known.
	newest bool
	// doubts are the volumes with unusable remains of a newer cluster, or with what may be such.
	doubts []survey.Volume
	// unknown are the volumes with data of a cluster that is not in the lineage.
	unknown []survey.Volume
	// aside are the volumes on which a member has set data aside. It may be the most advanced of an older cluster.
	aside []survey.Volume
}

func (e Evidence) find() (f found) {
	newest, place := len(e.Lineage)-1, -1
	for i, id := range slices.Backward(e.Lineage) {
		usable, others := survey.Sift(e.Volumes, id)
		if i == newest || len(usable) > 0 {
			f.usable, f.others = usable, others
		}
		if len(usable) > 0 {
			place, f.clusterID, f.newest = i, id, i == newest
			break
		}
	}
	f.voting, f.voters = survey.Voting(f.usable, len(e.Volumes))
	f.doubts, f.unknown = e.doubts(place)
	for _, v := range e.Volumes {
		if v.State == survey.Seen && len(v.Survey.SetAside) > 0 {
			f.aside = append(f.aside, v)
		}
	}
	return f
}

// doubts returns the volumes that have, or may have, data of a newer cluster than the one at the given index of the lineage, and those with
// data of an unknown cluster. The index is -1 if no cluster has left good data.
//
// A cluster is unknown if a recovery made it with other peer URLs, or another token, than members have now; if the volume is not of this
// Etcd; or if members served under an ID that nothing recorded explains.
func (e Evidence) doubts(place int) (newer, unknown []survey.Volume) {
	for _, v := range e.Volumes {
		id := v.Survey.ClusterID
		is := slices.Index(e.Lineage, id)
		switch {
		case v.State != survey.Seen:
		case id != "" && is < 0:
			unknown = append(unknown, v)
		case place < 0 || place == len(e.Lineage)-1:
		case is > place, id == "" && v.Survey.State == member.SurveyDamaged:
			newer = append(newer, v)
		}
	}
	return newer, unknown
}

// identify asks a person whether the data of an unknown cluster is that of the Etcd.
func (e Evidence) identify(f found) Choice {
	var commands []string
	for _, v := range f.unknown {
		if c := component.RecordClusterID(e.Etcd, v.Survey.ClusterID); !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
	}
	left, claims := left(f.unknown)
	return Choice{Waits: true, Why: fmt.Sprintf("%s, which nothing that is recorded explains: it may have served last, and may have acknowledged writes%s. "+
		"If it has the data of this Etcd, record its ID (%s), and the cluster starts from it; otherwise delete claim %s, or mount the right volume, to go on without it", left, f.than(), strings.Join(commands, "; or "), claims)}
}

// ask asks a person what to do about the unusable remains of a newer cluster.
func (f found) ask() Choice {
	left, claims := left(f.doubts)
	return Choice{Waits: true, Why: fmt.Sprintf("a recovery before this one made a newer cluster, which may have acknowledged writes: %s%s. Restore the volume of a member of the newer cluster under the name of its claim; "+
		"if it is permanently lost, or not of this Etcd, delete claim %s to go on without it", left, f.than(), claims)}
}

// askAside asks a person what to do about data that members have set aside for a newer cluster, of which nothing usable is left.
func (f found) askAside() Choice {
	var has, claims []string
	for _, v := range f.aside {
		has = append(has, fmt.Sprintf("%s has set data aside (%s on claim %s)", v.Member, strings.Join(v.Survey.SetAside, ", "), v.Claim))
		claims = append(claims, v.Claim)
	}
	return Choice{Waits: true, Why: fmt.Sprintf("the newest cluster has left no data that can be used: %s%s. Rename it to new.etcd on its volume, in place of what is there, and create the task again, to use it; "+
		"otherwise move it away and create the task again, or delete claim %s to go on without it", strings.Join(has, ", "), f.than(), strings.Join(claims, ", "))}
}

// left describes the data on the given volumes, and lists their claims.
func left(volumes []survey.Volume) (what, claims string) {
	var of, names []string
	for _, v := range volumes {
		cluster, is := "an unknown cluster", ""
		if v.Survey.ClusterID != "" {
			cluster = "cluster " + v.Survey.ClusterID
		}
		switch v.Survey.State {
		case member.SurveyDamaged:
			is = fmt.Sprintf(" and is damaged (%s)", v.Survey.Damage)
		case member.SurveyNone:
			is = " and is empty, since the member had just joined"
		}
		of = append(of, fmt.Sprintf("the data of %s is of %s%s", v.Member, cluster, is))
		names = append(names, v.Claim)
	}
	return strings.Join(of, "; "), strings.Join(names, ", ")
}

// than says which data would be used otherwise; empty if there is none.
func (f found) than() string {
	if f.clusterID == "" {
		return ""
	}
	known := "cluster " + f.clusterID
	if !f.newest {
		known = "the earlier " + known
	}
	return fmt.Sprintf(", and that of %s is of %s", f.usable[0].Member, known)
}

func (f found) rebuild(flaw string) Choice {
	best := f.usable[0]
	return Choice{Source: v1alpha1.RecoverFromData, Member: best.Member, ClusterID: f.clusterID, Why: fmt.Sprintf(
		"the cluster is rebuilt from the data of %s, the most advanced of the %d that have survived: %s. It has every write that it took part in. Writes that only others took part in are missing: the last ones before they were lost, or all since it fell behind. Its revisions continue above all that are known, so clients list again%s%s",
		best.Member, len(f.usable), survey.Position(best.Survey), flaw, f.without())}
}

// flaw returns why the data may lack more than the last writes.
func (e Evidence) flaw(f found) string {
	best := f.usable[0]
	switch {
	case !f.newest:
		return fmt.Sprintf("it is of cluster %s, and a later one, which a recovery made, has left none", f.clusterID)
	case best.Survey.Removed:
		return "it was removed from the cluster, and lacks what was written after that"
	case best.Ordinal >= e.Members:
		return fmt.Sprintf("it is beyond the %d members that are known: it may have been removed while it was down, and lack what was written after that", e.Members)
	case e.started(f.voting) == 0 && slices.Contains(best.Survey.CommittedVoters, best.Survey.MemberID):
		return "a change at the end of its log takes its vote, and is not known to be committed"
	case e.started(f.voting) == 0:
		return "it was a learner, which may not have caught up"
	}
	return "it had fallen behind"
}

// maxRevision returns the highest revision that the data may reach, with every entry of its logs.
func (f found) maxRevision() (revision int64) {
	for _, v := range f.usable {
		revision = max(revision, v.Survey.MaxRevision())
	}
	return revision
}

func (f found) without() string {
	if len(f.others) == 0 {
		return ""
	}
	return "; " + strings.Join(f.others, "; ")
}
