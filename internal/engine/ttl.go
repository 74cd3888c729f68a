// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// timeToLive returns how long a task is kept after its end. ends is false for a task that does not expire: one that has not ended, a
// Restore that has replaced data, since deleting it also deletes the data that the members had before, and one that a newer operator has
// started, which may keep data as well.
func timeToLive(t *v1alpha1.EtcdOperatorTask) (ttl time.Duration, ends bool) {
	if !t.Status.State.IsFinal() || t.Status.CompletedAt == nil || t.KeepsData() || t.OfNewerOperator() {
		return 0, false
	}
	seconds := ptr.Deref(t.Spec.TTLSecondsAfterFinished, v1alpha1.DefaultTTLSecondsAfterFinished)
	return time.Duration(seconds) * time.Second, true
}

// minTTL is the minimum with a Gate, which has to read how the task ended.
const minTTL = time.Minute

// expire deletes a task whose TTL has passed, or returns how long it still has. Once the task of a recovery is gone, members delete the
// data they kept, so the operator's clock alone must not decide: unless this process has watched the whole TTL pass, the API server's clock
// counts (ADR 46).
func (r *Reconciler) expire(ctx context.Context, cached *v1alpha1.EtcdOperatorTask) (time.Duration, error) {
	ttl, ends := timeToLive(cached)
	if !ends {
		return 0, nil
	}
	if r.Gate != nil {
		ttl = max(ttl, minTTL)
	}
	elapsed, seen := r.books.elapsed(cached, cached.Status.CompletedAt.Time, r.Clock)
	// With a completion time in the future, each new process would keep the task for the whole TTL again.
	future := elapsed == seen && cached.Status.CompletedAt.After(r.Clock.Now())
	if future || elapsed >= ttl && seen < ttl {
		var err error
		if elapsed, err = r.endedFor(ctx, cached, seen); err != nil {
			return 0, err
		}
		r.books.correct(cached, elapsed, r.Clock)
	}
	if elapsed < ttl {
		return ttl - elapsed, nil
	}
	// The preconditions spare a task whose TTL was raised since, or that was created again under the same name.
	if err := r.Client.Delete(ctx, cached, client.Preconditions{UID: &cached.UID, ResourceVersion: &cached.ResourceVersion}); err != nil {
		return 0, fmt.Errorf("deleting task %s, which has expired: %w", client.ObjectKeyFromObject(cached), err)
	}
	log.FromContext(ctx).Info("Deleted expired task", logging.KeyTask, klog.KObj(cached))
	return 0, nil
}

// endedFor returns how long ago a task ended by the clock of the API server, which stamps every status write. Without a stamp, it returns
// how long this process has seen the task ended.
func (r *Reconciler) endedFor(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, seen time.Duration) (time.Duration, error) {
	key, live := client.ObjectKeyFromObject(cached), &v1alpha1.EtcdOperatorTask{}
	if err := r.Live.Get(ctx, key, live); err != nil {
		return 0, fmt.Errorf("reading task %s, whose TTL may have passed: %w", key, err)
	}
	ended := servertime.Written(live, "status")
	if ended.IsZero() {
		return seen, nil
	}
	now, err := servertime.Now(ctx, r.Client)
	return now.Sub(ended), err
}
