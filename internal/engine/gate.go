// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Gate decides across Etcds: whether a task may start while tasks of other Etcds run.
type Gate interface {
	// Ask is the last check before a task starts, and before a recreation that has started stops the pods: it follows the StatefulSet until
	// then, and its status has the revision that it is about to record. If it returns nil, the start or the stop is written under the
	// resourceVersion of the object, or not at all. It may set status.change, which is written with the outcome.
	Ask(ctx context.Context, task tasks.Task) (*Wait, error)
	// Pause is called before each further step. It returns nil if the task may continue. While its cluster is not whole, the task
	// continues regardless (tasks.Task.Pausing).
	Pause(ctx context.Context, t *v1alpha1.EtcdOperatorTask) *Wait
	// Wakes sends the Etcds whose tasks should ask again.
	Wakes() <-chan event.GenericEvent
}

// Wait is why a Gate does not let a task start or continue.
type Wait struct {
	// Reason and Message of the conditions of the task.
	Reason, Message string
	// RequeueAfter is when to ask again if nothing wakes it.
	RequeueAfter time.Duration
}

// Error implements error: the engine treats a Wait as the reason why a task was not admitted.
func (w *Wait) Error() string { return w.Message }

// ask returns a *Wait as its error if the Gate does not let the task start.
func (r *Reconciler) ask(ctx context.Context, task tasks.Task) error {
	if r.Gate == nil {
		return nil
	}
	wait, err := r.Gate.Ask(ctx, task)
	if err == nil && wait != nil {
		return wait
	}
	return err
}

// askAgain is ask for a recreation that is about to stop the pods.
func (r *Reconciler) askAgain(ctx context.Context, task tasks.Task, v tasks.Verdict) error {
	if r.Gate == nil || !task.Object.StopsNothingYet() || v.Outcome != tasks.Continue || v.Rollout == nil || v.Rollout.Phase == "" {
		return nil
	}
	stops := task
	stops.Object = task.Object.DeepCopy()
	stops.Object.Status.Rollout = v.Rollout
	err := r.ask(ctx, stops)
	task.Object.Status.Change, task.Object.ResourceVersion = stops.Object.Status.Change, stops.Object.ResourceVersion
	if err != nil {
		r.books.rests(task.Object)
	}
	return err
}

// waits records on a task what it waits for, and returns when to ask again.
func (r *Reconciler) waits(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask, wait *Wait) (time.Duration, error) {
	now := r.Clock.Now()
	if t.Status.State == v1alpha1.TaskStatePending {
		if t.Status.Change != cached.Status.Change {
			// The condition says since when it has waited with its change.
			meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionAdmitted)
		}
		status.SetCondition(t, v1alpha1.ConditionAdmitted, metav1.ConditionFalse, wait.Reason, wait.Message, now)
	}
	status.SetCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, wait.Reason, wait.Message, now)
	again, err := r.write(ctx, cached, t)
	return sooner(again, wait.RequeueAfter), err
}
