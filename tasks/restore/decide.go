// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package restore implements the task type Restore: a cluster that serves goes back to an earlier state. The state comes from its backup
// or, in an undo, from the data that an earlier Restore has set aside.
//
// A task runs in this order:
//
//  1. Admit (admit.go): to replace data, the cluster must serve; the config must be possible, and what is to be undone not too old (undo.go).
//  2. Preview (preview.go): a Job of the agent restores the state on a volume of its own. A task without a confirmation ends here. With
//     one, the preview must show what was confirmed; an undo needs none. The leading agent keeps the previewed snapshots from retention.
//  3. Fencing and Saving (decide.go, snapshot.go): clients are kept away, and a final snapshot of the present is taken, which retention
//     never removes. Stays (stay.go) decide whether that snapshot still counts when the members are to be stopped.
//  4. Stopping and Surveying: phases of package newcluster. Then choose.go decides what the cluster starts from, by what is on the volumes.
//  5. Starting and Growing: phases of package newcluster.
//  6. Reopening: a full snapshot of the new cluster is taken, and clients are let in.
//
// Until the status of the Etcd records what the cluster starts from, which happens in Starting, the task can be aborted, and the members
// start as they were. Afterwards, what they had stays on their volumes until the task is deleted.
package restore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
)

// Input is all that a decision rests on, once the preview has run.
type Input struct {
	newcluster.Input
	// ClusterID is the recorded ID of the cluster, in hex.
	ClusterID string
	// Members is how many members are started.
	Members int32
	// Fenced: the client Service selects no member because of this task.
	Fenced bool
	// Since is when this operator began to watch the task in this phase without a gap. Call is the request for the snapshot of the
	// phase; nil if none was made since then.
	Call  *background.Request[backup.Snapshot]
	Since time.Time
	// Leased is the highest revision that the Leases of snapshots record.
	Leased int64
	// Known is the newest revision that was known when the restore was confirmed, and MaxWrites is how many more may be lost. A negative
	// MaxWrites sets no limit.
	Known, MaxWrites int64
	// Undone is the task that is undone; nil if none is, or once it is chosen what the cluster starts from. NotUndoable is why it cannot be
	// undone any more; empty if it can.
	Undone      *Undone
	NotUndoable string
}

// Undone is a Restore that is undone.
type Undone struct {
	// Task is its UID, and TaskName its name.
	Task, TaskName string
	// Member whose volume keeps the data from before that Restore.
	Member string
	// FinalSnapshot is the name of the snapshot that has that data too.
	FinalSnapshot string
	// ClusterID, in hex, is that of the cluster that had the data, and EarlierClusterIDs are those of the clusters before it.
	ClusterID         string
	EarlierClusterIDs []string
}

// Decision is the next status of the task, and whether to request a snapshot.
type Decision struct {
	newcluster.Decision
	// Ask: request the snapshot of the phase.
	Ask bool
}

const (
	// snapshotTimeout bounds a request for a snapshot.
	snapshotTimeout = 15 * time.Minute
	// retrySnapshots is how long a failing request for a snapshot is repeated, and how long clients wait for that of the new cluster.
	retrySnapshots = 2 * time.Minute
	// fullStrength is how long the new cluster waits for all members to vote. After that, a quorum is enough.
	fullStrength = 5 * time.Minute
)

// decide returns the next step of a restore after the preview. It is pure.
func decide(in Input, now time.Time) Decision {
	if d := in.obstacle(); d != nil {
		return *d
	}
	switch in.Recorded.Phase {
	case v1alpha1.RecoveryFencing:
		return in.fencing(now)
	case v1alpha1.RecoverySaving:
		return in.saving(now)
	case v1alpha1.RecoveryStopping:
		return in.stopping(now)
	case v1alpha1.RecoverySurveying:
		return in.surveying(now)
	case v1alpha1.RecoveryStarting:
		return Decision{Decision: in.Starting(now)}
	case v1alpha1.RecoveryGrowing:
		return in.growing(now)
	}
	return in.reopening(now)
}

