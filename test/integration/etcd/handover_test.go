// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hopeful is an Observer with a stale cache, in which every member participates.
type hopeful struct {
	observe.Interface
	cache client.Reader
}

func (h hopeful) Observe(ctx context.Context, reader client.Reader, e *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	s, err := h.Interface.Observe(ctx, reader, e)
	if err != nil || reader != h.cache {
		return s, err
	}
	past := *s
	past.Surplus, past.Ordinals = nil, slices.Clone(s.Ordinals)
	for i := range past.Ordinals {
		past.Ordinals[i].Class = v1alpha1.ClassParticipating
	}
	return &past, nil
}

// The StatefulSet controller takes over when every member participates according to the API server. With a stale cache
// it would delete the next pod while one is missing.
func TestHandOverIsDecidedOnLiveReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	on.stop()
	w.kubelet.Set(pod(1), env.NotReady)
	w.Eventually(func() bool { return w.up(1) }).Should(BeFalse())

	off := w.start(gateOff, func(r *etcd.Reconciler) { r.Observer = hopeful{r.Observer, r.Client} })
	for range 3 {
		w.nudge(off)
		w.Expect(w.strategy()).To(Satisfy(onDelete))
	}
	w.kubelet.Set(pod(1), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}
