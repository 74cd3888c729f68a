// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package conditions builds the conditions of a status.
package conditions

import (
	"cmp"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxMessage bounds a message of a status, in bytes: the API server rejects a condition with more than 32 KiB, and with it
// the whole status. What others wrote into a lease, or into a termination message, has any length.
const MaxMessage = 4 << 10

// New returns a condition. Its message is plain text of at most MaxMessage bytes.
func New(conditionType string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: sanitize.Text(fmt.Sprintf(format, args...), MaxMessage)}
}

// True returns a condition that is true.
func True(conditionType, reason, format string, args ...any) metav1.Condition {
	return New(conditionType, metav1.ConditionTrue, reason, format, args...)
}

// False returns a condition that is false.
func False(conditionType, reason, format string, args ...any) metav1.Condition {
	return New(conditionType, metav1.ConditionFalse, reason, format, args...)
}

// Unknown returns a condition that is unknown.
func Unknown(conditionType, reason, format string, args ...any) metav1.Condition {
	return New(conditionType, metav1.ConditionUnknown, reason, format, args...)
}

// OfTask returns which of the conditions Stalled and Reconciling a task has, in the order that its status needs: tools that use kstatus
// take the first of the two. A task that has succeeded has neither.
func OfTask(status *v1alpha1.EtcdOperatorTaskStatus) []metav1.Condition {
	progressing := status.Progressing()
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
