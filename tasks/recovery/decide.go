// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package recovery implements the task type QuorumLossRecovery: a cluster of several members that has lost its quorum for good starts
// again, from the most advanced data that has survived, or else from the newest backup.
//
// A task runs in this order:
//
//  1. Admit (handler.go): the Etcd must have had a quorum, and have none now.
//  2. Confirming (decide.go): this operator must see for a grace period, without a gap, that the quorum is certainly lost. lost.go has what
//     is certain.
//  3. Stopping and Surveying: phases of package newcluster. Then evidence.go gathers what is known of the volumes and backups, and
//     choose.go decides what the cluster starts from.
//  4. Starting and Growing: phases of package newcluster. If a quorum has its data, the members are started as they are, and the task ends
//     once they have a quorum.
//
// The agent does what is to be done to data, before a member starts. It deletes none: it sets aside what was there.
//
// A rebuilt cluster has a new cluster ID. So a member that comes back late with its old data does not belong to it, and cannot form a
// quorum with others.
package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// gracePeriod is how long the quorum must be lost before anything is done. A member that merely restarts is back sooner.
	gracePeriod = 30 * time.Second
	// quorumDeadline is how long members that are started as they were, with a quorum of their data, may take to form a quorum.
	quorumDeadline = 10 * time.Minute
)

// Input is all that a decision rests on.
type Input struct {
	Snapshot *cluster.Snapshot
	// Task is the UID of the task.
	Task types.UID
	// Recorded is the status of the recovery so far.
	Recorded v1alpha1.RecoveryStatus
	// FewestVoters is how many voters the cluster has at least, if no voter has returned the member list: see fewestVoters.
	FewestVoters int
	// LostSince is since when this operator has seen the quorum lost without a gap; zero if it is not lost. The status shows it to people,
	// but decisions do not use what the status says.
	LostSince time.Time
	// StartedSince is since when this operator has seen the members started without a gap; zero in other phases. It is not the time in the
	// status, which an operator with another clock may have written.
	StartedSince time.Time
	// ClusterID is the recorded ID of the cluster, in hex.
	ClusterID string
	// Hibernates: the spec asks for no members.
	Hibernates bool
	// Configured: the configuration of the members says how the cluster is rebuilt.
	Configured bool
	// Obstacle is why the Etcd controller does not stop or start members; empty if nothing is known to keep it from that.
	Obstacle string
	// Evidence is only gathered in phase Surveying.
	Evidence
}

// common returns the input of the phases in package newcluster.
func (in Input) common() newcluster.Input {
	return newcluster.Input{Snapshot: in.Snapshot, Task: in.Task, Recorded: in.Recorded, Hibernates: in.Hibernates, Configured: in.Configured, Volumes: in.Volumes, Obstacle: in.Obstacle}
}

// Decision is the next status of the task, and the phase that it enters or stays in.
type Decision = newcluster.Decision

// decide returns the next step of a recovery. It is pure.
func decide(in Input, now time.Time) Decision {
	switch phase := in.Recorded.Phase; {
	case in.Hibernates && (phase == v1alpha1.RecoveryStopping || phase == v1alpha1.RecoverySurveying):
		return in.hibernated()
	case phase == v1alpha1.RecoveryStopping:
		return in.common().Stopping(now)
	case phase == v1alpha1.RecoverySurveying:
		return in.surveying(now)
	case phase == v1alpha1.RecoveryStarting:
		return in.starting(now)
	case phase == v1alpha1.RecoveryGrowing:
		return in.growing()
	}
	return in.confirming(now)
}

// confirming waits until this operator has seen the quorum lost for the grace period without a gap.
func (in Input) confirming(now time.Time) Decision {
	next, s := in.Recorded, in.Snapshot
	next.Phase = v1alpha1.RecoveryConfirming
	next.PhaseSince = metav1.Time{Time: cmp.Or(next.PhaseSince.Time, now)}
	next.PreviousClusterID = in.ClusterID
	next.LostSince = nil
	lost, why := quorumLost(s, in.FewestVoters)
	switch {
	case newcluster.Quorate(s) && s.HasQuorum(): // a leader alone may have yet to step down
		return Decision{Outcome: tasks.Done, Recovery: next, Message: "the quorum returned on its own, and nothing was changed: " + why}
	case in.Hibernates:
		in.Recorded = next // nothing may have been recorded so far
		return in.hibernated()
	case !lost:
		return Decision{Outcome: tasks.Continue, Recovery: next, AtOnce: in.beginsAgain(nil), Message: why}
	}
	if !in.LostSince.IsZero() {
		next.LostSince = ptr.To(metav1.NewTime(in.LostSince).Rfc3339Copy())
	}
	if in.LostSince.IsZero() || s.At.Sub(in.LostSince) < gracePeriod || now.Sub(s.At) > maxUnobserved {
		return Decision{Outcome: tasks.Continue, Recovery: next, AtOnce: in.beginsAgain(next.LostSince), Message: fmt.Sprintf("%s; all members are stopped once this operator has observed that for %s without interruption", why, gracePeriod)}
	}
	if losing := in.losing(); losing != "" {
		return Decision{Outcome: tasks.Continue, Recovery: next, AtOnce: in.beginsAgain(next.LostSince), Message: losing}
	}
	in.Recorded = next // nothing may have been recorded so far, if every write of the status has failed
	return in.common().Enter(v1alpha1.RecoveryStopping, now, "there has been no quorum for %s: %s; all members are stopped, so that their data can be compared", gracePeriod, why)
}

