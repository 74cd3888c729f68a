// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package controller has what all controllers have in common.
package controller

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A failed reconcile is retried after the first of these, then after twice as long, and so on up to the second. With the default of up to
// 16 minutes, a rollout would wait for that long after the API server is back.
const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// Unhurried is the priority of what gives way to changes, and may take long, such as to create all that an Etcd needs. It has a third of the
// workers with what is slow, so that what was begun comes to its end before what was read for it is too old, and changes find workers.
const Unhurried = -1

// Options are those of a controller that works on so many objects at the same time, of which each namespace has its share.
func Options(concurrency int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, maxBackoff),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return newFairQueue(name, limiter, concurrency)
		},
	}
}

// EnqueueEtcdOfTask enqueues the Etcd of a task, or an object with its name, such as its StatefulSet.
func EnqueueEtcdOfTask() handler.EventHandler {
	return Enqueue(func(o client.Object) types.NamespacedName { return o.(*v1alpha1.EtcdOperatorTask).EtcdKey() })
}

// Enqueue enqueues the Etcd that an object is about, if any.
func Enqueue(etcdOf func(client.Object) types.NamespacedName) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if k := etcdOf(o); k.Name != "" {
			return []reconcile.Request{{NamespacedName: k}}
		}
		return nil
	})
}

// PartOf returns the Etcd that an object is part of by its label; its name is empty if there is none.
func PartOf(o client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[v1alpha1.LabelPartOf]}
}
