// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package recovery is the task type QuorumLossRecovery: a cluster of several members that has lost its quorum for
// good starts again, from the most advanced data that has survived, or else from the newest backup.
//
// What is done to data is done by the agent before a member starts, and none is deleted: what was there is put aside. Package
// newcluster has how the members are stopped and started.
//
// The rebuilt cluster has another ID than the one before. So a member that comes back late, with the data
// that it had, is a stranger to it, and cannot form a quorum with others.
package recovery

import (
	"cmp"
	"fmt"
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
	// gracePeriod is how long etcd has to be without a quorum before anything is done. A member that restarts is
	// back before.
	gracePeriod = 30 * time.Second
	// quorumDeadline is how long members that were started again with a quorum of their data may take to find it.
	quorumDeadline = 10 * time.Minute
)

// Input is all that a decision rests on.
type Input struct {
	Snapshot *cluster.Snapshot
	// Task is the UID of the task.
	Task types.UID
	// Recorded is what the task's status says of the recovery so far.
	Recorded v1alpha1.RecoveryStatus
	// LostSince is since when this operator has seen the quorum lost, in every look; zero when it is not. The status shows it
	// to people, and nothing is decided on what that says.
	LostSince time.Time
	// StartedSince is since when this operator has seen the members started, in every look; zero in other phases. It is not the time
	// in the status, which another clock may have written.
	StartedSince time.Time
	// ClusterID is the recorded ID of the cluster, in hex.
	ClusterID string
	// Configured: the configuration of the members says how the cluster is rebuilt.
	Configured bool
	// Evidence is gathered once the phase is Surveying.
	Evidence
}

// common returns what the phases rest on that other types have too.
func (in Input) common() newcluster.Input {
	return newcluster.Input{Snapshot: in.Snapshot, Task: in.Task, Recorded: in.Recorded, Configured: in.Configured, Volumes: in.Volumes}
}

// Decision is what to say of the task, and the phase that it enters or stays in.
type Decision = newcluster.Decision

// decide says how far a recovery has come, and what is next. It is pure.
func decide(in Input, now time.Time) Decision {
	switch in.Recorded.Phase {
	case v1alpha1.RecoveryStopping:
		return in.common().Stopping(now)
	case v1alpha1.RecoverySurveying:
		return in.surveying(now)
	case v1alpha1.RecoveryStarting:
		return in.starting(now)
	case v1alpha1.RecoveryGrowing:
		return in.growing()
	}
	return in.confirming(now)
}

// confirming waits until this operator has seen etcd without a quorum for the grace period, without interruption.
func (in Input) confirming(now time.Time) Decision {
	next, s := in.Recorded, in.Snapshot
	next.Phase = v1alpha1.RecoveryConfirming
	next.PhaseSince = metav1.Time{Time: cmp.Or(next.PhaseSince.Time, now)}
	next.PreviousClusterID = in.ClusterID
	next.LostSince = nil
	lost, why := quorumLost(s)
	switch {
	case newcluster.Quorate(s):
		return Decision{Outcome: tasks.Done, Recovery: next, Message: "the quorum returned on its own, and nothing was changed: " + why}
	case !lost:
		return Decision{Outcome: tasks.Continue, Recovery: next, AtOnce: in.beginsAgain(nil), Message: why}
	}
	if !in.LostSince.IsZero() {
		next.LostSince = ptr.To(metav1.NewTime(in.LostSince).Rfc3339Copy())
	}
	if in.LostSince.IsZero() || s.At.Sub(in.LostSince) < gracePeriod || now.Sub(s.At) > maxUnobserved {
		return Decision{Outcome: tasks.Continue, Recovery: next, AtOnce: in.beginsAgain(next.LostSince), Message: fmt.Sprintf("%s; all members are stopped once this operator has observed that for %s without interruption", why, gracePeriod)}
	}
	in.Recorded = next // nothing may have been recorded so far: writes of the status can fail for as long
	return in.common().Enter(v1alpha1.RecoveryStopping, now, "there has been no quorum for %s: %s; all members are stopped, so that their data can be compared", gracePeriod, why)
}

// beginsAgain reports whether the grace period begins again, or ends, with what is shown of it now. That is written at once: a late
// write of another operator, which saw it end, then conflicts. That another operator began to observe later is no reason to write:
// each of two that run at the same time would correct the other without a pause.
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

// restarting waits until members that were started as they were have a quorum.
func (in Input) restarting() Decision {
	s, r, c := in.Snapshot, in.Recorded, in.common()
	switch {
	case s.StatefulSet.HeldAtZeroBy != "":
		return c.Stay("waiting until StatefulSet %s is scaled up again", s.StatefulSet.Name)
	case newcluster.Quorate(s):
		return Decision{Outcome: tasks.Done, Recovery: r, Message: fmt.Sprintf("the quorum is back: %d of %d voters serve with the data that they had, and nothing was rebuilt", s.ServingVoters(), len(s.Cluster.Voters))}
	case !in.StartedSince.IsZero() && s.At.Sub(in.StartedSince) > quorumDeadline:
		return Decision{Outcome: tasks.Fail, Code: v1alpha1.ErrNotQuorate, Recovery: r, Message: fmt.Sprintf(
			"a quorum of the members has its data, and they have not found each other within %s: look at why they do not start, or not reach each other: %s", quorumDeadline, c.Describe())}
	}
	return c.Stay("waiting until the members have a quorum again: %s", c.Describe())
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
