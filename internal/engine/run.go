// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// run takes a task whose turn it is a step further.
func (r *Reconciler) run(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, task tasks.Task) (time.Duration, error) {
	unlock := r.Locker.Lock(task.Object.EtcdKey())
	defer unlock()
	handler := r.Registry[task.Object.Spec.Type].Handler
	if task.Object.Status.State == v1alpha1.TaskStatePending {
		verdict, displaced, err := r.admit(ctx, handler, &task)
		switch {
		case err != nil || verdict.Outcome != tasks.Continue:
			if admitted(task.Object) {
				// It supersedes none by an earlier judgement.
				meta.RemoveStatusCondition(&task.Object.Status.Conditions, v1alpha1.ConditionAdmitted)
			}
			return r.conclude(ctx, cached, task, verdict, err)
		case displaced != "":
			return r.awaitEnd(ctx, cached, task.Object, displaced)
		}
	}
	task.Elapsed, _ = r.books.elapsed(task.Object, task.Object.Status.InitiatedAt.Time, r.Clock)
	r.books.running(task)
	left, overdue := r.overdue(task)
	if overdue != nil {
		return r.conclude(ctx, cached, task, *overdue, nil)
	}
	if task.Object.Spec.Suspend {
		status.SetCondition(task.Object, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.suspend is set: the task is suspended between two steps, and keeps its place", r.Clock.Now())
		r.books.rests(task.Object)
		if err := r.revokeIntents(ctx, task); err != nil {
			return r.conclude(ctx, cached, task, tasks.Verdict{}, err)
		}
		wait, err := r.write(ctx, cached, task.Object)
		return sooner(wait, left), err
	}
	var wait *Wait
	if r.Gate != nil {
		wait = r.Gate.Pause(ctx, task.Object)
		task.Pausing = wait != nil
	}
	verdict, err := handler.Execute(ctx, task)
	if verdict.Pauses && wait != nil {
		r.books.rests(task.Object)
		verdict.Reason, verdict.Message, verdict.RequeueAfter, verdict.ProgressDeadline = wait.Reason, wait.Message, wait.RequeueAfter, 0
	}
	if err == nil {
		err = r.askAgain(ctx, task, verdict)
	}
	return r.conclude(ctx, cached, task, verdict, err)
}

// revokeIntents revokes what a task has recorded and not carried out, while it makes no step that would repeat or revoke it (ADR 1).
func (r *Reconciler) revokeIntents(ctx context.Context, task tasks.Task) error {
	if revoke := r.Registry[task.Object.Spec.Type].RevokeIntents; revoke != nil {
		return revoke(ctx, task)
	}
	return nil
}

// admit has the handler check the preconditions of a task, once live reads have confirmed that it is the task's turn and that it is for
// this Etcd. The task then has the Etcd as the API server has it, also for the step that follows. While a task runs that it supersedes, whose
// name is returned, it is only marked as admitted: it does not begin, and is judged again once that has ended.
func (r *Reconciler) admit(ctx context.Context, handler tasks.Handler, task *tasks.Task) (verdict tasks.Verdict, displaced string, err error) {
	etcd, err := lookup.Get[v1alpha1.Etcd](ctx, r.Live, "Etcd", task.Object.EtcdKey())
	switch {
	case err != nil:
		return tasks.Verdict{}, "", err
	case etcd == nil:
		return tasks.Verdict{}, "", errCacheBehind
	case etcdtasks.Foreign(task.Object, etcd) != "":
		return replaced(task.Object, etcd), "", nil
	}
	live, err := r.list(ctx, r.Live, task.Object.EtcdKey())
	if err != nil {
		return tasks.Verdict{}, "", err
	}
	own, _ := separate(live, etcd)
	q := queue.New(own)
	t := q.Find(task.Object.UID)
	if !q.HasTurn(t) || t.Status.State == v1alpha1.TaskStateInProgress {
		return tasks.Verdict{}, "", errCacheBehind
	}
	if refusal := r.tooLarge(t); refusal != nil {
		return *refusal, "", nil
	}
	task.Etcd = etcd
	if verdict, err = handler.Admit(ctx, *task); err != nil || verdict.Outcome != tasks.Continue {
		return verdict, "", err
	}
	if displaced = r.displaces(q, task.Object.Spec.Type); displaced != "" {
		status.SetCondition(task.Object, v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, verdict.Message, r.Clock.Now())
		return verdict, displaced, nil
	}
	return verdict, "", r.begins(ctx, task, verdict.Message+company(q, task.Object.UID))
}

// begins records that a task begins, unless the Gate has it wait.
func (r *Reconciler) begins(ctx context.Context, task *tasks.Task, message string) error {
	if err := r.ask(ctx, *task); err != nil {
		return err
	}
	config, err := json.Marshal(task.Config)
	if err != nil {
		return fmt.Errorf("encoding the config of task %s: %w", task.Object.Name, err)
	}
	status.RecordAdmission(task.Object, string(config), message, r.Clock.Now())
	return nil
}

// tooLarge returns the verdict on a task, as the API server has it, with more metadata than may start beside a Gate; nil if it has less. A recovery
// asks no Gate.
func (r *Reconciler) tooLarge(t *v1alpha1.EtcdOperatorTask) *tasks.Verdict {
	if r.Gate == nil || t.Spec.Type == v1alpha1.QuorumLossRecovery || !etcdtasks.TooLarge(t) {
		return nil
	}
	return &tasks.Verdict{
		Outcome: tasks.Reject, Code: v1alpha1.ErrTaskTooLarge,
		Message: fmt.Sprintf("its metadata has %d bytes, and with more than 128 KiB the operator may be unable to annotate it: create it again with fewer or shorter annotations and labels", t.ObjectMeta.Size()),
	}
}

// company describes which tasks an admitted task preempts or runs beside; empty if none.
func company(q queue.Queue, uid types.UID) string {
	if t := q.Find(uid); t == q.Beside() {
		switch head := q.Head(); {
		case head.Status.State != v1alpha1.TaskStateInProgress:
			return fmt.Sprintf("; it goes ahead of %s, which waits for other Etcds", head.Name)
		case queue.Yields(head) && head.Spec.Type != v1alpha1.OnDemandMaintenance:
			return fmt.Sprintf("; it preempts %s, which continues afterwards", head.Name)
		case queue.Yields(head):
			return fmt.Sprintf("; it preempts %s, which waits for a member and continues afterwards", head.Name)
		case head.Status.Progressing().Reason == v1alpha1.ReasonWaitingForWindow:
			return fmt.Sprintf("; it runs beside %s, which pauses", head.Name)
		case queue.Suspended(head):
			return fmt.Sprintf("; it runs beside %s, which is suspended", head.Name)
		default:
			return fmt.Sprintf("; it runs beside %s, which is stalled", head.Name)
		}
	}
	said := ""
	for _, t := range q.Preempted() {
		said += fmt.Sprintf("; it preempts %s, which continues afterwards", t.Name)
	}
	return said
}

// errCacheBehind means that the queue in the cache is outdated.
var errCacheBehind = errors.New("the cache is behind the API server")

// conclude writes the verdict of a handler to the status, and then performs its step.
func (r *Reconciler) conclude(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, task tasks.Task, verdict tasks.Verdict, err error) (time.Duration, error) {
	var wait *Wait
	switch {
	case errors.Is(err, errCacheBehind):
		return retryInterval, nil
	case errors.As(err, &wait):
		return r.waits(ctx, cached, task.Object, wait)
	case err != nil:
		return 0, r.failed(ctx, cached, task.Object, err)
	}
	decided, verdict := r.Clock.Now(), r.stalls(cached, verdict)
	status.RecordVerdict(task.Object, verdict, decided)
	switch {
	case verdict.Outcome != tasks.Continue:
		if err := r.end(ctx, cached, task, verdict); err != nil {
			return 0, err
		}
		if verdict.Event != "" {
			r.event(task.Object, verdict.Event, verdict.Message)
		}
		return 0, nil
	case verdict.Step == nil && verdict.Event == "":
		wait, err := r.write(ctx, cached, task.Object)
		return sooner(wait, verdict.RequeueAfter), err
	}
	if err := r.writeNow(ctx, cached, task.Object); err != nil {
		return 0, err
	}
	if verdict.Step == nil {
		r.event(task.Object, verdict.Event, verdict.Message)
		return verdict.RequeueAfter, nil
	}
	if age := r.Clock.Now().Sub(decided); age > configv1alpha1.StepTimeout {
		// Another operator may have taken over in the meantime.
		log.FromContext(ctx).Info("Step not carried out", "operation", verdict.Step.Operation, "reason", "it was decided too long ago", "age", age)
		return retryInterval, nil
	}
	return r.perform(ctx, task, *verdict.Step)
}

// stalls turns a verdict into that of a stalled task once this process has watched the task make no progress for its deadline. The recorded
// time of the last progress may come from another operator's clock, so the time counts from when it is first seen. If the status says
// Stalled already, it stays so until there is progress, so that two operators do not overwrite each other.
func (r *Reconciler) stalls(cached *v1alpha1.EtcdOperatorTask, v tasks.Verdict) tasks.Verdict {
	at := lastProgress(v.Rollout, v.Membership)
	if v.Outcome != tasks.Continue || v.ProgressDeadline == 0 || at == nil {
		return v
	}
	idle := r.books.idle(cached, at.Time, r.Clock)
	said := cached.Status.Progressing().Reason == v1alpha1.ReasonStalled && at.Equal(lastProgress(cached.Status.Rollout, cached.Status.Membership))
	if said || idle >= v.ProgressDeadline {
		v.Reason, v.Message = v1alpha1.ReasonStalled, fmt.Sprintf("no progress for %s; %s", v.ProgressDeadline, v.Message)
	}
	return v
}

// lastProgress returns when a task last made progress, as recorded in its status; nil if it records none.
func lastProgress(rollout *v1alpha1.RolloutStatus, membership *v1alpha1.MembershipStatus) *metav1.Time {
	switch {
	case rollout != nil:
		return rollout.LastProgressTime
	case membership != nil:
		return membership.LastProgressTime
	}
	return nil
}

// perform has the handler perform a step that was recorded as an intent.
func (r *Reconciler) perform(ctx context.Context, task tasks.Task, step tasks.Step) (time.Duration, error) {
	logger := log.FromContext(ctx).WithValues("operation", step.Operation)
	logger.Info("Performing step", "reason", step.Reason)
	err := r.Registry[task.Object.Spec.Type].Handler.Perform(ctx, task, step)
	if err != nil {
		logger.Error(err, "Step failed")
		r.warn(task.Object, step.Operation, err.Error())
		wait := r.books.retry(task.Object, r.Clock.Now())
		before := task.Object.DeepCopy()
		status.AddError(task.Object, coded.Of(err, v1alpha1.ErrInternal), err.Error(), r.Clock.Now())
		return wait, r.writeNow(ctx, before, task.Object)
	}
	r.event(task.Object, step.Operation, step.Reason)
	return step.RecheckAfter, nil
}

// failed records an error on a task, and returns it, so that the task is retried.
func (r *Reconciler) failed(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask, failure error) error {
	now := r.Clock.Now()
	status.AddError(t, coded.Of(failure, v1alpha1.ErrInternal), failure.Error(), now)
	status.SetCondition(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRetrying, failure.Error(), now)
	if _, err := r.write(ctx, cached, t); err != nil {
		return errors.Join(failure, err)
	}
	return failure
}

// end cleans up after a task and writes its end.
func (r *Reconciler) end(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, task tasks.Task, verdict tasks.Verdict) error {
	if handler := r.Registry[task.Object.Spec.Type].Handler; handler != nil && task.Object.Status.State == v1alpha1.TaskStateInProgress {
		if err := handler.Cleanup(ctx, task); err != nil {
			return r.failed(ctx, cached, task.Object, err)
		}
	}
	status.RecordEnd(task.Object, verdict.Outcome, verdict.Code, verdict.Message, r.Clock.Now())
	if verdict.EndReason != "" {
		status.SetCondition(task.Object, v1alpha1.ConditionProgressing, metav1.ConditionFalse, verdict.EndReason, verdict.Message, r.Clock.Now())
	}
	if err := r.writeNow(ctx, cached, task.Object); err != nil {
		return err
	}
	r.books.ended(task.Object)
	log.FromContext(ctx).Info("Task ended", "state", task.Object.Status.State, "code", verdict.Code, "message", verdict.Message)
	return nil
}

// overdue returns the time left until the deadline of a task, 0 if its type has none, or the verdict on a task that has exceeded it.
func (r *Reconciler) overdue(t tasks.Task) (left time.Duration, verdict *tasks.Verdict) {
	deadline := r.Registry[t.Object.Spec.Type].Deadline
	if deadline == 0 {
		return 0, nil
	}
	if left = deadline - t.Elapsed; left > 0 {
		return left, nil
	}
	return 0, &tasks.Verdict{Outcome: tasks.Fail, Code: v1alpha1.ErrDeadlineExceeded, Message: fmt.Sprintf("the task did not end within %s", deadline) + tasks.GoesOn(t.Object)}
}

// refuse ends a task that is for an earlier Etcd, or one too many. Its cleanup gets no Etcd, since the task must not touch the present one.
func (r *Reconciler) refuse(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, verdict tasks.Verdict) error {
	t := cached.DeepCopy()
	status.RecordArrival(t)
	return r.end(ctx, cached, tasks.Task{Object: t}, verdict)
}

// replaced returns the verdict on a task that is for an earlier Etcd.
func replaced(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) tasks.Verdict {
	return tasks.Rejected(v1alpha1.ErrEtcdReplaced, "%s: if the task is meant for the present Etcd, create it again", etcdtasks.Foreign(t, etcd))
}
