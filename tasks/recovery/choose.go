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
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
)

// Evidence is what a Choice rests on.
type Evidence struct {
	// Volumes of the members, and of ordinals beyond that have one.
	Volumes []survey.Volume
	// Lineage are the IDs, in hex, of the clusters that the Etcd has had, in the order in which they were made.
	Lineage []string
	// Members is how many members are started if nothing is rebuilt.
	Members int32
	Backup  Backup
}

// Backup is the newest backup; the zero value if there is none.
type Backup struct {
	// Revision that it leads to.
	Revision int64
	// Says describes it.
	Says string
}

// Choice is how a cluster starts again.
type Choice struct {
	// Source of the data that it is rebuilt from; empty when the members are started as they are, or when nothing is chosen.
	Source v1alpha1.RecoverySource
	// Member that it is rebuilt from.
	Member string
	// ClusterID, in hex, of the data that it is rebuilt from; empty for a backup.
	ClusterID string
	// Failed: there is nothing that it could be rebuilt from. Waits: a person has to decide first.
	Failed, Waits bool
	// Why is a sentence for people: what was chosen, over what, and what may be lost; or what to do.
	Why string
}

// Choose says how a cluster starts again, by what is on the volumes of its members. It is pure.
//
// Where a quorum has its data the members can find out for themselves who has all that was acknowledged. Where fewer
// have, the most advanced is the best that there is.
//
// Each recovery makes a new cluster, whose log starts at its beginning and cannot be compared. So the newest cluster that has left
// data counts (docs/adr/0045-the-newest-cluster-counts.md). If a newer one has left what cannot be used, a person decides.
func Choose(e Evidence) Choice {
	f := e.find()
	voting, voters := survey.Voting(f.usable, len(e.Volumes))
	switch {
	case f.newest && quorum.Exists(e.started(voting), voters):
		return Choice{Why: fmt.Sprintf("%d of %d members have their data, and those that vote are a quorum: they are started as they are, and nothing is rebuilt%s", len(f.usable), len(e.Volumes), f.without())}
	case f.newest && len(voting) > 0:
		return f.rebuild("")
	case len(f.doubts) > 0:
		return f.ask()
	case len(f.usable) > 0 && e.Backup.Revision > f.maxRevision():
		return e.restore(fmt.Sprintf("%s has data, but %s, and the newest backup is ahead of it", f.usable[0].Member, f.flaw()), f.without())
	case len(f.usable) > 0:
		return f.rebuild("; " + f.flaw())
	case e.Backup != Backup{}:
		return e.restore("no member has data that it could start with", f.without())
	}
	return Choice{Failed: true, Why: "no member has data that it could start with, and there is no backup: nothing can be recovered, and nothing was deleted. " +
		"If a volume can still be found, restore it under the name of its claim and create the task again; otherwise delete the Etcd and its claims, and create the Etcd again" + f.without()}
}

// started returns how many of some members are started if nothing is rebuilt.
func (e Evidence) started(members []survey.Volume) (n int) {
	for _, v := range members {
		if v.Ordinal < e.Members {
			n++
		}
	}
	return n
}

// restore chooses the backup. A member refuses to set data aside that the recovery does not leave behind, so it is restored on the first
// volume without such data, or by a member that has no volume. A volume beyond the members that are started is one of a member only if it
// has data of the lineage.
func (e Evidence) restore(why, without string) Choice {
	var foreign []string
	for _, state := range []survey.State{survey.Seen, survey.Gone} {
		for _, v := range e.Volumes {
			switch id := v.Survey.ClusterID; {
			case v.State != state, v.Ordinal >= e.Members && id == "":
			case id != "" && !slices.Contains(e.Lineage, id):
				foreign = append(foreign, fmt.Sprintf("%s of %s has data of cluster %s", v.Claim, v.Member, id))
			default:
				return Choice{Source: v1alpha1.RecoverFromBackup, Member: v.Member, Why: fmt.Sprintf(
					"%s: the cluster is rebuilt from the newest backup, on %s (%s); writes after its last delta snapshot are lost%s", why, v.Member, e.Backup.Says, without)}
			}
		}
	}
	return Choice{Failed: true, Why: fmt.Sprintf("the newest backup (%s) cannot be restored: each volume holds data of a foreign cluster, which no member sets aside: claim %s. "+
		"Mount the right volumes; or delete a claim whose data is not needed, and create the task again", e.Backup.Says, strings.Join(foreign, "; claim "))}
}

