// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch;create;"create:OnDemandSnapshot";"create:OnDemandCompaction";"create:OnDemandMaintenance"
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup registers the controller with a manager whose cache has etcdtasks.Index.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("upkeep").
		WithOptions(controller.Options(concurrency)).
		For(&v1alpha1.Etcd{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, readinessChanged()))).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(etcdOfSnapshotLease)).
		Watches(&v1alpha1.EtcdOperatorTask{}, controller.EnqueueEtcdOfTask(), builder.WithPredicates(stateChanged())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the upkeep controller: %w", err)
	}
	return nil
}

// etcdOfSnapshotLease returns the Etcd whose snapshots a lease is about. Member leases, which are renewed all the time, are of no
// interest.
func etcdOfSnapshotLease(_ context.Context, lease client.Object) []reconcile.Request {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: lease.GetNamespace(), Name: lease.GetLabels()[v1alpha1.LabelPartOf]}}
	if name := lease.GetName(); etcd.Name == "" || name != etcd.FullSnapshotLeaseName() && name != etcd.DeltaSnapshotLeaseName() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(etcd)}}
}

// readinessChanged passes changes of the conditions that a task waits for.
func readinessChanged() predicate.Predicate {
	ready := func(o client.Object, condition string) bool {
		return o.(*v1alpha1.Etcd).Status.Conditions.IsTrue(condition)
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		for _, c := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady} {
			if ready(e.ObjectOld, c) != ready(e.ObjectNew, c) {
				return true
			}
		}
		return false
	}}
}

func stateChanged() predicate.Predicate {
	state := func(o client.Object) v1alpha1.TaskState { return o.(*v1alpha1.EtcdOperatorTask).Status.State }
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return state(e.ObjectOld) != state(e.ObjectNew) }}
}
