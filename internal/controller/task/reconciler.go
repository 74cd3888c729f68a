// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package task is the task engine: it runs the EtcdOperatorTasks of each Etcd one at a time, first in first
// out. It knows task types by the contract in package tasks alone.
//
// The workqueue is keyed by Etcd. A reconcile looks at all tasks of one Etcd, and carries the one at the head
// at most one step further: it asks the handler, writes the status with the step as an intent, and only then
// has the handler carry the step out.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Locker excludes others from an Etcd while a step is decided and carried out.
type Locker interface {
	// Lock waits for the lock of an Etcd and returns the function that releases it.
	Lock(etcd types.NamespacedName) (unlock func())
}

// Reconciler is the task engine.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Registry tasks.Registry
	Locker   Locker
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock

	memory memory
}

const (
	// etcdField is the index of tasks by the name of their Etcd. The CRD makes it a selectable field, so that
	// the same selector works against the API server.
	etcdField = "spec.ownerEtcdReference.name"
	// minWriteInterval is how long a change that is not urgent may wait to be written.
	minWriteInterval = 3 * time.Second
	// retryInterval is how soon a step is tried again after the API server or etcd refused it.
	retryInterval = time.Second
)

// Reconcile carries the tasks of one Etcd on. The request names the Etcd.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	all, err := r.list(ctx, r.Client, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	etcd := &v1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, etcd); apierrors.IsNotFound(err) {
		etcd = nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Etcd %s: %w", request.NamespacedName, err)
	}
	if etcd == nil && len(all) == 0 {
		r.Metrics.forget(request.NamespacedName)
	}
	if err := r.cleanUpAfterDeleted(ctx, request.NamespacedName, all); err != nil {
		return ctrl.Result{}, err
	}
	var again requeue
	for _, t := range all {
		if t.Status.State.IsFinal() {
			wait, err := r.expire(ctx, t)
			if err != nil {
				return ctrl.Result{}, err
			}
			again.in(wait)
		}
	}
	q := newQueue(all)
	r.Metrics.queueLength(request.NamespacedName, len(q))
	for _, t := range q {
		wait, err := r.carryOn(ctx, q, t, etcd)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			// Somebody else has changed the task. The cache will show it, and wake us.
			wait, err = retryInterval, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		again.in(wait)
	}
	return again.result(), nil
}

// carryOn looks at one task that has not ended, and says when to look again; 0 when an event will tell.
func (r *Reconciler) carryOn(ctx context.Context, q queue, cached *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) (time.Duration, error) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("task", klog.KObj(cached), "type", cached.Spec.Type))
	t := cached.DeepCopy()
	arrive(t)
	task, refusal, err := r.prepare(ctx, q, cached, t, etcd)
	if err != nil {
		return 0, err
	}
	if refusal != nil {
		return 0, r.end(ctx, cached, task, *refusal)
	}
	if !isOwned(t, task.Etcd) {
		return 0, r.adopt(ctx, cached, t, task.Etcd)
	}
	if cached == q.head() {
		return r.run(ctx, cached, task)
	}
	now := r.Clock.Now()
	if t.Spec.Suspend {
		setCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.suspend is set: the task is not started", now)
	} else {
		setCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonQueued, fmt.Sprintf(
			"number %d in line, behind %s", q.behind(cached)+1, q.head().Name), now)
	}
	return r.write(ctx, cached, t)
}

// run carries the task at the head on.
func (r *Reconciler) run(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, task tasks.Task) (time.Duration, error) {
	unlock := r.Locker.Lock(task.Object.EtcdKey())
	defer unlock()
	handler := r.Registry[task.Object.Spec.Type].Handler
	if task.Object.Status.State == v1alpha1.TaskStatePending {
		verdict, err := r.admit(ctx, handler, task)
		if err != nil || verdict.Outcome != tasks.Continue {
			return r.conclude(ctx, cached, task, verdict, err)
		}
	}
	r.memory.running(task)
	if verdict := r.overdue(task.Object); verdict != nil {
		return r.conclude(ctx, cached, task, *verdict, nil)
	}
	if task.Object.Spec.Suspend {
		setCondition(task.Object, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.suspend is set: the task is held between two steps, and keeps its place", r.Clock.Now())
		return r.write(ctx, cached, task.Object)
	}
	verdict, err := handler.Execute(ctx, task)
	return r.conclude(ctx, cached, task, verdict, err)
}

// admit asks the handler for the preconditions, once the API server has confirmed that it is this task's turn.
func (r *Reconciler) admit(ctx context.Context, handler tasks.Handler, task tasks.Task) (tasks.Verdict, error) {
	live, err := r.list(ctx, r.Live, task.Object.EtcdKey())
	if err != nil {
		return tasks.Verdict{}, err
	}
	if head := newQueue(live).head(); head == nil || head.UID != task.Object.UID || head.Status.State == v1alpha1.TaskStateInProgress {
		return tasks.Verdict{}, errCacheBehind
	}
	verdict, err := handler.Admit(ctx, task)
	if err == nil && verdict.Outcome == tasks.Continue {
		config, encodeErr := json.Marshal(task.Config)
		if encodeErr != nil {
			return tasks.Verdict{}, fmt.Errorf("encoding the config of task %s: %w", task.Object.Name, encodeErr)
		}
		admit(task.Object, string(config), verdict.Message, r.Clock.Now())
	}
	return verdict, err
}

// errCacheBehind: the cache does not show the present state of the queue.
var errCacheBehind = errors.New("the cache is behind the API server")

// conclude writes what a handler said, and then carries its step out.
func (r *Reconciler) conclude(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, task tasks.Task, verdict tasks.Verdict, err error) (time.Duration, error) {
	switch {
	case errors.Is(err, errCacheBehind):
		return retryInterval, nil
	case err != nil:
		return 0, r.failed(ctx, cached, task.Object, err)
	case verdict.Outcome != tasks.Continue:
		apply(task.Object, verdict, r.Clock.Now())
		return 0, r.end(ctx, cached, task, verdict)
	}
	apply(task.Object, verdict, r.Clock.Now())
	if verdict.Step == nil {
		wait, err := r.write(ctx, cached, task.Object)
		return sooner(wait, verdict.RequeueAfter), err
	}
	if err := r.writeNow(ctx, cached, task.Object); err != nil {
		return 0, err
	}
	log.FromContext(ctx).Info("Performing step", "operation", verdict.Step.Operation, "reason", verdict.Step.Reason)
	r.event(task.Object, verdict.Step.Operation, "%s", verdict.Step.Reason)
	handler := r.Registry[task.Object.Spec.Type].Handler
	if err := handler.Perform(ctx, task, *verdict.Step); err != nil {
		log.FromContext(ctx).Error(err, "Step failed", "operation", verdict.Step.Operation)
		announced := task.Object.DeepCopy()
		addError(task.Object, codeOf(err), err.Error(), r.Clock.Now())
		return retryInterval, r.writeNow(ctx, announced, task.Object)
	}
	return verdict.Step.RecheckAfter, nil
}

// failed records an error that is no verdict, and has the workqueue try again.
func (r *Reconciler) failed(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask, failure error) error {
	now := r.Clock.Now()
	addError(t, codeOf(failure), failure.Error(), now)
	setCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRetrying, failure.Error(), now)
	if _, err := r.write(ctx, cached, t); err != nil {
		return errors.Join(failure, err)
	}
	return failure
}