// obstacle returns how the task fails because the Etcd has changed; nil if it goes on. Once it is recorded what the cluster starts from,
// nothing stops a restore. Before that, no data has been changed, and stopped members start as they were.
func (in Input) obstacle() *Decision {
	switch {
	case in.Recorded.Source != "":
		return nil
	case in.Hibernates:
		return in.fail(v1alpha1.ErrHibernated, "the Etcd is being hibernated, with spec.replicas 0: wake it up, and create the task again")
	case in.NotUndoable != "":
		// The final snapshot lacks what was written after it.
		return in.fail(v1alpha1.ErrRestoreRefused, "%s", in.NotUndoable)
	case in.Obstacle != "" && in.Snapshot.StatefulSet.HeldAtZeroBy != in.Task:
		// Waiting would keep clients away for as long as the foreign object is there.
		return in.fail(v1alpha1.ErrForeignObject, "%s", in.Obstacle)
	case in.ClusterID != in.Recorded.PreviousClusterID:
		return in.fail(v1alpha1.ErrClusterID, "the restore was confirmed for cluster %s, and the Etcd is now cluster %s: preview it again", in.Recorded.PreviousClusterID, in.ClusterID)
	}
	return nil
}

func (in Input) fail(code v1alpha1.ErrorCode, format string, args ...any) *Decision {
	unchanged := ". Nothing was changed"
	if in.Snapshot.StatefulSet.HeldAtZeroBy == in.Task {
		unchanged = ". No data was changed; the members start as they were"
		if in.Hibernates {
			unchanged += " when the Etcd wakes up"
		}
	}
	d := Decision{Decision: in.Stay(format+unchanged, args...)}
	d.Outcome, d.Code = tasks.Fail, code
	return &d
}

// notServing returns why the cluster that is to be replaced does not serve; empty if it does.
func (in Input) notServing() string {
	s := in.Snapshot
	switch {
	case !s.HasQuorum():
		return "the cluster has no quorum, and a restore needs one for the final snapshot: " + in.Describe() + ". If the quorum is lost for good, create a QuorumLossRecovery, which supersedes this task"
	case newcluster.ID(s.Cluster.ID) != in.Recorded.PreviousClusterID:
		return fmt.Sprintf("waiting until the members serve as cluster %s; now they serve as cluster %s", in.Recorded.PreviousClusterID, newcluster.ID(s.Cluster.ID))
	}
	return ""
}

// keepsRunning returns why the members must not be stopped; empty if they may be.
func keepsRunning(s *cluster.Snapshot) string { return cmp.Or(untried(s), stranded(s)) }

// stranded returns which member serves, and could not start again with its data: the claim goes once no pod uses it, or no node can attach its
// volume. The task stops all members at once, and promises that they start as they were until the choice is recorded.
func stranded(s *cluster.Snapshot) string {
	for _, o := range s.Ordinals {
		if o.Pod != nil && o.Serves() && o.Pod.VolumeTrouble != "" {
			return fmt.Sprintf("%s could not start again with its data once it is stopped: %s. Fix this first. If the claim is going and other members serve, delete the pod: its member is replaced while they serve", o.Name, o.Pod.VolumeTrouble)
		}
	}
	return ""
}

// untried returns why the members must not be stopped: some have not run with the newest pod template yet, and after a stop all start with
// it. It is empty if all have. A template with which pods do not start would otherwise stop the whole cluster, where a rollout stops at one pod.
func untried(s *cluster.Snapshot) string {
	if outdated, _ := s.PodsBehind(); outdated > 0 {
		return fmt.Sprintf("%d of %d pods are not at the newest template of StatefulSet %s, and a restore would start all members with it at once: let a rollout replace them first, or change the Etcd back", outdated, s.Replicas(), s.StatefulSet.Name)
	}
	return ""
}

