// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package recovery is the task type QuorumLossRecovery: a cluster of several members that has lost its quorum for
// good starts again, from the most advanced data that has survived, or else from the newest backup.
//
// The task itself changes nothing but the Jobs in which the agent looks at the volumes. While its status names one of
// the phases in which all members have to be stopped, the Etcd controller holds the StatefulSet at zero replicas;
// once the status says how the cluster starts again, that controller configures the members accordingly, and scales up again. What is done to
// data is done by the agent before a member starts, and none is deleted: what was there is put aside.
//
// The rebuilt cluster has another ID than the one before. So a member that comes back late, with the data
// that it had, is a stranger to it, and cannot form a quorum with others.
package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
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

// operations that lastOperation names, by phase.
var operations = map[v1alpha1.RecoveryPhase]string{
	v1alpha1.RecoveryConfirming: "ConfirmQuorumLoss",
	v1alpha1.RecoveryStopping:   "StopMembers",
	v1alpha1.RecoverySurveying:  "SurveyVolumes",
	v1alpha1.RecoveryStarting:   "StartMembers",
	v1alpha1.RecoveryGrowing:    "GrowBack",
}

// Decision is what to say of the task, and the phase that it enters or stays in.
type Decision struct {
	// Outcome is Continue, Done or Fail; Code goes with Fail.
	Outcome tasks.Outcome
	Code    v1alpha1.ErrorCode
	// Recovery is how far it is now.
	Recovery v1alpha1.RecoveryStatus
	// Message says what is waited for, what was decided and why, or how it has ended.
	Message string
	// Survey: Jobs have to be created for volumes that have none yet, or removed from those that are given up.
	Survey bool
}

// decide says how far a recovery has come, and what is next. It is pure.
func decide(in Input, now time.Time) Decision {
	switch in.Recorded.Phase {
	case v1alpha1.RecoveryStopping:
		return in.stopping(now)
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
	case quorate(s):
		return Decision{Outcome: tasks.Done, Recovery: next, Message: "the quorum returned on its own, and nothing was changed: " + why}
	case !lost:
		return Decision{Outcome: tasks.Continue, Recovery: next, Message: why}
	}
	if !in.LostSince.IsZero() {
		next.LostSince = ptr.To(metav1.NewTime(in.LostSince).Rfc3339Copy())
	}
	if in.LostSince.IsZero() || s.At.Sub(in.LostSince) < gracePeriod || now.Sub(s.At) > maxUnobserved {
		return Decision{Outcome: tasks.Continue, Recovery: next, Message: fmt.Sprintf("%s; all members are stopped once this operator has observed that for %s without interruption", why, gracePeriod)}
	}
	in.Recorded = next // nothing may have been recorded so far: writes of the status can fail for as long
	return in.enter(v1alpha1.RecoveryStopping, now, "there has been no quorum for %s: %s; all members are stopped, so that their data can be compared", gracePeriod, why)
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

// stopping waits until no member runs.
func (in Input) stopping(now time.Time) Decision {
	switch {
	case !in.held():
		return in.stay("waiting until StatefulSet %s is scaled to zero", in.Snapshot.StatefulSet.Name)
	case len(in.Snapshot.Surplus) > 0:
		return in.stay("waiting until these are gone: %s; if a node is gone, power off its machine, and only then taint it with node.kubernetes.io/out-of-service", strings.Join(in.Snapshot.Surplus, ", "))
	}
	return in.enter(v1alpha1.RecoverySurveying, now, "no member is running: the agent surveys each volume")
}

// surveying waits until every existing volume is surveyed, and then chooses.
func (in Input) surveying(now time.Time) Decision {
	switch {
	case !in.held():
		return in.stay("StatefulSet %s is no longer scaled to zero: waiting until it is", in.Snapshot.StatefulSet.Name)
	case len(in.Snapshot.Surplus) > 0:
		return in.stay("members were started again, and may still write: waiting until these are gone: %s", strings.Join(in.Snapshot.Surplus, ", "))
	}
	if waits, act := survey.Pending(in.Volumes); len(waits) > 0 {
		d := in.stay("%s", strings.Join(waits, "; "))
		d.Survey = act
		return d
	}
	c := choose(in.Evidence)
	switch {
	case c.Failed:
		return Decision{Outcome: tasks.Fail, Code: v1alpha1.ErrNothingToRecover, Recovery: in.Recorded, Message: c.Why}
	case c.Waits:
		return in.stay("%s", c.Why)
	}
	d := in.enter(v1alpha1.RecoveryStarting, now, "%s", c.Why)
	d.Recovery.Member, d.Recovery.Source = c.Member, c.Source
	if c.Source != "" {
		d.Recovery.PreviousClusterID = cmp.Or(c.ClusterID, d.Recovery.PreviousClusterID)
		d.Recovery.EarlierClusterIDs = earlier(in.Lineage, d.Recovery.PreviousClusterID)
	}
	return d
}

// starting waits until the cluster serves again.
func (in Input) starting(now time.Time) Decision {
	s, r := in.Snapshot, in.Recorded
	switch {
	case r.Source != "" && !in.Configured:
		return in.stay("configuring the members to rebuild the cluster from %s", r.Member)
	case s.StatefulSet.HeldAtZeroBy != "":
		return in.stay("waiting until StatefulSet %s is scaled up again", s.StatefulSet.Name)
	case r.Source == "" && quorate(s):
		return Decision{Outcome: tasks.Done, Recovery: r, Message: fmt.Sprintf("the quorum is back: %d of %d voters serve with the data that they had, and nothing was rebuilt", s.ServingVoters(), len(s.Cluster.Voters))}
	case r.Source == "" && !in.StartedSince.IsZero() && s.At.Sub(in.StartedSince) > quorumDeadline:
		return Decision{Outcome: tasks.Fail, Code: v1alpha1.ErrNotQuorate, Recovery: r, Message: fmt.Sprintf(
			"a quorum of the members has its data, and they have not found each other within %s: look at why they do not start, or not reach each other: %s", quorumDeadline, in.members())}
	case r.Source == "":
		return in.stay("waiting until the members have a quorum again: %s", in.members())
	}
	if !quorate(s) || s.Cluster.ID == 0 || id(s.Cluster.ID) == r.PreviousClusterID || !in.participates() {
		return in.stay("waiting until %s serves: %s", r.Member, in.members())
	}
	return in.enter(v1alpha1.RecoveryGrowing, now, "%s serves alone, as cluster %s: the others join, one by one", r.Member, id(s.Cluster.ID))
}

// growing waits until every member votes.
func (in Input) growing() Decision {
	s := in.Snapshot
	voting := s.CountOrdinals(func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassParticipating && o.Votes() })
	if s.StatefulSet.HeldAtZeroBy != "" || s.Replicas() == 0 || voting < s.Replicas() {
		return in.stay("%d of %d members vote: %s", voting, s.Replicas(), in.members())
	}
	return Decision{Outcome: tasks.Done, Recovery: in.Recorded, Message: fmt.Sprintf(
		"%s, and all %d members vote. What they had before stays on their volumes until this task is removed", story(in.Recorded), voting)}
}

