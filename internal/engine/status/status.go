// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package status records in the status of a task what the task engine has decided. It changes the object in memory, and has no
// client or clock; the engine writes it.
package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxLastErrors bounds status.lastErrors.
	maxLastErrors = 10
	// maxMessage bounds what goes into conditions and errors, in bytes.
	maxMessage = conditions.MaxMessage
	// maxResults bounds the entries of a result, and maxResultKey their keys, in bytes.
	maxResults, maxResultKey = 100, 300
	// sameErrorAgain is the interval at which the same error is written again.
	sameErrorAgain = time.Minute
)

// SetCondition sets a condition of a task, and those that follow from it.
func SetCondition(t *v1alpha1.EtcdOperatorTask, conditionType string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	setConditions(t, now, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message})
}

func setConditions(t *v1alpha1.EtcdOperatorTask, now time.Time, all ...metav1.Condition) {
	for _, c := range all {
		c.ObservedGeneration, c.LastTransitionTime, c.Message = t.Generation, metav1.Time{Time: now}, sanitize.Text(c.Message, maxMessage)
		meta.SetStatusCondition(&t.Status.Conditions, c)
	}
	setProgress(t, now)
}

// setProgress sets the conditions that follow from the others (Stalled, Reconciling), at the end of the list, and removes those that no
// longer apply.
func setProgress(t *v1alpha1.EtcdOperatorTask, now time.Time) {
	s := &t.Status
	before := s.Conditions
	s.Conditions = slices.DeleteFunc(slices.Clone(before), func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionReconciling
	})
	for _, c := range conditions.OfTask(s) {
		c.ObservedGeneration, c.LastTransitionTime = t.Generation, metav1.Time{Time: now}
		if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		s.Conditions = append(s.Conditions, c)
	}
}

// RecordArrival records that a task was seen.
func RecordArrival(t *v1alpha1.EtcdOperatorTask) {
	t.Status.ObservedGeneration = t.Generation
	if t.Status.State == "" {
		t.Status.State = v1alpha1.TaskStatePending
		t.Status.ArrivalResourceVersion = t.ResourceVersion
	}
}

// RecordAdmission records that a task was admitted and runs.
func RecordAdmission(t *v1alpha1.EtcdOperatorTask, config, message string, now time.Time) {
	t.Status.State = v1alpha1.TaskStateInProgress
	t.Status.InitiatedAt = &metav1.Time{Time: now}
	t.Status.Config = config
	SetCondition(t, v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, message, now)
}

// RecordVerdict records the verdict of a handler on a running task.
func RecordVerdict(t *v1alpha1.EtcdOperatorTask, v tasks.Verdict, now time.Time) {
	s := &t.Status
	s.Progress = cmp.Or(v.Progress, s.Progress)
	if v.Rollout != nil {
		s.Rollout = v.Rollout
	}
	if v.Recovery != nil {
		s.Recovery = v.Recovery
	}
	if v.Membership != nil {
		s.Membership = v.Membership
	}
	if v.Result != nil {
		s.Result = cleaned(v.Result)
	}
	if v.LastOperation != nil {
		s.LastOperation = v.LastOperation.DeepCopy()
		s.LastOperation.Reason = sanitize.Text(s.LastOperation.Reason, maxMessage)
	}
	if v.Step != nil {
		s.LastOperation = &v1alpha1.LastOperation{
			Name: v.Step.Operation, State: v1alpha1.OperationStateInProgress,
			LastTransitionTime: metav1.Time{Time: now}, Reason: sanitize.Text(v.Step.Reason, maxMessage),
		}
	}
	setConditions(t, now, v.Conditions...)
	progressing := metav1.ConditionTrue
	if v.Reason == v1alpha1.ReasonStalled || v.Pauses {
		progressing = metav1.ConditionFalse
	}
	SetCondition(t, v1alpha1.ConditionProgressing, progressing, cmp.Or(v.Reason, v1alpha1.ReasonRunning), v.Message, now)
}