// fencing waits until the client Service selects no member.
func (in Input) fencing(now time.Time) Decision {
	if in.Recorded.Restore.Fenced && !in.Fenced {
		return Decision{Decision: in.Stay("waiting until the client Service selects no member")}
	}
	message := "the client Service selects no member; taking a final snapshot"
	if !in.Recorded.Restore.Fenced {
		message = "clients stay connected until the members stop, and what they write after the final snapshot is only on the volumes; taking a final snapshot"
	}
	return Decision{Decision: in.Enter(v1alpha1.RecoverySaving, now, "%s", message)}
}

// saving waits for the final snapshot. Then all members are stopped, unless more was written than a person has agreed to lose.
func (in Input) saving(now time.Time) Decision {
	if why := in.notServing(); why != "" {
		return Decision{Decision: in.Stay("%s", why)}
	}
	if !in.Snapshot.StatefulSet.Observed {
		return Decision{Decision: in.Stay("waiting until the controller of StatefulSet %s has seen its newest template", in.Snapshot.StatefulSet.Name)}
	}
	if why := keepsRunning(in.Snapshot); why != "" {
		return *in.fail(v1alpha1.ErrRestoreRefused, "%s", why)
	}
	taken, d := in.snapshot(now, "final snapshot")
	if d != nil {
		return *d
	}
	if d := in.tooMuchWritten(max(taken.LastRevision, in.Snapshot.Cluster.Revision)); d != nil {
		return *d
	}
	next := in.Enter(v1alpha1.RecoveryStopping, now, "%s has everything up to revision %d, and retention never removes it; stopping all members", taken.Name(), taken.LastRevision)
	restore := *in.Recorded.Restore
	restore.FinalSnapshot, restore.HighestRevision = taken.Name(), max(restore.HighestRevision, taken.LastRevision)
	next.Recovery.Restore = &restore
	return Decision{Decision: next}
}

// tooMuchWritten returns how the task fails because more was written since the preview than a person has agreed to lose; nil otherwise.
func (in Input) tooMuchWritten(revision int64) *Decision {
	if written := revision - in.Known; in.MaxWrites >= 0 && written > in.MaxWrites {
		return in.fail(v1alpha1.ErrNotConfirmed, "%d revisions were written since revision %d, the newest one that the preview knew, and at most %d may be lost (maxWritesSince): preview it again", written, in.Known, in.MaxWrites)
	}
	return nil
}

// stopping waits until no member runs. If no operator watched for a while, and the members still ran, clients may have written more: then the
// task goes back to Saving.
func (in Input) stopping(now time.Time) Decision {
	if in.Call == nil && in.Snapshot.StatefulSet.HeldAtZeroBy != in.Task {
		return Decision{Decision: in.Enter(v1alpha1.RecoverySaving, now, "the task was interrupted before the members were stopped; checking that the final snapshot has everything")}
	}
	if why := stranded(in.Snapshot); why != "" && in.Snapshot.StatefulSet.HeldAtZeroBy != in.Task {
		return *in.fail(v1alpha1.ErrRestoreRefused, "%s", why)
	}
	return Decision{Decision: in.Stopping(now)}
}

// snapshot returns the snapshot of the phase, or the decision as long as there is none: to request it, to wait, or to fail after
// retrySnapshots.
func (in Input) snapshot(now time.Time, what string) (backup.Snapshot, *Decision) {
	switch call := in.Call; {
	case call == nil:
		return backup.Snapshot{}, &Decision{Decision: in.Stay("the leading agent is taking a %s", what), Ask: true}
	case call.Running:
		return backup.Snapshot{}, &Decision{Decision: in.Stay("%s", call.Name)}
	case call.Err != nil && now.Sub(in.Since) < retrySnapshots:
		return backup.Snapshot{}, &Decision{Decision: in.Stay("the %s failed and is retried every few seconds: %v", what, call.Err), Ask: true}
	case call.Err != nil:
		return backup.Snapshot{}, in.fail(v1alpha1.ErrSnapshot, "no %s could be taken: %v. Check the store and the log of the leader's container backup-restore", what, call.Err)
	default:
		return call.Result, nil
	}
}

