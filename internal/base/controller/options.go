// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package controller is what the controllers beneath it have in common.
package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What has failed is tried again after the first of these, then after twice as long, and so on up to the second. The
// default, up to 16 minutes, would have a rollout wait for that long after the API server is back.
const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

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