// found is the data of the newest cluster that has left any.
type found struct {
	// clusterID of that cluster, in hex; empty if there is no data.
	clusterID string
	// usable are the volumes with its data, the most advanced first, and others describes each other volume.
	usable []survey.Volume
	others []string
	// newest: no cluster was made after it, as far as is known.
	newest bool
	// doubts are the volumes that have, or may have, what is left of a newer one.
	doubts []survey.Volume
}

func (e Evidence) find() found {
	last := len(e.Lineage) - 1
	for i, id := range slices.Backward(e.Lineage) {
		if usable, others := survey.Sift(e.Volumes, id); len(usable) > 0 {
			return found{id, usable, others, i == last, e.doubts(i)}
		}
	}
	newest := ""
	if last >= 0 {
		newest = e.Lineage[last]
	}
	_, others := survey.Sift(e.Volumes, newest)
	return found{others: others, doubts: e.doubts(-1)}
}

// doubts returns the volumes that have, or may have, data of a cluster that was made after the one at a place of the lineage; -1 if none
// has left data. A cluster is unknown if a recovery made it with other peer URLs, or another token, than members have now.
func (e Evidence) doubts(place int) (doubts []survey.Volume) {
	if len(e.Lineage) < 2 || place == len(e.Lineage)-1 {
		return nil
	}
	for _, v := range e.Volumes {
		id := v.Survey.ClusterID
		is := slices.Index(e.Lineage, id)
		switch {
		case v.State != survey.Seen:
		case id != "" && is < 0, place >= 0 && is > place, place >= 0 && id == "" && v.Survey.State == member.SurveyDamaged:
			doubts = append(doubts, v)
		}
	}
	return doubts
}

// ask has a person decide about what is left of a newer cluster.
func (f found) ask() Choice {
	var left, claims []string
	for _, v := range f.doubts {
		of := "an unknown cluster"
		if v.Survey.ClusterID != "" {
			of = "cluster " + v.Survey.ClusterID
		}
		what := "cannot be used"
		switch v.Survey.State {
		case member.SurveyDamaged:
			what = fmt.Sprintf("is damaged (%s)", v.Survey.Damage)
		case member.SurveyNone:
			what = "is empty, since the member had just joined"
		}
		left = append(left, fmt.Sprintf("the data of %s is of %s and %s", v.Member, of, what))
		claims = append(claims, v.Claim)
	}
	than := ""
	if f.clusterID != "" {
		than = fmt.Sprintf(", and that of %s is of the earlier cluster %s", f.usable[0].Member, f.clusterID)
	}
	return Choice{Waits: true, Why: fmt.Sprintf("a recovery before this one made a newer cluster, which may have acknowledged writes: %s%s. Restore the volume of a member of the newer cluster under the name of its claim; "+
		"if it is permanently lost, or not of this Etcd, delete claim %s to go on without it", strings.Join(left, "; "), than, strings.Join(claims, ", "))}
}

func (f found) rebuild(flaw string) Choice {
	best := f.usable[0]
	return Choice{Source: v1alpha1.RecoverFromData, Member: best.Member, ClusterID: f.clusterID, Why: fmt.Sprintf(
		"the cluster is rebuilt from the data of %s, the most advanced of the %d that have survived: %s. It has every write that it took part in; writes that only the lost members had acknowledged, immediately before they were lost, may be missing%s%s",
		best.Member, len(f.usable), survey.Position(best.Survey), flaw, f.without())}
}

// flaw is why data may lack more than the last writes.
func (f found) flaw() string {
	if f.newest {
		return "it was a learner, which may not have caught up"
	}
	return fmt.Sprintf("it is of cluster %s, and a later one, which a recovery made, has left none", f.clusterID)
}

// maxRevision is the latest revision that the data may have.
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
