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

// OfTask returns those of the conditions Stalled and Reconciling that a task has, in the order in which they have to be in its
// status: tools that follow kstatus take the first of the two. Neither is there once a task has succeeded.
func OfTask(status *v1alpha1.EtcdOperatorTaskStatus) []metav1.Condition {
	progressing := cmp.Or(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing), &metav1.Condition{})
	// Before the task engine says more, the task has been seen.
	reason := cmp.Or(progressing.Reason, string(v1alpha1.TaskStatePending))
	stalled := True(v1alpha1.ConditionStalled, reason, "%s", progressing.Message)
	reconciling := True(v1alpha1.ConditionReconciling, reason, "%s", progressing.Message)
	switch {
	case status.State == v1alpha1.TaskStateFailed || status.State == v1alpha1.TaskStateRejected:
		return []metav1.Condition{stalled}
	case status.State == v1alpha1.TaskStateSucceeded:
		return nil
	case reason == v1alpha1.ReasonStalled:
		return []metav1.Condition{stalled, reconciling}
	}
	return []metav1.Condition{reconciling}
}
