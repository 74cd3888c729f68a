// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch;create;"create:OnDemandSnapshot";"create:OnDemandCompaction";"create:OnDemandMaintenance"
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup registers the controller with a manager whose cache has etcdtasks.Index.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("upkeep").
		WithOptions(controller.Options(concurrency)).
		For(&v1alpha1.Etcd{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, readinessChanged()))).
		Watches(&coordinationv1.Lease{}, controller.Enqueue(etcdOfSnapshotLease)).
		Watches(&v1alpha1.EtcdOperatorTask{}, controller.EnqueueEtcdOfTask(), builder.WithPredicates(stateChanged())).
		Complete(r)
}

// etcdOfSnapshotLease returns the Etcd of a snapshot lease. Member leases, which are renewed all the time, are ignored.
func etcdOfSnapshotLease(lease client.Object) types.NamespacedName {
	key := controller.PartOf(lease)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	if name := lease.GetName(); name != etcd.FullSnapshotLeaseName() && name != etcd.DeltaSnapshotLeaseName() {
		return types.NamespacedName{}
	}
	return key
}

// readinessChanged passes changes of the conditions that a task waits for.
func readinessChanged() predicate.Predicate {
	ready := func(o client.Object, condition string) bool {
		return o.(*v1alpha1.Etcd).Status.Conditions.IsTrue(condition)
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return slices.ContainsFunc([]string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady}, func(condition string) bool {
			return ready(e.ObjectOld, condition) != ready(e.ObjectNew, condition)
		})
	}}
}

func stateChanged() predicate.Predicate {
	state := func(o client.Object) v1alpha1.TaskState { return o.(*v1alpha1.EtcdOperatorTask).Status.State }
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return state(e.ObjectOld) != state(e.ObjectNew) }}
}
