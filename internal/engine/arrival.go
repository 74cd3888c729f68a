// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// prepare returns the tasks.Task of a task at any place in the queue, or the verdict that ends it. A task that can never run is ended on
// arrival, so that it does not wait in the queue.
func (r *Reconciler) prepare(ctx context.Context, line *line, cached, t *v1alpha1.EtcdOperatorTask) (tasks.Task, *tasks.Verdict, error) {
	task := tasks.Task{Object: t, Etcd: line.etcd}
	reject := func(code v1alpha1.ErrorCode, format string, args ...any) (tasks.Task, *tasks.Verdict, error) {
		return task, &tasks.Verdict{Outcome: tasks.Reject, Code: code, Message: fmt.Sprintf(format, args...)}, nil
	}
	registered, refused := r.typeOf(t)
	if refused != nil {
		return task, refused, nil
	}
	pending := t.Status.State == v1alpha1.TaskStatePending
	if !pending && t.Status.InitiatedAt == nil {
		return reject(v1alpha1.ErrNotAdmitted, "status.state is %s and status.initiatedAt is empty, so no operator has admitted the task: create it again, and leave its status to the operator", t.Status.State)
	}
	var err error
	if pending {
		task.Config, err = r.books.decode(t, registered.Handler)
	} else {
		task.Config, err = registered.Handler.Recorded(t.Status.Config)
	}
	if err != nil {
		return reject(v1alpha1.ErrInvalidConfig, "%v", err)
	}
	if by := r.displacedBy(line.Queue, cached); by != "" {
		return reject(v1alpha1.ErrSuperseded, "task %s supersedes it", by)
	}
	if line.etcd == nil {
		return reject(v1alpha1.ErrEtcdNotFound, "spec.ownerEtcdReference names Etcd %q, which does not exist in namespace %s", t.Spec.OwnerEtcdReference.Name, t.Namespace)
	}
	if !pending && !t.Spec.Suspend {
		// Execute finds out by itself whether the task is superseded.
		return task, nil, nil
	}
	if by, err := registered.Handler.Superseded(ctx, task); err != nil {
		return task, nil, err
	} else if by != "" {
		return reject(v1alpha1.ErrSuperseded, "%s", by)
	}
	if !pending {
		return task, nil, nil
	}
	same, err := r.sameWork(ctx, registered.Handler, line, cached, task)
	if err != nil || same == "" {
		return task, nil, err
	}
	return reject(v1alpha1.ErrDuplicateTask, "task %s, which was created earlier and has not ended, does the same work", same)
}

// typeOf returns the type of a task, or the verdict on a task whose type this operator does not carry out.
func (r *Reconciler) typeOf(t *v1alpha1.EtcdOperatorTask) (tasks.Type, *tasks.Verdict) {
	if ns := t.Spec.OwnerEtcdReference.Namespace; ns != "" && ns != t.Namespace {
		return tasks.Type{}, &tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrCrossNamespace,
			Message: fmt.Sprintf("spec.ownerEtcdReference.namespace is %q: a task may only refer to an Etcd in its own namespace, %s", ns, t.Namespace)}
	}
	registered, ok := r.Registry[t.Spec.Type]
	if !ok {
		return tasks.Type{}, &tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrUnsupportedType,
			Message: fmt.Sprintf("spec.type %s is not supported by this version of the operator", t.Spec.Type)}
	}
	return registered, registered.Unavailable
}

// unknownAgain is how often an event says that a task is left alone: events are kept for an hour.
const unknownAgain = 30 * time.Minute

// wayOut is what a person can do about such a task. Its deletion takes the verb "create:" with its type, which no role of this version has.
const wayOut = "Reinstall the operator version that started it. If that is not possible, have an administrator of the cluster delete the task: nothing is cleaned up after it"

// leave leaves alone a task that a newer operator has started. It writes nothing, not even a condition, since fields of the status that this
// operator does not know would be lost. It remembers the task, to notice its deletion.
func (r *Reconciler) leave(ctx context.Context, cached *v1alpha1.EtcdOperatorTask) time.Duration {
	if cached.Status.State.IsFinal() {
		return 0
	}
	wait := r.books.remindedFor(cached, r.Clock.Now())
	if wait > 0 {
		return wait
	}
	r.books.running(tasks.Task{Object: cached.DeepCopy()})
	message := unknownType(cached) + fmt.Sprintf(", so it is left as it is, and no other task of Etcd %s starts. "+wayOut, cached.Spec.OwnerEtcdReference.Name)
	r.warn(cached, v1alpha1.ReasonUnknownType, message)
	log.FromContext(ctx).Info("Task left alone", "reason", message)
	return unknownAgain
}

// unknownType says of a task that only a newer operator knows its type.
func unknownType(t *v1alpha1.EtcdOperatorTask) string {
	return fmt.Sprintf("its type %s is not known to this operator of version %s", t.Spec.Type, version.Get().Version)
}

