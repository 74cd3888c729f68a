// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package engine is the task engine: it runs the EtcdOperatorTasks of each Etcd one at a time, first in first out. It knows task types only
// through the contract in package tasks.
//
// The workqueue is keyed by Etcd. A reconcile reads all tasks of one Etcd. Those whose turn it is, the head and perhaps one that runs
// beside it, take at most one step each: the engine asks the handler for the step, writes it to the status as an intent, and only then has
// the handler perform it.
package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reconciler is the task engine.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Registry tasks.Registry
	Locker   *lock.Locks
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock
	// Gate decides whether tasks may start while tasks of other Etcds run; nil if they always may.
	Gate Gate

	books bookkeeping
}

const (
	// detailInterval is the minimum time between a write of a status and the next one that only changes details. A replaced pod is usually
	// back within this time, so that the wait for it is never written.
	detailInterval = 10 * time.Second
	// retryInterval is how soon a step is tried again after the API server or etcd first refused it.
	retryInterval = time.Second
)

// Reconcile takes the tasks of one Etcd a step further. The request names the Etcd.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	all, err := r.list(ctx, r.Client, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	etcd, err := r.etcdOf(ctx, request.NamespacedName, all)
	if err != nil {
		return ctrl.Result{}, err
	}
	own, foreign := separate(all, etcd)
	q := queue.New(own)
	if etcd == nil && len(all) == 0 {
		r.Metrics.forget(request.NamespacedName)
	} else {
		r.Metrics.show(request.NamespacedName, q)
	}
	if err := r.cleanUpAfterDeleted(ctx, request.NamespacedName, all); err != nil {
		return ctrl.Result{}, r.blocked(ctx, request.NamespacedName, q, err)
	}
	var after time.Duration
	again := func(in time.Duration) { after = sooner(after, in) }
	for _, t := range all {
		if t.Status.State.IsFinal() {
			again(r.attempt(ctx, t, func() (time.Duration, error) { return r.expire(ctx, t) }))
		}
	}
	work := func(t *v1alpha1.EtcdOperatorTask, do func() (time.Duration, error)) {
		if r.books.lastWrite(t).isBehind(t, r.Clock.Now()) {
			// A write based on this state would be refused as a conflict.
			again(retryInterval)
			return
		}
		again(r.attempt(ctx, t, do))
	}
	for _, t := range foreign {
		if t.OfNewerOperator() {
			continue
		}
		work(t, func() (time.Duration, error) { return 0, r.refuse(ctx, t, replaced(t, etcd)) })
	}
	line := &line{Queue: q, etcd: etcd, keys: map[types.UID]string{}}
	for i, t := range q {
		switch {
		case t.OfNewerOperator():
			again(r.leave(ctx, t))
		case !tooMany(i, t):
			work(t, func() (time.Duration, error) { return r.carryOn(ctx, line, t) })
		case line.turnedAway < maxTurnedAway:
			line.turnedAway++
			work(t, func() (time.Duration, error) { return 0, r.refuse(ctx, t, surplus(t)) })
		default:
			again(retryInterval)
		}
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// sooner returns the shorter of two waits; 0 means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// attempt runs do for a task unless the task is backing off, and returns when to try again. The back-off is per task: with that of the
// workqueue, the failure of one task would delay the others, and their success would reset it.
func (r *Reconciler) attempt(ctx context.Context, t *v1alpha1.EtcdOperatorTask, do func() (time.Duration, error)) time.Duration {
	if left := r.books.pausedFor(t, r.Clock.Now()); left > 0 {
		return left
	}
	wait, err := do()
	switch {
	case err == nil:
		r.books.resume(t, r.Clock.Now())
		return wait
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		// Something else has changed the task. The cache will show it, and trigger another reconcile.
		return retryInterval
	}
	wait, longest := r.books.backOff(t, r.Clock.Now())
	if longest {
		// Its status may not say so: it may be what cannot be written.
		r.warn(t, v1alpha1.ReasonRetrying, fmt.Sprintf("the task keeps failing to proceed, and is retried every %s: %v", wait, err))
	}
	log.FromContext(ctx).Error(err, "Task failed to proceed", logging.KeyTask, klog.KObj(t), "type", t.Spec.Type, "retryAfter", wait)
	return wait
}

// carryOn takes one task that has not ended a step further, and returns when to do so again; 0 if an event will trigger it.
func (r *Reconciler) carryOn(ctx context.Context, line *line, cached *v1alpha1.EtcdOperatorTask) (time.Duration, error) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues(logging.KeyTask, klog.KObj(cached), "type", cached.Spec.Type))
	t := cached.DeepCopy()
	status.RecordArrival(t)
	task, refusal, err := r.prepare(ctx, line, cached, t)
	if t.Status.State == v1alpha1.TaskStateInProgress && r.Registry[t.Spec.Type].Handler != nil {
		// Also without a turn: it is cleaned up after if it is deleted.
		r.books.running(task)
	}
	if err != nil {
		return 0, err
	}
	if refusal != nil {
		return 0, r.end(ctx, cached, task, *refusal)
	}
	if !etcdtasks.IsOwned(t, task.Etcd) {
		return 0, r.adopt(ctx, cached, t, task.Etcd)
	}
	if line.HasTurn(cached) {
		if t.Spec.Suspend && t.Spec.Type.IsRollout() {
			status.Unhold(t)
		}
		return r.run(ctx, cached, task)
	}
	return r.rest(ctx, line, cached, task)
}

