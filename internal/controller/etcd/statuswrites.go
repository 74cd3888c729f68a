// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// detailInterval is the least time between two writes of a status in which only details have changed. While
// a pod is replaced they change many times.
const detailInterval = 10 * time.Second

// writeStatus writes a status that says something new. When it has put off the details, it returns after
// how long they are due.
func (r *Reconciler) writeStatus(ctx context.Context, etcd *v1alpha1.Etcd, next v1alpha1.EtcdStatus) (due time.Duration, err error) {
	if equality.Semantic.DeepEqual(etcd.Status, next) {
		return 0, nil
	}
	key, now := client.ObjectKeyFromObject(etcd), r.Clock.Now()
	if r.memory.of(key).overwritten == etcd.ResourceVersion {
		return retryConflict, nil
	}
	if !saysMore(&etcd.Status, &next) {
		if wait := r.memory.of(key).written.Add(detailInterval).Sub(now); wait > 0 {
			return wait, nil
		}
	}
	before := etcd.DeepCopy()
	etcd.Status = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, etcd, patch, fieldOwner); err != nil {
		// It may have been deleted meanwhile.
		return 0, client.IgnoreNotFound(fmt.Errorf("writing the status of Etcd %s: %w", key, err))
	}
	r.memory.change(key, func(m *remembered) {
		m.written = now
		if etcd.ResourceVersion != before.ResourceVersion {
			m.overwritten = before.ResourceVersion
		}
	})
	return 0, nil
}

// saysMore tells whether a status differs in more than details, which are the members, the numbers,
// wordings and times: in what somebody may wait for.
func saysMore(before, after *v1alpha1.EtcdStatus) bool {
	for _, c := range after.Conditions {
		if b := meta.FindStatusCondition(before.Conditions, c.Type); b == nil || b.Status != c.Status {
			return true
		}
	}
	return before.ObservedGeneration != after.ObservedGeneration ||
		before.ClusterID != after.ClusterID || before.ClusterSize != after.ClusterSize ||
		!equality.Semantic.DeepEqual(before.Ready, after.Ready) ||
		!equality.Semantic.DeepEqual(before.Hibernation, after.Hibernation) ||
		!equality.Semantic.DeepEqual(before.Recovery, after.Recovery) ||
		!equality.Semantic.DeepEqual(before.Rollout, after.Rollout) ||
		!slices.EqualFunc(before.LastErrors, after.LastErrors, sameError)
}

// sameError tells whether two errors differ at most in when they were seen.
func sameError(a, b v1alpha1.LastError) bool {
	return a.Code == b.Code && a.Description == b.Description
}
