// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Failure is the error of a stage of a reconcile.
type Failure struct {
	// Code is used if the error has none of its own.
	Code v1alpha1.ErrorCode
	Err  error
	// Waits: it waits for something to be seen first, and so does everything after it.
	Waits bool
}

func (f Failure) lastError(now metav1.Time) v1alpha1.LastError {
	return v1alpha1.LastError{Code: coded.Of(f.Err, f.Code), Description: f.Err.Error(), ObservedAt: now}
}

// In reports whether a status already reports this failure.
func (f Failure) In(reported []v1alpha1.LastError) bool {
	this := f.lastError(metav1.Time{})
	this.Description = sanitize.Text(this.Description, conditions.MaxMessage)
	return slices.ContainsFunc(reported, func(e v1alpha1.LastError) bool { return sameError(e, this) })
}

// findings returns everything that prevents the spec from being carried out. A persistent error keeps the time at which it was first seen,
// so that an unchanged status is not written again.
func findings(recovery *v1alpha1.ClusterRecovery, o Input) []v1alpha1.LastError {
	var found []v1alpha1.LastError
	add := func(code v1alpha1.ErrorCode, description string) {
		found = append(found, v1alpha1.LastError{Code: code, Description: description, ObservedAt: o.Now})
	}
	if len(o.Foreign) > 0 {
		add(v1alpha1.ErrForeignObject, strings.TrimSuffix(ownership.Sentences(o.Foreign), "."))
	}
	if err := unexplained(o.Etcd, recovery, o.Snapshot); err != nil {
		found = append(found, Failure{Err: err}.lastError(o.Now))
	}
	if o.Refused != nil {
		add(v1alpha1.ErrNotAllowed, o.Refused.Error())
	}
	for _, f := range o.Failures {
		found = append(found, f.lastError(o.Now))
	}
	if o.TLS != nil && o.TLS.Problem != nil {
		add(v1alpha1.ErrTLSSecret, o.TLS.Problem.Error())
	} else if o.TLS != nil && o.TLS.Managed.Problem != nil {
		add(v1alpha1.ErrTLSSecret, o.TLS.Managed.Problem.Error())
	}
	if o.ScheduleErr != nil {
		add(v1alpha1.ErrSchedule, o.ScheduleErr.Error())
	}
	for _, b := range o.Etcd.Status.LastErrors {
		if isOpen(b.Code, o) && !slices.ContainsFunc(found, func(e v1alpha1.LastError) bool { return e.Code == b.Code }) {
			found = append(found, b)
		}
	}
	return found
}

// isOpen reports whether the errors with a code may be unresolved.
func isOpen(code v1alpha1.ErrorCode, o Input) bool {
	switch code {
	case v1alpha1.ErrTLSSecret:
		return o.TLS == nil
	case v1alpha1.ErrForeignObject:
		return !o.OwnersChecked
	case v1alpha1.ErrClusterID:
		return servingID(o.Snapshot) == ""
	}
	return slices.Contains(o.Open, code)
}

// keep returns the errors of a status, with failures replacing errors of the same code.
func keep(before []v1alpha1.LastError, failures []Failure, now metav1.Time) []v1alpha1.LastError {
	var all []v1alpha1.LastError
	for _, f := range failures {
		all = append(all, f.lastError(now))
	}
	for _, b := range before {
		if !slices.ContainsFunc(failures, func(f Failure) bool { return f.lastError(now).Code == b.Code }) {
			all = append(all, b)
		}
	}
	return all
}

// maxErrors is the limit of the schema on lastErrors.
const maxErrors = 10

// report writes errors into a status: into lastErrors, the condition Reconciled, and lastOperation.
func report(etcd *v1alpha1.Etcd, next *v1alpha1.EtcdStatus, found []v1alpha1.LastError, now metav1.Time) {
	c := conditions.True(v1alpha1.ConditionReconciled, v1alpha1.ReasonReconciled, "No stage of the reconcile keeps failing.")
	for i := range found {
		found[i].Description = sanitize.Text(found[i].Description, conditions.MaxMessage)
	}
	// A fixed order, so that an unchanged status is not written again.
	slices.SortFunc(found, func(a, b v1alpha1.LastError) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Description, b.Description))
	})
	found = found[:min(len(found), maxErrors)]
	descriptions := make([]string, 0, len(found))
	for i := range found {
		for _, b := range next.LastErrors {
			if sameError(b, found[i]) {
				found[i].ObservedAt = b.ObservedAt
			}
		}
		descriptions = append(descriptions, found[i].Description)
	}
	if len(found) > 0 {
		c = conditions.False(v1alpha1.ConditionReconciled, v1alpha1.ReasonReconcileFailed, "%s.", strings.Join(descriptions, "; "))
	}
	next.LastErrors = found
	set(next, c, now)
	next.LastOperation = lastOperation(etcd, next, now)
}

// sameError reports whether two errors are the same except for the time at which they were seen.
func sameError(a, b v1alpha1.LastError) bool {
	return a.Code == b.Code && a.Description == b.Description
}

// lastOperation describes how far the newest spec has been carried out.
func lastOperation(etcd *v1alpha1.Etcd, status *v1alpha1.EtcdStatus, now metav1.Time) *v1alpha1.EtcdOperation {
	before := ptr.Deref(status.LastOperation, v1alpha1.EtcdOperation{})
	next := v1alpha1.EtcdOperation{Type: v1alpha1.OperationTypeReconcile, RunID: fmt.Sprintf("generation-%d", etcd.Generation), LastUpdateTime: now}
	// The first generation that is applied creates the cluster, from its first attempt to its success.
	if etcd.Status.ObservedGeneration <= 0 || before.Type == v1alpha1.OperationTypeCreate && before.RunID == next.RunID {
		next.Type = v1alpha1.OperationTypeCreate
	}
	switch {
	case len(status.LastErrors) > 0:
		next.State, next.Description = v1alpha1.OperationError, status.Conditions.Find(v1alpha1.ConditionReconciled).Message
	case status.ObservedGeneration == etcd.Generation:
		next.State, next.Description = v1alpha1.OperationSucceeded, "The newest spec is applied."
	case etcd.SpecSuspended():
		next.State, next.Description = v1alpha1.OperationRequeue, "The annotation "+etcd.SuspendedBy()+" suspends the spec."
	default:
		next.State, next.Description = v1alpha1.OperationProcessing, "The newest spec is being applied."
	}
	if before.State == next.State && before.Description == next.Description && before.RunID == next.RunID {
		next.LastUpdateTime = before.LastUpdateTime
	}
	return &next
}
