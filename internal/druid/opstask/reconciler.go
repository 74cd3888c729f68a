// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package opstask serves EtcdOpsTasks, the type of etcd-druid: it creates an EtcdOperatorTask for each, and reports its progress
// in the status. There are few of them, so everything is read from the API server.
package opstask

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
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
	// maxTimeout is the longest timeout of an OnDemandSnapshot.
	maxTimeout = 4 * time.Hour
	// outlives is how much longer the EtcdOperatorTask is kept than its EtcdOpsTask, which first has to show how it ended.
	outlives = 30 * 24 * time.Hour
)

// Reconciler serves EtcdOpsTasks.
type Reconciler struct {
	// Client writes to the API server, and Live reads from it.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
}

// Reconcile creates the EtcdOperatorTask of a task, reports its progress, and deletes a task whose TTL has passed.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	task, err := lookup.Get[v1alpha1.EtcdOpsTask](ctx, r.Live, "EtcdOpsTask", request.NamespacedName)
	if err != nil || task == nil {
		return ctrl.Result{}, err
	}
	switch {
	case task.DeletionTimestamp != nil:
		return ctrl.Result{}, r.release(ctx, task)
	case ptr.Deref(task.Status.State, "").IsFinal():
		return r.expire(ctx, task)
	}
	before := task.Status.DeepCopy()
	if err := r.show(ctx, task); err != nil {
		return ctrl.Result{}, err
	}
	if equality.Semantic.DeepEqual(before, &task.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.Client.Status().Update(ctx, task); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of EtcdOpsTask %s: %w", klog.KObj(task), err)
	}
	return ctrl.Result{}, nil
}

// show creates the EtcdOperatorTask of a task unless it exists, and updates the status of the task from it.
func (r *Reconciler) show(ctx context.Context, task *v1alpha1.EtcdOpsTask) error {
	now := r.Clock.Now()
	if ptr.Deref(task.Spec.EtcdName, "") == "" {
		reject(task, v1alpha1.ErrGetEtcd, "spec.etcdName is missing: create another task that names the Etcd", now)
		return nil
	}
	found := &v1alpha1.EtcdOperatorTask{}
	key := client.ObjectKey{Namespace: task.Namespace, Name: job.Name(task)}
	err := r.Live.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err) && task.Status.OperatorTask != "":
		fail(task, v1alpha1.ErrInternal, fmt.Sprintf("EtcdOperatorTask %s, which carried out this task, was deleted", key.Name), now)
		return nil
	case apierrors.IsNotFound(err):
		if found, err = r.create(ctx, task, key.Name); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("reading EtcdOperatorTask %s: %w", key, err)
	}
	if !metav1.IsControlledBy(found, task) {
		reject(task, v1alpha1.ErrForeignObject, fmt.Sprintf("EtcdOperatorTask %s is not of this task: delete it if it is unused, and create another task", key.Name), now)
		return nil
	}
	mirror(task, found, now)
	return nil
}

// create creates the EtcdOperatorTask of a task. A second operator may have created it just before.
func (r *Reconciler) create(ctx context.Context, task *v1alpha1.EtcdOpsTask, name string) (*v1alpha1.EtcdOperatorTask, error) {
	wanted := operatorTask(task, name)
	err := r.Client.Create(ctx, wanted)
	if apierrors.IsAlreadyExists(err) {
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), wanted)
	}
	if err != nil {
		return nil, fmt.Errorf("creating EtcdOperatorTask %s: %w", klog.KObj(wanted), err)
	}
	log.FromContext(ctx).Info("Created the task of an EtcdOpsTask", "etcdOpsTask", klog.KObj(task), "task", klog.KObj(wanted))
	return wanted, nil
}

// operatorTask returns the EtcdOperatorTask that carries out a task.
func operatorTask(task *v1alpha1.EtcdOpsTask, name string) *v1alpha1.EtcdOperatorTask {
	etcd := *task.Spec.EtcdName
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: task.Namespace, Name: name,
			// Without managed-by: it is no task of the spec, whose snapshots are counted.
			Labels:          map[string]string{v1alpha1.LabelPartOf: etcd},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdOpsTask))},
		},
		Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type: v1alpha1.OnDemandSnapshot, Config: config(task.Spec.Config.OnDemandSnapshot),
			// The garbage collector keeps it when its owner has gone: the Etcd becomes its second owner.
			TTLSecondsAfterFinished: ptr.To(int32(min((ttl(task) + outlives).Seconds(), math.MaxInt32))),
			OwnerEtcdReference:      v1alpha1.EtcdReference{Name: etcd},
		},
	}
}

// config returns the config of an OnDemandSnapshot. The API server admits no task without the member of its operation.
func config(c *v1alpha1.OnDemandSnapshotConfig) string {
	if c == nil {
		return ""
	}
	seconds := ptr.Deref(c.TimeoutSecondsFull, 900)
	if c.Type == "delta" {
		seconds = ptr.Deref(c.TimeoutSecondsDelta, 60)
	}
	timeout := min(time.Duration(seconds)*time.Second, maxTimeout)
	return fmt.Sprintf("type: %s\nisFinal: %v\ntimeout: %s\n", c.Type, ptr.Deref(c.IsFinal, false), timeout)
}

func ttl(task *v1alpha1.EtcdOpsTask) time.Duration {
	return time.Duration(ptr.Deref(task.Spec.TTLSecondsAfterFinished, v1alpha1.DefaultTTLSecondsAfterFinished)) * time.Second
}

// expire deletes a task whose TTL has passed, by the clock of the API server, which stamps the status (ADR 46).
func (r *Reconciler) expire(ctx context.Context, task *v1alpha1.EtcdOpsTask) (ctrl.Result, error) {
	since := servertime.Written(task, "status")
	if since.IsZero() {
		since = ptr.Deref(task.Status.LastTransitionTime, task.CreationTimestamp).Time
	}
	if left, err := servertime.Left(ctx, r.Client, since, ttl(task), r.Clock.Now()); err != nil {
		return ctrl.Result{}, fmt.Errorf("finding out whether EtcdOpsTask %s has expired: %w", klog.KObj(task), err)
	} else if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.Client.Delete(ctx, task, client.Preconditions{UID: &task.UID, ResourceVersion: &task.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("deleting EtcdOpsTask %s, which has expired: %w", klog.KObj(task), err)
	}
	return ctrl.Result{}, nil
}

// release removes the finalizer that etcd-druid sets from a task that is being deleted.
func (r *Reconciler) release(ctx context.Context, task *v1alpha1.EtcdOpsTask) error {
	before := task.DeepCopy()
	if !controllerutil.RemoveFinalizer(task, v1alpha1.FinalizerOpsTask) {
		return nil
	}
	if err := r.Client.Patch(ctx, task, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of EtcdOpsTask %s: %w", klog.KObj(task), err)
	}
	return nil
}