// displacedBy returns the name of the task that supersedes another, by its type; empty if there is none. It was created later, or was suspended
// until now and has its turn although the other, which would continue after it, runs. A task that is suspended, whose config does not decode,
// or that may still be rejected on arrival supersedes none. One that preempts others supersedes none before it is admitted, since it may be
// rejected; any other waits behind what it supersedes, and cannot be admitted before that has ended.
func (r *Reconciler) displacedBy(q queue.Queue, t *v1alpha1.EtcdOperatorTask) string {
	place := slices.Index(q, t)
	for i, later := range q {
		if i <= place && (t.Status.State != v1alpha1.TaskStateInProgress || !q.HasTurn(later)) {
			continue
		}
		registered, ok := r.Registry[later.Spec.Type]
		if !ok || later.Spec.Suspend || later.Status.State == "" || queue.Preempts(later) && !admitted(later) || !slices.Contains(registered.Supersedes, t.Spec.Type) {
			continue
		}
		if _, err := r.books.decode(later, registered.Handler); err == nil {
			return later.Name
		}
	}
	return ""
}

// admitted reports whether the preconditions of a task were met, as its spec is now.
func admitted(t *v1alpha1.EtcdOperatorTask) bool {
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionAdmitted)
	return t.Status.State == v1alpha1.TaskStateInProgress || c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == t.Generation
}

// displaces returns the name of a running task that a pending one of a type supersedes; empty if there is none. The pending task begins once the
// other has ended and was cleaned up after: otherwise the other would continue afterwards, and until then the Etcd controller would act on both.
func (r *Reconciler) displaces(q queue.Queue, pending v1alpha1.TaskType) string {
	for _, other := range q {
		if other.Status.State == v1alpha1.TaskStateInProgress && slices.Contains(r.Registry[pending].Supersedes, other.Spec.Type) {
			return other.Name
		}
	}
	return ""
}

// sameWork returns the name of an earlier task that does the same work; empty if there is none.
func (r *Reconciler) sameWork(ctx context.Context, handler tasks.Handler, line *line, cached *v1alpha1.EtcdOperatorTask, task tasks.Task) (string, error) {
	earlier := line.Earlier(cached)
	if len(earlier) == 0 {
		return "", nil
	}
	key, err := line.workKey(ctx, handler, task)
	if err != nil {
		return "", err
	}
	for _, t := range earlier {
		config, err := r.books.decode(t, handler)
		if err != nil {
			// It is rejected in this same pass.
			continue
		}
		other, err := line.workKey(ctx, handler, tasks.Task{Object: t, Etcd: line.etcd, Config: config})
		if err != nil {
			return "", err
		}
		if other == key {
			return t.Name, nil
		}
	}
	return "", nil
}

// adopt makes the Etcd an owner of the task, so that the task is deleted with it. The arrival is written first: this write changes the
// resourceVersion by which tasks are ordered. The patch has the whole list of owners, so it begins with that of the API server: the cache keeps a
// few of many.
func (r *Reconciler) adopt(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) error {
	if err := r.writeNow(ctx, cached, t); err != nil {
		return err
	}
	live := &v1alpha1.EtcdOperatorTask{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(t), live); err != nil {
		return fmt.Errorf("reading the owners of task %s: %w", t.Name, err)
	}
	live.ResourceVersion = t.ResourceVersion
	patch := client.MergeFromWithOptions(live.DeepCopy(), client.MergeFromWithOptimisticLock{})
	live.OwnerReferences = append(live.OwnerReferences, etcdtasks.Owner(etcd))
	if err := r.Client.Patch(ctx, live, patch); err != nil {
		return fmt.Errorf("making Etcd %s an owner of task %s: %w", etcd.Name, t.Name, err)
	}
	return nil
}

// line is the queue of one Etcd during one reconcile.
type line struct {
	queue.Queue
	// etcd is nil if there is none.
	etcd *v1alpha1.Etcd
	// keys caches the work keys of tasks, which take requests to compute.
	keys map[types.UID]string
	// turnedAway is how many tasks were rejected in this reconcile because there are too many.
	turnedAway int
}

// workKey returns the work key of a task, which the handler computes once.
func (l *line) workKey(ctx context.Context, handler tasks.Handler, task tasks.Task) (string, error) {
	if key, ok := l.keys[task.Object.UID]; ok {
		return key, nil
	}
	key, err := handler.WorkKey(ctx, task)
	if err == nil {
		l.keys[task.Object.UID] = key
	}
	return key, err
}

const (
	// maxLine is how many tasks of an Etcd may wait or run. Each makes every reconcile of that Etcd more expensive.
	maxLine = 50
	// maxTurnedAway is how many surplus tasks one reconcile rejects: other Etcds wait for the worker and for the API server.
	maxTurnedAway = 20
)

// tooMany reports whether a task at a place in the queue is rejected because of the number of tasks before it. A recovery never is.
func tooMany(place int, t *v1alpha1.EtcdOperatorTask) bool {
	return place >= maxLine && t.Status.State != v1alpha1.TaskStateInProgress && t.Spec.Type != v1alpha1.QuorumLossRecovery
}

// surplus returns the verdict on a task before which there are too many.
func surplus(t *v1alpha1.EtcdOperatorTask) tasks.Verdict {
	return tasks.Rejected(v1alpha1.ErrTooManyTasks,
		"%d earlier tasks of Etcd %s have not ended, and more do not wait in line: delete those that are not needed, or create the task again when some have ended",
		maxLine, t.Spec.OwnerEtcdReference.Name)
}
