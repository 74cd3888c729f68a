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
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servedcrd"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// detailInterval is the least time between two writes of a status that differ only in details, which change many times while a pod
// is replaced.
const detailInterval = 10 * time.Second

// statusWriter writes the statuses of Etcds.
type statusWriter struct {
	client   client.Client
	recorder events.EventRecorder
	clock    clock.PassiveClock

	written memory.PerEtcd[writtenStatus]
	// lost is when the quorum of an Etcd was first seen to be lost; zero while there is a quorum.
	lost memory.PerEtcd[time.Time]
	// pruned: the API server has not kept all of the last write.
	pruned memory.PerEtcd[bool]
}

// writtenStatus is the last write of a status.
type writtenStatus struct {
	at time.Time
	// over are the resourceVersions of the Etcd before this write and the last one. A cache that still shows one of them is behind,
	// and a write would be refused.
	over [2]string
}

func (w *statusWriter) forget(etcd types.NamespacedName) {
	w.written.Forget(etcd)
	w.lost.Forget(etcd)
	w.pruned.Forget(etcd)
}

// write writes a status that says something new. If it defers details, it returns for how long.
func (w *statusWriter) write(ctx context.Context, etcd *v1alpha1.Etcd, next v1alpha1.EtcdStatus) (due time.Duration, err error) {
	if equality.Semantic.DeepEqual(etcd.Status, next) {
		if w.pruned.Of(etcd) {
			// The fields that the API server dropped do not show as a difference.
			return 0, fmt.Errorf("the API server has not kept the status of Etcd %s: see its events", client.ObjectKeyFromObject(etcd))
		}
		return 0, nil
	}
	now, last := w.clock.Now(), w.written.Of(etcd)
	if slices.Contains(last.over[:], etcd.ResourceVersion) && etcd.ResourceVersion != "" {
		return retryConflict, nil
	}
	if !status.SaysMore(&etcd.Status, &next) {
		if wait := last.at.Add(detailInterval).Sub(now); wait > 0 {
			return wait, nil
		}
	}
	before := etcd.DeepCopy()
	etcd.Status = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.client.Status().Patch(ctx, etcd, patch, apply.Manager); err != nil {
		// It may have been deleted.
		return 0, client.IgnoreNotFound(fmt.Errorf("writing the status of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err))
	}
	written := writtenStatus{at: now, over: last.over}
	if etcd.ResourceVersion != before.ResourceVersion {
		written.over = [2]string{before.ResourceVersion, last.over[0]}
	}
	w.written.Set(etcd, written)
	err = servedcrd.CheckKept(next, etcd.Status)
	w.pruned.Set(etcd, err != nil)
	if err != nil {
		// Members that are instructed by the rest would continue as another cluster, or remove data that they keep.
		w.recorder.Eventf(etcd, nil, corev1.EventTypeWarning, v1alpha1.ReasonRetrying, "WriteStatus", "%s", err)
		return 0, fmt.Errorf("recording the status of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	w.report(etcd, &before.Status)
	return 0, nil
}

// lostFor returns how long the quorum of an Etcd has been lost, after one more observation.
func (w *statusWriter) lostFor(etcd *v1alpha1.Etcd, quorate bool, now time.Time) time.Duration {
	since := w.lost.Of(etcd)
	switch {
	case quorate:
		since = time.Time{}
	case since.IsZero():
		since = now
	}
	w.lost.Set(etcd, since)
	if quorate {
		return 0
	}
	return now.Sub(since)
}