// surveying waits until every volume is surveyed, and then chooses what the cluster starts from. The volumes also have what was written
// between the final snapshot and the stop, so it judges once more whether that may be lost.
func (in Input) surveying(now time.Time) Decision {
	if waits, surveyed := in.Surveying(); !surveyed {
		return Decision{Decision: waits}
	}
	if d := in.tooMuchWritten(written(in.Volumes, in.Recorded.PreviousClusterID)); d != nil {
		return *d
	}
	c, err := in.choose()
	if err != nil {
		return *in.fail(v1alpha1.ErrRestoreRefused, "%v", err)
	}
	if why := in.lackingSpace(c); why != "" {
		return *in.fail(v1alpha1.ErrRestoreRefused, "%s", why)
	}
	d := in.Enter(v1alpha1.RecoveryStarting, now, "%s", c.why)
	restore := *in.Recorded.Restore
	restore.ClusterRestore, restore.HighestRevision, restore.KeptBy = c.from, c.highest, c.keptBy
	d.Recovery.Member, d.Recovery.Source, d.Recovery.HadData, d.Recovery.Restore = c.member, c.source, c.hadData, &restore
	return Decision{Decision: d}
}

// growing waits until all members vote. Once that takes longer than fullStrength, a quorum is enough, as it was for the cluster before: clients
// are not kept away because one member cannot start.
func (in Input) growing(now time.Time) Decision {
	waits, voting := in.Growing()
	switch {
	case voting > 0:
		return Decision{Decision: in.Enter(v1alpha1.RecoveryReopening, now, "all %d members vote; taking a full snapshot of the new cluster", voting)}
	case in.quorumVotes() && now.Sub(in.Since) >= fullStrength:
		return Decision{Decision: in.Enter(v1alpha1.RecoveryReopening, now, "%s. They are a quorum, and the others join by themselves; taking a full snapshot of the new cluster", waits.Message)}
	}
	return Decision{Decision: waits}
}

// quorumVotes reports whether those that vote are a quorum of the wanted members, and of those that are listed.
func (in Input) quorumVotes() bool {
	s := in.Snapshot
	return s.StatefulSet.HeldAtZeroBy == "" && s.HasQuorum() && quorum.Exists(in.Voting(), s.Replicas())
}

// reopening waits for a full snapshot of the new cluster. If that fails, or takes longer than retrySnapshots, clients are let in without it:
// the agents keep trying.
func (in Input) reopening(now time.Time) Decision {
	const none = "there is no full snapshot of it yet, and the agents go on trying (%v)"
	taken, d := in.snapshot(now, "full snapshot")
	switch {
	case d == nil:
		return in.done(fmt.Sprintf("%s has everything of it", taken.Name()))
	case d.Outcome == tasks.Fail:
		return in.done(fmt.Sprintf(none, in.Call.Err))
	case now.Sub(in.Since) < retrySnapshots:
	case in.Call == nil:
		return in.done(fmt.Sprintf(none, "the leading agent could not be asked for it"))
	case in.Call.Running:
		return in.done(fmt.Sprintf(none, "the leading agent is still taking it"))
	}
	return *d
}

func (in Input) done(snapshot string) Decision {
	r := in.Recorded
	what := fmt.Sprintf("the cluster is as it was at revision %d", r.Restore.Revision)
	if r.Source == v1alpha1.RecoverFromKeptData {
		what = fmt.Sprintf("the cluster has the data that %s had kept", r.Member)
	}
	if waits, voting := in.Growing(); voting == 0 {
		snapshot += ". " + waits.Message + ". The others join by themselves"
	}
	d := in.Stay("%s, as cluster %s; %s. What the members had before stays on their volumes, and in the final snapshot %s, at least until this task is deleted: to go back to it, undo this task",
		what, newcluster.ID(in.Snapshot.Cluster.ID), snapshot, r.Restore.FinalSnapshot)
	d.Outcome = tasks.Done
	return Decision{Decision: d}
}
