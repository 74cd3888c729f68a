// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch;create;"create:QuorumAwareRollout"
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup registers the controller with a manager whose cache has etcdtasks.Index. It ignores StatefulSets whose strategy is not, and was not
// before, OnDelete.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	onDelete := predicate.NewPredicateFuncs(func(o client.Object) bool { return concerns(o.(*appsv1.StatefulSet)) })
	// A StatefulSet that becomes RollingUpdate is removed from the metrics.
	onDelete.UpdateFunc = func(e event.UpdateEvent) bool {
		return concerns(e.ObjectOld.(*appsv1.StatefulSet)) || concerns(e.ObjectNew.(*appsv1.StatefulSet))
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("rollout").
		WithOptions(controller.Options(concurrency)).
		For(&appsv1.StatefulSet{}, builder.WithPredicates(onDelete)).
		// A task may leave outdated pods behind when it ends. The StatefulSet has the name of its Etcd.
		Watches(&v1alpha1.EtcdOperatorTask{}, controller.EnqueueEtcdOfTask()).
		// An adopted Etcd is left alone while etcd-druid is back.
		Watches(&v1alpha1.Etcd{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(druidGone)).
		// The cache may show a pod later than the status of its StatefulSet, which then does not change again.
		Watches(&corev1.Pod{}, controller.Enqueue(controller.PartOf), builder.WithPredicates(revisions)).
		Complete(r)
}

// druidGone selects events by which an Etcd no longer has the finalizer of etcd-druid.
var druidGone = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return ownership.DruidIsBack(e.ObjectOld) && !ownership.DruidIsBack(e.ObjectNew)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// revisions selects events that may make a pod outdated: it is new, or its revision or the mark of an update in place has changed.
var revisions = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.Labels[appsv1.StatefulSetRevisionLabel] != after.Labels[appsv1.StatefulSetRevisionLabel] ||
			(cluster.MarkOf(before) == nil) != (cluster.MarkOf(after) == nil)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}
