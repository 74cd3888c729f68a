// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollout makes a task of every template change that pods still have to follow: DEP-07's OnDelete
// controller, as far as it is not the task type QuorumAwareRollout.
package rollout

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reconciler creates rollout tasks.
type Reconciler struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Reconcile makes sure that a task covers the update revision of a StatefulSet as long as a pod is outdated.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.Client.Get(ctx, request.NamespacedName, set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !concerns(set) || set.Status.ObservedGeneration < set.Generation || set.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	etcd := &v1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, etcd); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ownership.Of(etcd, "StatefulSet", set) != nil || etcd.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	outdated, err := r.hasOutdatedPod(ctx, set)
	if err != nil || !outdated {
		return ctrl.Result{}, err
	}
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := r.Client.List(ctx, tasks, etcdtasks.Of(request.NamespacedName)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the tasks of Etcd %s: %w", request, err)
	}
	p := pending{etcd: etcd, set: set.UID, revision: set.Status.UpdateRevision, tasks: tasks.Items}
	if p.covered() {
		return ctrl.Result{}, nil
	}
	created, wait := p.next(r.Clock.Now())
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.Client.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, fmt.Errorf("creating task %s: %w", klog.KObj(created), err)
	}
	log.FromContext(ctx).Info("Created rollout task", logging.KeyTask, klog.KObj(created), "targetRevision", p.revision, "suspend", created.Spec.Suspend)
	return ctrl.Result{}, nil
}

func concerns(set *appsv1.StatefulSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
}

func (r *Reconciler) hasOutdatedPod(ctx context.Context, set *appsv1.StatefulSet) (bool, error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: set.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the pods of StatefulSet %s: %w", klog.KObj(set), err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if metav1.IsControlledBy(pod, set) && pod.DeletionTimestamp == nil && pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision {
			return true, nil
		}
	}
	return false, nil
}
