// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/logging"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// timeToLive is how long a task is still kept; not more than 0 once it has expired. The second result is false
// for a task that does not expire because it has not ended.
func timeToLive(t *v1alpha1.EtcdOperatorTask, now time.Time) (time.Duration, bool) {
	if !t.Status.State.IsFinal() || t.Status.CompletedAt == nil {
		return 0, false
	}
	ttl := v1alpha1.DefaultTTLSecondsAfterFinished
	if t.Spec.TTLSecondsAfterFinished != nil {
		ttl = *t.Spec.TTLSecondsAfterFinished
	}
	return t.Status.CompletedAt.Add(time.Duration(ttl) * time.Second).Sub(now), true
}

// expire deletes a task that has ended and outlived its TTL, and says when to come back for one that has not.
func (r *Reconciler) expire(ctx context.Context, cached *v1alpha1.EtcdOperatorTask) (time.Duration, error) {
	if left, ends := timeToLive(cached, r.Clock.Now()); !ends || left > 0 {
		return max(left, 0), nil
	}
	// The preconditions are what the cache shows: a task whose TTL was raised since, or that was created again under the same
	// name, is not deleted.
	if err := r.Client.Delete(ctx, cached, client.Preconditions{UID: &cached.UID, ResourceVersion: &cached.ResourceVersion}); err != nil {
		return 0, fmt.Errorf("deleting task %s, which has expired: %w", client.ObjectKeyFromObject(cached), err)
	}
	log.FromContext(ctx).Info("Deleted expired task", logging.KeyTask, klog.KObj(cached))
	return 0, nil
}
