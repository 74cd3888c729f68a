// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
)

// highest returns the highest revision that clients of a cluster may have seen: that of snapshots, or one on its volumes.
func highest(known int64, volumes []survey.Volume, clusterID string) int64 {
	for _, v := range volumes {
		if v.State == survey.Seen && v.Survey.ClusterID == clusterID {
			known = max(known, v.Survey.MaxRevision())
		}
	}
	return known
}

// written returns the highest revision of the databases on the volumes of a cluster, which it has certainly reached. Log entries beyond the
// database do not count: not every entry is a write.
func written(volumes []survey.Volume, clusterID string) (revision int64) {
	usable, _ := survey.Sift(volumes, clusterID)
	for _, v := range usable {
		revision = max(revision, v.Survey.Revision)
	}
	return revision
}

// bumpOf returns what to add to a revision so that the new cluster begins above the highest one that clients may have seen. The revision
// is 0 if it is not known.
func bumpOf(highest, revision int64) (int64, error) {
	if highest < 0 || revision < 0 || highest > newcluster.MaxRevision {
		return 0, fmt.Errorf("a snapshot, a Lease of snapshots or a volume claims revision %d, which no cluster reaches: find out which one, and remove it", highest)
	}
	return max(highest, revision) - revision + newcluster.Margin, nil
}

// started returns the volumes with data of a cluster, the most advanced first, but only those of members that will be started.
func started(volumes []survey.Volume, clusterID string, members int32) []survey.Volume {
	usable, _ := survey.Sift(volumes, clusterID)
	return slices.DeleteFunc(usable, func(v survey.Volume) bool { return v.Ordinal >= members || v.Survey.Removed })
}

// keptBy returns the member whose volume will keep every acknowledged write of the present cluster, which starts on the named member; empty
// if that one has all of them too. An undo starts on the member that kept the earlier data. If it was down for a while, it lacks what was
// written since, and undoing this undo needs the other one.
func (in Input) keptBy(name string) string {
	usable := started(in.Volumes, in.Recorded.PreviousClusterID, in.Members)
	if len(usable) == 0 || slices.ContainsFunc(usable, func(v survey.Volume) bool {
		return v.Member == name && v.Survey.LastTerm == usable[0].Survey.LastTerm && v.Survey.LastIndex == usable[0].Survey.LastIndex
	}) {
		return ""
	}
	return usable[0].Member
}

// starter returns the member that starts the new cluster, and whether its volume has data. It is the most advanced one, so that the data
// that it sets aside has every acknowledged write. If no volume has data, it is the first member.
func starter(volumes []survey.Volume, clusterID string, members int32) (name string, has bool) {
	if usable := started(volumes, clusterID, members); len(usable) > 0 {
		return usable[0].Member, true
	}
	first := slices.MinFunc(volumes, func(a, b survey.Volume) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return first.Member, false
}

// keptData returns the directory in which the member to undo from has kept what it had before the undone task. If that cannot be used, dir
// is empty, and why says so: the volume has no such data, the data cannot be read, the final snapshot of the task has more because the
// member had fallen behind, or the member is no longer started.
//
// After a crash there may be several such directories: only the first has the data. It is an error if the agent is too old to say at which
// revision the data ends: then either the data or the final snapshot may have writes that the other lacks.
func (in Input) keptData() (dir, why string, err error) {
	name, task := in.Undone.Member, in.Undone.TaskName
	final, _ := backup.ParseName(in.Undone.FinalSnapshot) // for an unknown name, its revision is 0, and is not compared
	for _, v := range in.Volumes {
		if v.Member != name || v.State != survey.Seen || v.Ordinal >= in.Members {
			continue
		}
		for _, dir := range slices.Sorted(slices.Values(v.Survey.Kept)) {
			ends, known := v.Survey.KeptRevisions[dir]
			switch {
			case !strings.Contains(dir, member.BeforeSuffix+in.Undone.Task+"-"):
			case v.Survey.Needs[dir] == member.Unreadable:
				return "", fmt.Sprintf("what %s had before task %s cannot be read", name, task), nil
			case !known && final.LastRevision > 0:
				return "", "", fmt.Errorf("the agent that surveyed the volume of %s is too old to say at which revision ends what that member had before task %s: roll out a newer one (spec.backup.image), and undo again. Or preview the final snapshot of that task, which lacks what was written after it was taken (--to snapshot=%s)", name, task, in.Undone.FinalSnapshot)
			case ends < final.LastRevision:
				return "", fmt.Sprintf("what %s had before task %s ends at revision %d, and the final snapshot of that task has everything up to revision %d", name, task, ends, final.LastRevision), nil
			case !in.leavesBehind(in.Undone.ClusterID):
				return "", "", fmt.Errorf("an older operator has begun this task, and did not record cluster %s, whose data %s has kept, as one that was before: undo task %s again", in.Undone.ClusterID, name, task)
			default:
				return dir, "", nil
			}
		}
	}
	return "", fmt.Sprintf("the volume of %s has no data from before task %s", name, task), nil
}

// leavesBehind reports whether the task records a cluster as one that was before: the member uses no kept data of another.
func (in Input) leavesBehind(clusterID string) bool {
	r := in.Recorded
	return clusterID == "" || clusterID == r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, clusterID)
}

