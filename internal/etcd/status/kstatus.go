// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outstanding are the conditions that are not True while something of the spec is still to be carried out, in the order in
// which a person asks for them.
var outstanding = []string{
	v1alpha1.ConditionHibernated, v1alpha1.ConditionAllMembersUpdated, v1alpha1.ConditionScaled, v1alpha1.ConditionTLSReady,
	v1alpha1.ConditionVolumesGrown, v1alpha1.ConditionAllMembersReady,
}

// setProgress sets the conditions Stalled and Reconciling, which follow from the rest of the status and the tasks. Tools that
// follow kstatus take the first of the two that is True, so Stalled is set first.
func setProgress(etcd *v1alpha1.Etcd, next *v1alpha1.EtcdStatus, tasks []v1alpha1.EtcdOperatorTask, now metav1.Time) {
	set(next, stalled(next, tasks), now)
	set(next, reconciling(etcd, next), now)
}

// stalled returns the condition Stalled: whether a person has to act before the spec can be carried out.
func stalled(next *v1alpha1.EtcdStatus, tasks []v1alpha1.EtcdOperatorTask) metav1.Condition {
	if c := next.Conditions.Find(v1alpha1.ConditionReconciled); c != nil && c.Status == metav1.ConditionFalse {
		return conditions.True(v1alpha1.ConditionStalled, c.Reason, "%s", c.Message)
	}
	for i := range tasks {
		t := &tasks[i]
		if c := stalledBecause(t); c != nil {
			return conditions.True(v1alpha1.ConditionStalled, v1alpha1.ReasonRolloutStalled, "Task %s: %s", t.Name, c.Message)
		}
	}
	if c := next.Conditions.Find(v1alpha1.ConditionScaled); c != nil && c.Reason == v1alpha1.ReasonScaleInRefused {
		return conditions.True(v1alpha1.ConditionStalled, c.Reason, "%s", c.Message)
	}
	if c := next.Conditions.Find(v1alpha1.ConditionDataVolumesReady); c != nil && c.Reason == v1alpha1.ReasonFirstStartBlocked {
		return conditions.True(v1alpha1.ConditionStalled, c.Reason, "%s", c.Message)
	}
	return conditions.False(v1alpha1.ConditionStalled, v1alpha1.ReasonNotStalled, "")
}

// stalledBecause returns the condition of a rollout that is stalled; nil if it is not.
func stalledBecause(t *v1alpha1.EtcdOperatorTask) *metav1.Condition {
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionProgressing)
	if !t.Spec.Type.IsRollout() || t.Status.State.IsFinal() || c == nil || c.Reason != v1alpha1.ReasonStalled {
		return nil
	}
	return c
}

// reconciling returns the condition Reconciling: whether something of the spec is still to be carried out.
func reconciling(etcd *v1alpha1.Etcd, next *v1alpha1.EtcdStatus) metav1.Condition {
	if next.ObservedGeneration != etcd.Generation {
		message := "The newest spec is not applied yet."
		if op := next.LastOperation; op != nil && op.State == v1alpha1.OperationRequeue {
			message = op.Description
		}
		return conditions.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonSpecPending, "%s", message)
	}
	for _, condition := range outstanding {
		if c := next.Conditions.Find(condition); c != nil && c.Status != metav1.ConditionTrue {
			return conditions.True(v1alpha1.ConditionReconciling, c.Reason, "%s", cmp.Or(c.Message, fmt.Sprintf("Condition %s is %s.", c.Type, c.Status)))
		}
	}
	return conditions.False(v1alpha1.ConditionReconciling, v1alpha1.ReasonReconciled, "The newest spec is carried out.")
}
