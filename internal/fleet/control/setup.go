// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Setup registers the controller with a manager. The whole fleet is one request. Its rights are in config/fleet.
func (c *Controller) Setup(mgr ctrl.Manager, _ int) error {
	whole := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("fleet").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, interval),
		}).
		Watches(&v1alpha1.EtcdFleetPolicy{}, whole, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.EtcdOperatorTask{}, whole, builder.WithPredicates(states)).
		WatchesRawSource(source.Channel(c.pokes, whole)).
		Complete(c)
}

// states lets through what may free a slot: a task that ends, is deleted, or is suspended before it starts.
var states = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.EtcdOperatorTask), e.ObjectNew.(*v1alpha1.EtcdOperatorTask)
		return needsSlot(after.Spec.Type) && (before.Status.State != after.Status.State || before.Spec.Suspend != after.Spec.Suspend)
	},
}

// seconds is a time as the API server keeps it.
func seconds(t time.Time) metav1.Time { return metav1.Time{Time: t.Truncate(time.Second)} }
