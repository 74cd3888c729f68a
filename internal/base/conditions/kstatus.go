// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"cmp"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OfTask returns the conditions Stalled and Reconciling of a task, in the order in which they have to be set. Tools that
// follow kstatus take the first of the two that is True, so Stalled comes first.
func OfTask(status *v1alpha1.EtcdOperatorTaskStatus) []metav1.Condition {
	progressing := cmp.Or(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing), &metav1.Condition{})
	// Before the task engine says more, the task has been seen.
	reason := cmp.Or(progressing.Reason, string(v1alpha1.TaskStatePending))
	var stalled, reconciling metav1.Condition
	switch {
	case status.State == v1alpha1.TaskStateFailed || status.State == v1alpha1.TaskStateRejected:
		stalled = True(v1alpha1.ConditionStalled, reason, "%s", progressing.Message)
		reconciling = False(v1alpha1.ConditionReconciling, reason, "")
	case status.State == v1alpha1.TaskStateSucceeded:
		stalled = False(v1alpha1.ConditionStalled, reason, "")
		reconciling = False(v1alpha1.ConditionReconciling, reason, "")
	case reason == v1alpha1.ReasonStalled:
		stalled = True(v1alpha1.ConditionStalled, reason, "%s", progressing.Message)
		reconciling = True(v1alpha1.ConditionReconciling, reason, "%s", progressing.Message)
	default:
		stalled = False(v1alpha1.ConditionStalled, reason, "")
		reconciling = True(v1alpha1.ConditionReconciling, reason, "%s", progressing.Message)
	}
	return []metav1.Condition{stalled, reconciling}
}