// end cleans up after a task and writes its end.
func (r *Reconciler) end(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, task tasks.Task, verdict tasks.Verdict) error {
	if handler := r.Registry[task.Object.Spec.Type].Handler; handler != nil && cached.Status.State == v1alpha1.TaskStateInProgress {
		if err := handler.Cleanup(ctx, task); err != nil {
			return r.failed(ctx, cached, task.Object, err)
		}
	}
	finish(task.Object, verdict.Outcome, verdict.Code, verdict.Message, r.Clock.Now())
	if err := r.writeNow(ctx, cached, task.Object); err != nil {
		return err
	}
	r.memory.ended(task.Object)
	log.FromContext(ctx).Info("Task ended", "state", task.Object.Status.State, "code", verdict.Code, "message", verdict.Message)
	return nil
}

// overdue is the verdict on a task that takes longer than its type allows.
func (r *Reconciler) overdue(t *v1alpha1.EtcdOperatorTask) *tasks.Verdict {
	deadline := r.Registry[t.Spec.Type].Deadline
	if deadline == 0 || r.Clock.Now().Sub(t.Status.InitiatedAt.Time) < deadline {
		return nil
	}
	return &tasks.Verdict{Outcome: tasks.Fail, Code: v1alpha1.ErrDeadlineExceeded, Message: fmt.Sprintf("the task did not end within %s", deadline)}
}

// write writes a status that differs: at once when it is urgent, otherwise when the last write is some time
// ago. It returns when to come back for what was not written.
func (r *Reconciler) write(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask) (time.Duration, error) {
	if equality.Semantic.DeepEqual(cached.Status, t.Status) {
		return 0, nil
	}
	if wait := minWriteInterval - r.Clock.Now().Sub(r.memory.lastWrite(t.UID)); wait > 0 && !isUrgent(&cached.Status, &t.Status) {
		return wait, nil
	}
	return 0, r.writeNow(ctx, cached, t)
}

// writeNow writes a status under the resourceVersion that it is based on: whoever worked on an older state
// fails here, before it does anything.
func (r *Reconciler) writeNow(ctx context.Context, before, t *v1alpha1.EtcdOperatorTask) error {
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return nil
	}
	status := *t.Status.DeepCopy()
	if err := r.Client.Status().Update(ctx, t); err != nil {
		return fmt.Errorf("writing the status of task %s: %w", client.ObjectKeyFromObject(t), err)
	}
	t.Status = status
	now := r.Clock.Now()
	r.memory.wrote(t.UID, now)
	r.Metrics.observe(before, t, now)
	r.announce(before, t)
	return nil
}

func (r *Reconciler) list(ctx context.Context, reader client.Reader, etcd types.NamespacedName) ([]*v1alpha1.EtcdOperatorTask, error) {
	found := &v1alpha1.EtcdOperatorTaskList{}
	if err := reader.List(ctx, found, OfEtcd(etcd)...); err != nil {
		return nil, fmt.Errorf("listing the tasks of Etcd %s: %w", etcd, err)
	}
	all := make([]*v1alpha1.EtcdOperatorTask, len(found.Items))
	for i := range found.Items {
		all[i] = &found.Items[i]
	}
	return all, nil
}

func codeOf(err error) v1alpha1.ErrorCode {
	if coded, ok := errors.AsType[*tasks.CodedError](err); ok {
		return coded.Code
	}
	return v1alpha1.ErrInternal
}

// requeue collects when to look again.
type requeue struct{ after time.Duration }

func (q *requeue) in(d time.Duration) { q.after = sooner(q.after, d) }

func (q *requeue) result() ctrl.Result { return ctrl.Result{RequeueAfter: q.after} }

// sooner is the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