// rest records why a task has no turn, and ends one that runs at its deadline: what it keeps up, as a fence, does not stay for as long as it waits.
func (r *Reconciler) rest(ctx context.Context, line *line, cached *v1alpha1.EtcdOperatorTask, task tasks.Task) (time.Duration, error) {
	t, left := task.Object, time.Duration(0)
	if t.Status.State == v1alpha1.TaskStatePending {
		// It neither waits for the Gate any more, nor supersedes a task that runs: another one goes first.
		meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionAdmitted)
	} else {
		var overdue *tasks.Verdict
		task.Elapsed, _ = r.books.elapsed(t, t.Status.InitiatedAt.Time, r.Clock)
		if left, overdue = r.overdue(task); overdue != nil {
			return r.conclude(ctx, cached, task, *overdue, nil)
		}
		if err := r.revokeIntents(ctx, task); err != nil {
			return r.conclude(ctx, cached, task, tasks.Verdict{}, err)
		}
	}
	status.Unhold(t)
	reason, message := waiting(line.Queue, cached)
	if head := line.Head(); head != nil && head.Status.State != v1alpha1.TaskStateInProgress && r.displaces(queue.Queue{cached}, head.Spec.Type) != "" {
		message = fmt.Sprintf("%[1]s is being judged: this task ends if %[1]s is admitted, and continues otherwise. To continue now, suspend or delete %[1]s", head.Name)
	}
	status.SetCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, reason, message, r.Clock.Now())
	wait, err := r.write(ctx, cached, t)
	return sooner(wait, left), err
}

// awaitEnd records that a task begins once another one, which it supersedes, has ended. Until then it is judged again and again: the other ends by
// the last judgement.
func (r *Reconciler) awaitEnd(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask, displaced string) (time.Duration, error) {
	status.SetCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonQueued, fmt.Sprintf("it begins once task %s, which it supersedes, has ended", displaced), r.Clock.Now())
	wait, err := r.write(ctx, cached, t)
	return sooner(wait, retryInterval), err
}

// waiting returns why a task is not running.
func waiting(q queue.Queue, t *v1alpha1.EtcdOperatorTask) (reason, message string) {
	behind := ""
	switch head := q.Head(); {
	case head == nil:
	case head.OfNewerOperator():
		behind = fmt.Sprintf(". Of %s, %s. %s", head.Name, unknownType(head), wayOut)
	case head.Spec.Suspend:
		behind = ", which is suspended (spec.suspend) and keeps its place: resume it, or delete it to abort it"
	}
	switch {
	case t.Status.State == v1alpha1.TaskStateInProgress:
		return v1alpha1.ReasonPreempted, fmt.Sprintf("%s has preempted this task between two steps; this task continues when that one has ended%s", q.Head().Name, behind)
	case t.Spec.Suspend:
		return v1alpha1.ReasonSuspended, "spec.suspend is set: the task is not started"
	}
	return v1alpha1.ReasonQueued, fmt.Sprintf("number %d in line, behind %s%s", q.Behind(t)+1, q.Head().Name, behind)
}
