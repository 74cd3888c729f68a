// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	// outstanding are the conditions that are not True while a part of the spec has yet to be carried out, the most informative first.
	outstanding = []string{
		v1alpha1.ConditionHibernated, v1alpha1.ConditionAllMembersUpdated, v1alpha1.ConditionScaled, v1alpha1.ConditionTLSReady,
		v1alpha1.ConditionVolumesGrown, v1alpha1.ConditionVolumesMoved, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionReconciled,
	}
	// always are the conditions that every Etcd has.
	always = []string{v1alpha1.ConditionAllMembersUpdated, v1alpha1.ConditionAllMembersReady}
)

// setProgress sets the conditions that follow from the rest of the status and the tasks. Stalled and Reconciling are absent unless they are
// True. Tools that use kstatus take the first of the two, so Stalled comes first.
func setProgress(etcd *v1alpha1.Etcd, next *v1alpha1.EtcdStatus, tasks []v1alpha1.EtcdOperatorTask, now metav1.Time) {
	done := upToDate(etcd, next)
	set(next, done, now)
	put(next, v1alpha1.ConditionStalled, stalled(next, tasks), now)
	var reconciling *metav1.Condition
	if done.Status != metav1.ConditionTrue {
		reconciling = ptr.To(conditions.True(v1alpha1.ConditionReconciling, done.Reason, "%s", done.Message))
	}
	put(next, v1alpha1.ConditionReconciling, reconciling, now)
	slices.SortStableFunc(next.Conditions, func(a, b v1alpha1.Condition) int {
		return cmp.Compare(slices.Index(last, a.Type), slices.Index(last, b.Type))
	})
}

// last are the conditions at the end of the list, in this order.
var last = []string{v1alpha1.ConditionUpToDate, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling}

// put sets a condition, or removes it if it is nil.
func put(next *v1alpha1.EtcdStatus, conditionType string, c *metav1.Condition, now metav1.Time) {
	if c == nil {
		next.Conditions.Remove(conditionType)
		return
	}
	set(next, *c, now)
}

// stalled returns the condition Stalled: why a person has to act before the spec can be carried out; nil if no one has to.
func stalled(next *v1alpha1.EtcdStatus, tasks []v1alpha1.EtcdOperatorTask) *metav1.Condition {
	because := func(reason, message string) *metav1.Condition {
		return ptr.To(conditions.True(v1alpha1.ConditionStalled, reason, "%s", message))
	}
	if c := next.Conditions.Find(v1alpha1.ConditionReconciled); c != nil && c.Status == metav1.ConditionFalse {
		return because(c.Reason, c.Message)
	}
	for i := range tasks {
		t := &tasks[i]
		if c := stalledBecause(t); c != nil {
			return because(v1alpha1.ReasonRolloutStalled, fmt.Sprintf("Task %s: %s", t.Name, c.Message))
		}
	}
	if c := next.Conditions.Find(v1alpha1.ConditionScaled); c != nil && c.Reason == v1alpha1.ReasonSingleMemberNotAllowed {
		return because(c.Reason, c.Message)
	}
	if c := next.Conditions.Find(v1alpha1.ConditionDataVolumesReady); c != nil && c.Reason == v1alpha1.ReasonFirstStartBlocked {
		return because(c.Reason, c.Message)
	}
	return nil
}

// stalledBecause returns the condition of a rollout that is stalled; nil if it is not.
func stalledBecause(t *v1alpha1.EtcdOperatorTask) *metav1.Condition {
	c := t.Status.Progressing()
	if !t.Spec.Type.IsRollout() || t.Status.State.IsFinal() || c.Reason != v1alpha1.ReasonStalled {
		return nil
	}
	return &c
}

// upToDate returns the condition UpToDate: whether the newest spec is carried out.
func upToDate(etcd *v1alpha1.Etcd, next *v1alpha1.EtcdStatus) metav1.Condition {
	if next.ObservedGeneration != etcd.Generation {
		message := "The newest spec is not applied yet."
		if op := next.LastOperation; op != nil && op.State == v1alpha1.OperationRequeue {
			message = op.Description
		}
		if c := next.Conditions.Find(v1alpha1.ConditionVolumesMoved); c != nil {
			message = c.Message
		}
		return conditions.False(v1alpha1.ConditionUpToDate, v1alpha1.ReasonSpecPending, "%s", message)
	}
	for _, condition := range outstanding {
		switch c := next.Conditions.Find(condition); {
		case c == nil && slices.Contains(always, condition):
			return conditions.False(v1alpha1.ConditionUpToDate, v1alpha1.ReasonNoMembersInStatus, "Condition %s is not known yet.", condition)
		case c != nil && c.Status != metav1.ConditionTrue:
			return conditions.False(v1alpha1.ConditionUpToDate, c.Reason, "%s", cmp.Or(c.Message, fmt.Sprintf("Condition %s is %s.", c.Type, c.Status)))
		}
	}
	return conditions.True(v1alpha1.ConditionUpToDate, v1alpha1.ReasonUpToDate, "The newest spec is carried out.")
}
