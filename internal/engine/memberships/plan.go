// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberships

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/attempts"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
)

// mayBeDue reports whether the members of an Etcd may have to change, by its status and its tasks alone. It is evaluated for every Etcd;
// members are only queried if it is true. cordoned: the node of the only member is cordoned. left: what only another task takes
// away is left (members.LeftBehind).
func mayBeDue(etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask, cordoned, left bool) bool {
	s := &etcd.Status
	switch {
	case etcd.DeletionTimestamp != nil || etcd.Spec.Replicas == 0 && !etcd.SourceStays() || s.ClusterID == "":
		return false
	case etcd.SpecSuspended() && !etcd.AsksFor(s.ClusterSize):
		// The number of members stays, but a member that has lost its data is replaced.
		return false
	case !s.Conditions.IsTrue(v1alpha1.ConditionReady):
		// Members change only while there is a quorum.
		return false
	}
	if etcd.Source() != nil && !etcd.SourceStays() {
		// The members of the source cluster leave.
		return true
	}
	return (left || cordoned && etcd.SurgesOnDrain()) && !etcd.SpecSuspended() || members.Relieve(etcd, tasks) != "" || etcd.Moves() || s.ClusterSize != etcd.Spec.Replicas || !s.Conditions.IsTrue(v1alpha1.ConditionScaled) || !s.Conditions.IsTrue(v1alpha1.ConditionAllMembersReady)
}

// covered reports whether a task that has not ended changes the members. A task that a user created counts as well.
func covered(tasks []v1alpha1.EtcdOperatorTask) bool {
	return slices.ContainsFunc(tasks, func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.Type == v1alpha1.MembershipChange && !t.Status.State.IsFinal() && t.DeletionTimestamp == nil
	})
}

// isDue reports whether there is a step to take. A cluster of an odd size whose pods are being replaced only changes its size afterwards,
// with two exceptions: a rollout may wait for a member that has lost its data or has yet to join, and a recreation may wait until the
// newest spec is applied, for which a person has decided that all pods get the newest template.
func isDue(in membership.Input, d membership.Decision, outdated int, tasks []v1alpha1.EtcdOperatorTask) bool {
	if d.Step == nil {
		return false
	}
	voters := 0
	for _, m := range in.Members {
		if m.Learner || m.Lost {
			return true
		}
		voters++
	}
	if outdated == 0 || voters%2 == 0 || waitsForMember(etcdtasks.RollingOut(tasks), in.Members) {
		return true
	}
	further := bringsFurther(in, d.Step)
	recreates := slices.ContainsFunc(tasks, func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Status.State == v1alpha1.TaskStateInProgress && t.StopsNothingYet() && (!further || !t.Spec.Suspend)
	})
	return recreates || !further && voters == in.Goal.Size
}

// bringsFurther reports whether a step begins to add a further member beside as many as the goal has, so that these get other pods, all
// with the newest template. That is for a rollout to decide, which may have to wait for a canary, a window or a person.
func bringsFurther(in membership.Input, step *membership.Step) bool {
	return len(in.Members) == in.Goal.Size && step.Ordinal >= in.Goal.Size && (step.Action == membership.ScaleUp || step.Action == membership.AddLearner)
}

// waitsForMember reports whether a rollout that has begun only continues once a further member has joined: to relieve the only one, to move
// a volume, or because its pod already exists, and is waited for. A version that the rollout refuses, or a snapshot that it waits for, keeps that member away
// as well.
func waitsForMember(rollout *v1alpha1.EtcdOperatorTask, members []membership.Member) bool {
	if rollout == nil || rollout.Status.Rollout == nil {
		return false
	}
	r := rollout.Status.Rollout
	if r.Relieve != "" {
		return true
	}
	joins := func(pod string) bool {
		return pod != "" && !slices.ContainsFunc(members, func(m membership.Member) bool {
			return m.Owner == membership.Ours && strings.HasSuffix(pod, fmt.Sprintf("-%d", m.Ordinal))
		})
	}
	keepsAway := func(b v1alpha1.BlockedBy) bool {
		answers := joins(b.Pod) // with its version, once it has joined
		return b.Guard == v1alpha1.GuardVersionsCompatible && !answers || b.Guard == v1alpha1.GuardSnapshotTaken
	}
	if r.HeldBy == nil || slices.ContainsFunc(r.BlockedBy, keepsAway) {
		return false
	}
	switch r.HeldBy.Guard {
	case v1alpha1.GuardVolumeReachable:
		return true
	case v1alpha1.GuardOthersParticipating, v1alpha1.GuardOthersServing, v1alpha1.GuardVersionsCompatible:
		return joins(r.HeldBy.Pod)
	}
	return false
}

// next returns the task to create, and how long to wait before that. Its name is derived from what is to be done, so that two operators, or
// one with a stale cache, do not create two tasks.
func next(etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask, now time.Time) (*v1alpha1.EtcdOperatorTask, time.Duration) {
	prefix := fmt.Sprintf("%s-members-%d-%s-", etcd.Name, etcd.Spec.Replicas, ownership.Suffix(etcd.UID))
	attempt, wait := attempts.Next(tasks, v1alpha1.MembershipChange, prefix, now)
	return etcdtasks.New(etcd, fmt.Sprintf("%s%d", prefix, attempt), v1alpha1.EtcdOperatorTaskSpec{
		Type:    v1alpha1.MembershipChange,
		Config:  fmt.Sprintf("size: %d\n", etcd.Spec.Replicas),
		Suspend: attempts.InheritSuspend(etcd, tasks, func(t v1alpha1.TaskType) bool { return t == v1alpha1.MembershipChange }),
	}), wait
}
