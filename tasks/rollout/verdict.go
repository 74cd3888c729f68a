// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict translates a decision for the task engine. It is pure.
func verdict(in rollout.Input, d rollout.Decision, now time.Time) tasks.Verdict {
	recorded := rollout.Record(in, d, now)
	v := tasks.Verdict{
		Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Rollout: &recorded,
		Progress:      fmt.Sprintf("%d/%d", recorded.UpdatedReplicas, recorded.Replicas),
		LastOperation: lastOperation(in.Recorded, recorded),
		Conditions:    []metav1.Condition{reachable(in)},
	}
	set := in.Snapshot.StatefulSet
	switch d.Conclusion {
	case rollout.Finished:
		v.Outcome = tasks.Done
		v.Message = fmt.Sprintf("every pod of StatefulSet %s is at revision %s, and every member participates", set.Name, recorded.TargetRevision)
	case rollout.Superseded:
		v.Outcome, v.Code = tasks.Reject, v1alpha1.ErrSuperseded
		v.Message = rollout.SupersededMessage(set.Name, recorded.TargetRevision, set.UpdateRevision)
	case rollout.Disengaged:
		v.Outcome, v.Code, v.Message = tasks.Fail, v1alpha1.ErrStrategy, cmp.Or(set.Objection, replacer.NotOnDelete(set.Name))
		if set.OnDelete {
			v.Code = v1alpha1.ErrForeignObject
		}
	case rollout.Paused:
		v.Pauses = true
	case rollout.Wait:
		v.Reason, v.Message, v.RequeueAfter = v1alpha1.ReasonHeld, fmt.Sprintf("%s: %s", d.Hold().Guard, d.Hold().Message), pollInterval
		if onlyWaitsForStart(in.Snapshot) {
			v.RequeueAfter = startInterval
		}
		if rollout.IsHandoverUnderWay(recorded.LeaderHandover, in.Snapshot, now) {
			v.RequeueAfter = handoverInterval
		}
	case rollout.Act:
		v.Message = d.Step.Reason
		v.Step = &tasks.Step{Operation: string(d.Step.Action), Reason: d.Step.Reason, Detail: detail{in: in, at: now, step: *d.Step}, RecheckAfter: pollInterval}
		if !d.Step.IsRemoval() {
			v.Step.RecheckAfter = 50 * time.Millisecond
		}
	}
	v.ProgressDeadline = in.Config.ProgressDeadline.Duration
	return v
}

// onlyWaitsForStart reports whether one pod is missing or has not started etcd yet, and every other member participates.
func onlyWaitsForStart(s *cluster.Snapshot) bool {
	count := func(classes ...v1alpha1.PodClass) int {
		return s.CountOrdinals(func(o cluster.Ordinal) bool { return slices.Contains(classes, o.KnownClass()) })
	}
	return count(v1alpha1.ClassMissing, v1alpha1.ClassStarting) == 1 && count(v1alpha1.ClassParticipating) == s.Replicas()-1
}

// lastOperation returns the newest replacement if it has ended since the status before; otherwise nil, so that the engine's record of the
// step stays, which may be a newer one.
func lastOperation(before, now v1alpha1.RolloutStatus) *v1alpha1.LastOperation {
	if len(now.Pods) == 0 {
		return nil
	}
	last := now.Pods[len(now.Pods)-1]
	ended := slices.ContainsFunc(before.Pods, func(p v1alpha1.RolloutPod) bool {
		return p.UID == last.UID && p.LastOperation.State == v1alpha1.OperationStateInProgress
	})
	if last.LastOperation.State == v1alpha1.OperationStateInProgress || !ended {
		return nil
	}
	return &last.LastOperation
}

// reachable returns the condition EtcdReachable.
func reachable(in rollout.Input) metav1.Condition {
	const condition = v1alpha1.ConditionEtcdReachable
	switch {
	case !in.Timers.NoAnswerSince.IsZero() && in.HasSource:
		return conditions.False(condition, v1alpha1.ReasonNoMemberAnswers,
			"no member answers the operator although pods are ready: check NetworkPolicies and TLS; the rollout waits, since members of the source cluster may vote, too")
	case !in.Timers.NoAnswerSince.IsZero():
		return conditions.False(condition, v1alpha1.ReasonNoMemberAnswers,
			"no member answers the operator although pods are ready: check NetworkPolicies and TLS; after %s the rollout goes by readiness probes and member leases", in.Config.Grace())
	case !in.Snapshot.Cluster.Reachable:
		return conditions.Unknown(condition, v1alpha1.ReasonNoMemberAnswers, "no member answers, and none is ready")
	}
	return conditions.True(condition, v1alpha1.ReasonMembersAnswer, "members answer the operator")
}