// enter enters another phase.
func (in Input) enter(phase v1alpha1.RecoveryPhase, now time.Time, format string, args ...any) Decision {
	next := in.Recorded
	next.Phase, next.PhaseSince, next.LostSince = phase, metav1.Time{Time: now}, nil
	return Decision{Outcome: tasks.Continue, Recovery: next, Message: fmt.Sprintf(format, args...)}
}

// stay waits.
func (in Input) stay(format string, args ...any) Decision {
	return Decision{Outcome: tasks.Continue, Recovery: in.Recorded, Message: fmt.Sprintf(format, args...)}
}

// held reports whether this task holds the StatefulSet at zero.
func (in Input) held() bool {
	return in.Snapshot.StatefulSet.Observed && in.Snapshot.StatefulSet.HeldAtZeroBy == in.Task && in.Snapshot.Replicas() == 0
}

// participates reports whether the member that the cluster is rebuilt from participates.
func (in Input) participates() bool {
	return slices.ContainsFunc(in.Snapshot.Ordinals, func(o cluster.Ordinal) bool {
		return o.Member == in.Recorded.Member && o.Class == v1alpha1.ClassParticipating
	})
}

// members says how each of them is, with the words of the agent or the kubelet where they have some.
func (in Input) members() string {
	said := make([]string, 0, len(in.Snapshot.Ordinals))
	for _, o := range in.Snapshot.Ordinals {
		is := fmt.Sprintf("%s is %s", o.Name, o.Describe())
		switch {
		case o.Role == v1alpha1.RoleLearner:
			is = o.Name + " is a learner that catches up"
		case o.Pod != nil && o.Pod.Refusal != nil:
			is = fmt.Sprintf("%s is %s (%s: %s)", o.Name, o.Class, o.Pod.Refusal.Reason, o.Pod.Refusal.Message)
		}
		said = append(said, is)
	}
	return strings.Join(said, "; ")
}

func id(clusterID uint64) string { return fmt.Sprintf("%x", clusterID) }
