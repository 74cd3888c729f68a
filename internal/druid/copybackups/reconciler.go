// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups carries out EtcdCopyBackupsTasks, the type of etcd-druid: a Job of the agent copies backups, without an Etcd.
// There are few of them, so everything is read from the API server.
package copybackups

import (
	"context"
	"fmt"
	"strconv"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/copyjob"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// poll is how often a Job is read that is being created or removed: no cache is kept of Jobs.
	poll = 2 * time.Second
	// turnPoll is how often a task that waits for its turn is checked, in the cache.
	turnPoll = 10 * time.Second
	// forever is the timeout of a copy without a timeout.
	forever = 10 * 365 * 24 * time.Hour
	// maxJobName leaves room for the suffix of the Job's pods.
	maxJobName = 57
)

// Reconciler carries out EtcdCopyBackupsTasks.
type Reconciler struct {
	// Client reads from a cache, and writes to the API server. Live reads from it.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Image of the agent.
	Image string
	// Rules are what the operator's configuration allows.
	Rules policy.Rules
}

// Reconcile carries out a task.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// An operator that was paused must not create the Job of a task that has ended.
	step, cancel := context.WithTimeout(ctx, configv1alpha1.StepTimeout)
	defer cancel()
	if idle, err := r.idle(ctx, request); err != nil || idle != nil {
		return ptr.Deref(idle, ctrl.Result{}), err
	}
	task, err := lookup.Get[v1alpha1.EtcdCopyBackupsTask](ctx, r.Live, "EtcdCopyBackupsTask", request.NamespacedName)
	if err != nil || task == nil {
		return ctrl.Result{}, err
	}
	found, foreign, err := job.Find(ctx, r.Live, task, client.ObjectKey{Namespace: task.Namespace, Name: jobName(task)})
	if err != nil {
		return ctrl.Result{}, err
	}
	if task.DeletionTimestamp != nil || task.HasEnded() {
		return r.finish(ctx, task, found)
	}
	if err := r.changeFinalizer(ctx, task, controllerutil.AddFinalizer); err != nil {
		return ctrl.Result{}, err
	}
	before, next := task.Status.DeepCopy(), poll
	switch {
	case foreign != nil:
		err = r.wait(ctx, task, foreign)
	case found != nil:
		next, err = r.follow(ctx, task, found)
	default:
		err = r.create(step, task)
	}
	task.Status.ObservedGeneration = &task.Generation
	if !equality.Semantic.DeepEqual(before, &task.Status) {
		if err := r.Client.Status().Update(ctx, task); err != nil {
			return ctrl.Result{}, fmt.Errorf("writing the status of EtcdCopyBackupsTask %s: %w", klog.KObj(task), err)
		}
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// idle returns the result of a reconcile that needs nothing from the API server; nil if it does. By the cache, the task is gone, has
// ended and was released, or still waits for its turn.
func (r *Reconciler) idle(ctx context.Context, request ctrl.Request) (*ctrl.Result, error) {
	task, err := lookup.Get[v1alpha1.EtcdCopyBackupsTask](ctx, r.Client, "EtcdCopyBackupsTask", request.NamespacedName)
	if err != nil || task == nil {
		return &ctrl.Result{}, err
	}
	ends := task.DeletionTimestamp != nil || task.HasEnded()
	if ends && !controllerutil.ContainsFinalizer(task, v1alpha1.FinalizerCopyBackups) {
		return &ctrl.Result{}, nil
	}
	if said := ptr.Deref(task.Status.LastError, ""); ends || said == "" {
		return nil, nil
	} else if turn, err := r.turn(ctx, task); err != nil || turn != said {
		return nil, err
	}
	return &ctrl.Result{RequeueAfter: turnPoll}, nil
}

// turn returns why a task does not run yet; empty if it may.
func (r *Reconciler) turn(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask) (string, error) {
	tasks := &v1alpha1.EtcdCopyBackupsTaskList{}
	if err := r.Client.List(ctx, tasks, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing EtcdCopyBackupsTasks: %w", err)
	}
	var all []copyjob.Request
	for i := range tasks.Items {
		if t := &tasks.Items[i]; !t.HasEnded() {
			all = append(all, requestOf(t))
		}
	}
	return copyjob.Wait(requestOf(task), all), nil
}

func requestOf(t *v1alpha1.EtcdCopyBackupsTask) copyjob.Request {
	return copyjob.Request{Namespace: t.Namespace, Name: t.Name, Created: t.CreationTimestamp.Time}
}

// jobName returns the name of the Job of a task: as etcd-druid names it, so that either operator finds the Job of the other, unless
// that is too long.
func jobName(task *v1alpha1.EtcdCopyBackupsTask) string {
	if name := task.Name + "-worker"; len(name) <= maxJobName {
		return name
	}
	return job.Name(task)
}

// wait fails a task because of a foreign Job, unless it is the Job of an earlier task of this name, which is being removed.
func (r *Reconciler) wait(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask, foreign *ownership.Foreign) error {
	theirs := &batchv1.Job{}
	key := client.ObjectKey{Namespace: task.Namespace, Name: jobName(task)}
	if err := r.Live.Get(ctx, key, theirs); err != nil {
		return r.retry(task, fmt.Errorf("reading Job %s: %w", key, err))
	}
	if c := metav1.GetControllerOf(theirs); c != nil && c.Kind == v1alpha1.KindEtcdCopyBackupsTask && c.Name == task.Name {
		task.Status.LastError = ptr.To(fmt.Sprintf("waiting until Job %s of an earlier task of this name is removed", key.Name))
		return nil
	}
	r.fail(task, v1alpha1.ReasonForeignJob, foreign.String())
	return nil
}

// create creates the Job of a task that may be carried out.
func (r *Reconciler) create(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask) error {
	reason, err := r.refusal(ctx, task)
	if err != nil {
		return r.retry(task, err)
	}
	if reason != nil {
		r.fail(task, v1alpha1.ReasonNotAllowed, reason.Error())
		return nil
	}
	turn, err := r.turn(ctx, task)
	if err != nil {
		return r.retry(task, err)
	}
	if turn != "" {
		task.Status.LastError = &turn
		return nil
	}
	built, err := r.build(task)
	if err != nil {
		r.fail(task, v1alpha1.ReasonInvalid, err.Error())
		return nil
	}
	err = r.Client.Create(ctx, built)
	switch {
	case apierrors.IsInvalid(err):
		r.fail(task, v1alpha1.ReasonInvalid, err.Error())
	case err != nil && !apierrors.IsAlreadyExists(err):
		return r.retry(task, fmt.Errorf("creating Job %s: %w", klog.KObj(built), err))
	default:
		task.Status.LastError = nil
		log.FromContext(ctx).Info("Created the Job of an EtcdCopyBackupsTask", "task", klog.KObj(task), "job", klog.KObj(built))
	}
	return nil
}

// refusal returns why a task must not be carried out; nil if it may.
func (r *Reconciler) refusal(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask) (refusal, err error) {
	c := copyOf(task)
	if err := c.Validate(); err != nil {
		return fmt.Errorf("spec: %w", err), nil
	}
	if err := c.ValidateStores(task.Namespace); err != nil {
		return fmt.Errorf("spec.%w", err), nil
	}
	etcds := &v1alpha1.EtcdList{}
	if err := r.Live.List(ctx, etcds, client.InNamespace(task.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Etcds of namespace %s: %w", task.Namespace, err)
	}
	return r.Rules.CopyWithoutEtcd(task.Namespace, etcds.Items, c.Source, c.Target), nil
}

func copyOf(task *v1alpha1.EtcdCopyBackupsTask) copyjob.Copy {
	s := task.Spec
	c := copyjob.Copy{Source: copyjob.Place(s.SourceStore), Target: copyjob.Place(s.TargetStore), MaxBackupAge: s.MaxBackupAge, MaxBackups: s.MaxBackups}
	if w := s.WaitForFinalSnapshot; w != nil && w.Enabled {
		if c.Wait = ptr.Deref(w.Timeout, metav1.Duration{}).Duration; c.Wait <= 0 {
			c.Wait = forever
		}
	}
	return c
}

func (r *Reconciler) build(task *v1alpha1.EtcdCopyBackupsTask) (*batchv1.Job, error) {
	c := copyOf(task)
	spec := job.Spec{
		Owner: job.OfCopyBackupsTask(task), Name: jobName(task), Subject: subject(task), Image: r.Image, PodLabels: task.Spec.PodLabels,
		Timeout: copyjob.Deadline + c.Wait,
	}
	if c.Wait == forever {
		spec.Timeout = 0
	}
	return c.Build(spec)
}

// subject identifies the work of the Job of a task: the generation of its spec.
func subject(task *v1alpha1.EtcdCopyBackupsTask) string {
	return strconv.FormatInt(task.Generation, 10)
}

// follow updates the status of a task from its Job, and returns when to read that again.
func (r *Reconciler) follow(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask, found *batchv1.Job) (next time.Duration, err error) {
	now := r.Clock.Now()
	state, err := job.Look(ctx, r.Client, r.Live, found, now)
	if err != nil {
		return poll, r.retry(task, err)
	}
	changed := ""
	if of := found.Annotations[v1alpha1.AnnotationJobSubject]; of != "" && of != subject(task) {
		changed = fmt.Sprintf("the spec was changed after Job %s was created, which copies what generation %s of it says: create another task", found.Name, of)
		state.Message = fmt.Sprintf("%s; and %s", state.Message, changed)
	}
	switch {
	case state.Running && changed != "":
		task.Status.LastError = &changed
	case state.Running:
		task.Status.LastError = nil
	case state.Code != "":
		r.fail(task, reasonOf(state.Code), state.Message)
	default:
		r.succeed(task, state)
	}
	return job.Poll(state, now), nil
}

// finish stops the Job of a task that has failed or is being deleted, and releases the task when the Job has ended.
func (r *Reconciler) finish(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask, found *batchv1.Job) (ctrl.Result, error) {
	if found != nil && !job.HasEnded(found) {
		return ctrl.Result{RequeueAfter: poll}, job.Remove(ctx, r.Client, r.Live, task, client.ObjectKeyFromObject(found))
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.changeFinalizer(ctx, task, controllerutil.RemoveFinalizer))
}

// changeFinalizer adds or removes the finalizer of a task, under the resourceVersion that was read.
func (r *Reconciler) changeFinalizer(ctx context.Context, task *v1alpha1.EtcdCopyBackupsTask, change func(client.Object, string) bool) error {
	before := task.DeepCopy()
	if !change(task, v1alpha1.FinalizerCopyBackups) {
		return nil
	}
	if err := r.Client.Patch(ctx, task, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the finalizers of EtcdCopyBackupsTask %s: %w", klog.KObj(task), err)
	}
	return nil
}