// RecordEnd records the end of a task. The code is empty if it succeeded.
func RecordEnd(t *v1alpha1.EtcdOperatorTask, outcome tasks.Outcome, code v1alpha1.ErrorCode, message string, now time.Time) {
	s := &t.Status
	succeeded := metav1.ConditionFalse
	var reason string
	switch outcome {
	case tasks.Done:
		s.State, reason, succeeded = v1alpha1.TaskStateSucceeded, v1alpha1.ReasonSucceeded, metav1.ConditionTrue
	case tasks.Reject:
		s.State, reason = v1alpha1.TaskStateRejected, v1alpha1.ReasonRejected
	default:
		s.State, reason = v1alpha1.TaskStateFailed, v1alpha1.ReasonFailed
	}
	if code != "" {
		AddError(t, code, message, now)
		message = string(code) + ": " + message
	}
	if s.InitiatedAt == nil {
		s.InitiatedAt = &metav1.Time{Time: now}
		admitted := metav1.ConditionTrue
		if outcome == tasks.Reject {
			admitted = metav1.ConditionFalse
		}
		SetCondition(t, v1alpha1.ConditionAdmitted, admitted, reason, message, now)
	}
	s.CompletedAt = &metav1.Time{Time: now}
	Unhold(t)
	if s.Membership != nil {
		s.Membership.Replicas = nil
	}
	SetCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, reason, message, now)
	SetCondition(t, v1alpha1.ConditionFinished, metav1.ConditionTrue, reason, message, now)
	SetCondition(t, v1alpha1.ConditionSucceeded, succeeded, reason, message, now)
}

// Unhold removes which guards block a task: it has ended, or another task has preempted it, so they are not evaluated.
func Unhold(t *v1alpha1.EtcdOperatorTask) {
	if r := t.Status.Rollout; r != nil {
		r.HeldBy, r.BlockedBy = nil, nil
	}
	if m := t.Status.Membership; m != nil {
		m.HeldBy, m.BlockedBy = nil, nil
	}
}

// AddError adds an error to lastErrors. The same error again replaces the older one, at most once a minute.
func AddError(t *v1alpha1.EtcdOperatorTask, code v1alpha1.ErrorCode, description string, now time.Time) {
	e := v1alpha1.LastError{Code: code, Description: sanitize.Text(description, maxMessage), ObservedAt: metav1.Time{Time: now}}
	same := func(o v1alpha1.LastError) bool { return o.Code == e.Code && o.Description == e.Description }
	if i := slices.IndexFunc(t.Status.LastErrors, same); i >= 0 {
		if now.Sub(t.Status.LastErrors[i].ObservedAt.Time) < sameErrorAgain {
			return
		}
		t.Status.LastErrors = slices.Delete(slices.Clone(t.Status.LastErrors), i, i+1)
	}
	t.Status.LastErrors = append(t.Status.LastErrors, e)
	if n := len(t.Status.LastErrors) - maxLastErrors; n > 0 {
		t.Status.LastErrors = t.Status.LastErrors[n:]
	}
}

// cleaned returns a result that is safe to store: part of it comes from the termination message of a container whose image the author of
// the Etcd chooses.
func cleaned(result map[string]string) map[string]string {
	all := make(map[string]string, len(result))
	for _, key := range slices.Sorted(maps.Keys(result)) {
		if len(all) < maxResults {
			all[sanitize.Text(key, maxResultKey)] = sanitize.Text(result[key], maxMessage)
		}
	}
	return all
}

// IsUrgent reports whether a change of status has to be written at once. Messages and counters are not urgent: they change with every flap
// of a pod.
func IsUrgent(before, after *v1alpha1.EtcdOperatorTaskStatus) bool {
	return before.State != after.State || before.ObservedGeneration != after.ObservedGeneration ||
		!equality.Semantic.DeepEqual(before.LastOperation, after.LastOperation) ||
		!equality.Semantic.DeepEqual(before.LastErrors, after.LastErrors) ||
		slices.ContainsFunc(after.Conditions, func(c metav1.Condition) bool {
			return !meta.IsStatusConditionPresentAndEqual(before.Conditions, c.Type, c.Status)
		}) || slices.ContainsFunc(before.Conditions, func(c metav1.Condition) bool { return meta.FindStatusCondition(after.Conditions, c.Type) == nil })
}
