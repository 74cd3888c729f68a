// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cleanUpAfterDeleted cleans up after running tasks that were deleted, which aborts them between two steps. A step that is recorded as an
// intent may still take effect, so no other task proceeds before. If the cleanup of a task keeps failing, there is one event.
func (r *Reconciler) cleanUpAfterDeleted(ctx context.Context, etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) error {
	defer r.books.keep(etcd, all)
	var failed error
	for _, task := range r.books.deleted(etcd, all) {
		if task.Object.OfNewerOperator() {
			r.warn(task.Object, v1alpha1.ReasonUnknownType, abandoned(task.Object))
			r.books.ended(task.Object)
			continue
		}
		if err := r.Registry[task.Object.Spec.Type].Handler.Cleanup(ctx, task); err != nil {
			err = fmt.Errorf("cleaning up after task %s, which was deleted while it was running: %w", task.Object.Name, err)
			if r.books.trouble(task.Object) {
				r.warn(task.Object, v1alpha1.ReasonCleanupFailed, err.Error())
			}
			failed = errors.Join(failed, err)
			continue
		}
		r.books.ended(task.Object)
	}
	return failed
}

// abandoned says what a deleted task may have left behind, after which this operator cannot clean up.
func abandoned(t *v1alpha1.EtcdOperatorTask) string {
	message := fmt.Sprintf("task %s was deleted while it was running, and nothing was cleaned up after it: %s", t.Name, unknownType(t))
	if last := t.Status.LastOperation; last != nil {
		message += fmt.Sprintf(". Its last operation is %s (%s): %s", last.Name, last.State, last.Reason)
	}
	return message
}

// blocked records on the task at the head why it does not proceed, and returns the cause, so that the reconcile is retried.
func (r *Reconciler) blocked(ctx context.Context, etcd types.NamespacedName, q queue.Queue, why error) error {
	cached := q.Head()
	if cached == nil || cached.OfNewerOperator() || r.books.lastWrite(cached).isBehind(cached, r.Clock.Now()) {
		return why
	}
	t := cached.DeepCopy()
	status.RecordArrival(t)
	message := fmt.Sprintf("no task of Etcd %s runs until this succeeds; it is retried: %s", etcd.Name, strings.ReplaceAll(why.Error(), "\n", "; "))
	status.SetCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonCleanupFailed, message, r.Clock.Now())
	if _, err := r.write(ctx, cached, t); err != nil {
		return errors.Join(why, err)
	}
	return why
}