// choice is what the cluster starts from.
type choice struct {
	source v1alpha1.RecoverySource
	member string
	from   v1alpha1.ClusterRestore
	// hadData: the member's volume has data.
	hadData bool
	// highest is the highest revision that clients of the present cluster may have seen.
	highest int64
	// keptBy is the member whose volume keeps all data of the present cluster; empty if it is the member above.
	keptBy string
	// why is a sentence for people.
	why string
}

// choose decides what the cluster starts from, by what is on the volumes. It is pure.
func (in Input) choose() (choice, error) {
	r := in.Recorded.Restore
	c := choice{highest: highest(max(r.HighestRevision, in.Leased), in.Volumes, in.Recorded.PreviousClusterID)}
	instead := ""
	if in.Undone != nil {
		kept, behind, err := in.keptData()
		if err != nil {
			return c, err
		}
		if c.from.KeptData = kept; kept != "" {
			c.source, c.member = v1alpha1.RecoverFromKeptData, in.Undone.Member
			c.keptBy = in.keptBy(c.member)
			c.hadData = slices.ContainsFunc(started(in.Volumes, in.Recorded.PreviousClusterID, in.Members), func(v survey.Volume) bool { return v.Member == c.member })
			c.why = fmt.Sprintf("the cluster goes back to the data that %s had before task %s, which is in %s on its volume", c.member, in.Undone.TaskName, c.from.KeptData)
			return c.bumped()
		}
		if r.Base == "" {
			return c, fmt.Errorf("%s, and the final snapshot %s cannot be restored. A preview says why (--to snapshot=%s)", behind, in.Undone.FinalSnapshot, in.Undone.FinalSnapshot)
		}
		instead = behind + ": "
	}
	if len(in.Volumes) == 0 {
		return c, errors.New("no member has a volume")
	}
	name, has := starter(in.Volumes, in.Recorded.PreviousClusterID, in.Members)
	c.source, c.member, c.from, c.hadData = v1alpha1.RecoverFromTarget, name, r.ClusterRestore, has
	c.why = fmt.Sprintf("%sthe cluster goes back to revision %d, on %s, from %s and the deltas after it", instead, r.Revision, name, r.Base)
	if !has {
		c.why += fmt.Sprintf("; no volume has the present data, which is only in the final snapshot %s", r.FinalSnapshot)
	}
	return c.bumped()
}

// lackingSpace returns which volume has no space for the restored data beside what is there; empty if all have. Members check it too, but
// by then the choice is recorded, and there is no way back.
func (in Input) lackingSpace(c choice) string {
	for _, v := range in.Volumes {
		needs := in.needs(c, v)
		if v.State == survey.Seen && v.Ordinal < in.Members && v.Survey.Free < needs {
			say := fmt.Sprintf("the volume of %s has %d free bytes, and it takes %d: enlarge the volumes", v.Member, v.Survey.Free, needs)
			if in.Undone == nil {
				say += ", or let go what members have kept on them: they remove it once no other Restore and no QuorumLossRecovery that has replaced data is left"
			}
			return say
		}
	}
	return ""
}

// needs returns how many bytes the choice takes on a volume, computed as its member will. A member that joins gets a database of the same
// size.
func (in Input) needs(c choice, v survey.Volume) int64 {
	bytes := in.Recorded.Restore.Bytes
	if c.source == v1alpha1.RecoverFromTarget && v.Member == c.member {
		return member.NeedsOfRestore(bytes)
	}
	needs := member.NeedsOfRebuild(bytes, 0)
	for _, kept := range in.Volumes {
		if c.from.KeptData != "" && kept.Member == c.member {
			needs = max(needs, kept.Survey.Needs[c.from.KeptData])
		}
	}
	return needs
}

// bumped returns the choice with the bump that raises the revision above every known one.
func (c choice) bumped() (_ choice, err error) {
	c.from.Bump, err = bumpOf(c.highest, c.from.Revision)
	c.why += fmt.Sprintf(", and its revisions continue above %d, the highest known one of the present cluster", c.highest)
	return c, err
}
