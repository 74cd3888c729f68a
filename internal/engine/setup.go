// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks/status,verbs=update
// A task that owns a Job blocks its deletion, which takes a right to its finalizers where the API server asks for it.
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks/finalizers,verbs=update
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/resize,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup registers the engine with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("task").
		WithOptions(controller.Options(concurrency)).
		Watches(&v1alpha1.EtcdOperatorTask{}, controller.EnqueueEtcdOfTask()).
		Watches(&v1alpha1.Etcd{}, controller.Enqueue(client.ObjectKeyFromObject),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.StatefulSet{}, controller.Enqueue(controller.PartOf)).
		Watches(&corev1.Pod{}, controller.Enqueue(controller.PartOf))
	if r.Gate != nil {
		b = b.WatchesRawSource(source.Channel(r.Gate.Wakes(), controller.Enqueue(client.ObjectKeyFromObject)))
	}
	return b.Complete(r)
}