// losing says which data would be lost if all members were stopped: someone has deleted the claim of a voter that may have data, and Kubernetes
// keeps the claim for the pod. It is empty if nothing would be.
func (in Input) losing() string {
	voters := in.Snapshot.Cluster.Voters
	for i, o := range in.Snapshot.Ordinals {
		votes := len(voters) == 0 || slices.ContainsFunc(voters, func(v cluster.Voter) bool { return v.Ordinal == i })
		if votes && o.Pod != nil && o.Pod.VolumeGoes && !hasNoData(o.Pod.Refusal) && o.Class != v1alpha1.ClassTerminating {
			return fmt.Sprintf("%s is kept: its claim is being deleted, and goes with its data once no pod uses it. To keep the data, have its volume retained (persistentVolumeReclaimPolicy), suspend this task, delete the pod, and bring the volume back under the name of the claim; to go on without it, delete the pod", o.Name)
		}
	}
	return ""
}

// hasNoData reports whether an agent has refused to start a member since it has no data that a cluster could be recovered from. What other
// refusals leave in place may be all there is: that of a failed Restore advises to recover from it.
func hasNoData(r *cluster.Refusal) bool {
	return r != nil && slices.Contains([]string{v1alpha1.ReasonDataLost, v1alpha1.ReasonDataDamaged, v1alpha1.ReasonMemberRemoved}, r.Reason)
}

// beginsAgain reports whether the grace period begins again or ends, given the LostSince that the status is to show. That is written at
// once, so that a late write of another operator, which saw the grace period elapse, conflicts. The later time of an operator that began to
// observe later is not corrected: two operators that run at the same time would correct each other forever.
func (in Input) beginsAgain(shown *metav1.Time) bool {
	recorded := in.Recorded.LostSince
	if shown == nil {
		return recorded != nil
	}
	return in.LostSince.Equal(in.Snapshot.At) || recorded != nil && recorded.Before(shown)
}

// surveying waits until every existing volume is surveyed, and then chooses.
func (in Input) surveying(now time.Time) Decision {
	if waits, surveyed := in.common().Surveying(); !surveyed {
		return waits
	}
	c := choose(in.Evidence)
	switch {
	case c.Failed:
		return Decision{Outcome: tasks.Fail, Code: v1alpha1.ErrNothingToRecover, Recovery: in.Recorded, Message: c.Why}
	case c.Waits:
		return in.common().Stay("%s", c.Why)
	}
	d := in.common().Enter(v1alpha1.RecoveryStarting, now, "%s", c.Why)
	d.Recovery.Member, d.Recovery.Source = c.Member, c.Source
	if c.Source != "" {
		d.Recovery.Revision, d.Recovery.HighestRevision, d.Recovery.HadData = c.AtLeast, in.highest(), in.hadData(c.Member)
		d.Recovery.PreviousClusterID = cmp.Or(c.ClusterID, d.Recovery.PreviousClusterID)
		d.Recovery.EarlierClusterIDs = newcluster.Earlier(in.Lineage, d.Recovery.PreviousClusterID)
	}
	return d
}

// starting waits until the cluster serves again.
func (in Input) starting(now time.Time) Decision {
	if in.Recorded.Source == "" {
		return in.restarting()
	}
	return in.common().Starting(now)
}

// restarting waits until the members, started as they were, have a quorum.
func (in Input) restarting() Decision {
	s, r, c := in.Snapshot, in.Recorded, in.common()
	switch {
	case s.StatefulSet.HeldAtZeroBy != "":
		return c.AwaitScaleUp()
	case newcluster.Quorate(s):
		return Decision{Outcome: tasks.Done, Recovery: r, Message: fmt.Sprintf("the quorum is back: %d of %d voters serve with the data that they had, and nothing was rebuilt", s.ServingVoters(), len(s.Cluster.Voters))}
	case in.Hibernates:
		return in.hibernated()
	case !in.StartedSince.IsZero() && s.At.Sub(in.StartedSince) > quorumDeadline:
		return Decision{Outcome: tasks.Fail, Code: v1alpha1.ErrNotQuorate, Recovery: r, Message: fmt.Sprintf(
			"the members that were started have the data of a quorum, and did not form one within %s: check why they do not start or cannot reach each other: %s", quorumDeadline, c.Describe())}
	}
	return c.Stay("waiting until the members have a quorum again: %s", c.Describe())
}

// hibernated ends a recovery that has rebuilt nothing when users hibernate the Etcd. If it waited, it would take members that wake up for lost.
func (in Input) hibernated() Decision {
	return Decision{Outcome: tasks.Fail, Code: v1alpha1.ErrHibernated, Recovery: in.Recorded,
		Message: "spec.replicas was set to 0, and no data was changed: wake the Etcd up, and create the task again if there is no quorum then"}
}

// growing waits until every member votes.
func (in Input) growing() Decision {
	waits, voting := in.common().Growing()
	if voting == 0 {
		return waits
	}
	return Decision{Outcome: tasks.Done, Recovery: in.Recorded, Message: fmt.Sprintf(
		"%s, and all %d members vote. What they had before stays on their volumes until this task is removed", story(in.Recorded), voting)}
}
