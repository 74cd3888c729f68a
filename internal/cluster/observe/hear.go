// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeLeaseDuration is the duration of the Lease of a node in seconds, unless the kubelet is configured otherwise.
const nodeLeaseDuration = 40

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get

// Hear returns a Snapshot in which a kubelet's report that an etcd is not running is stale if its node is silent. Kubernetes only marks a
// node once its Lease has expired; the kubelet renews the Lease four times as often, so a report is believed for a fifth of the Lease's
// duration (ADR 106). It takes a live read of the Lease, so call it only before acting on such a report. Without a Lease, or the right to
// read it, only the condition of the node counts.
func Hear(ctx context.Context, c client.Client, live client.Reader, s *cluster.Snapshot) (*cluster.Snapshot, error) {
	leases := map[int]*coordinationv1.Lease{}
	for i, o := range s.Ordinals {
		if o.Pod == nil || o.Pod.Ended || o.Pod.Node.Name == "" || o.MayRun() {
			continue
		}
		lease := &coordinationv1.Lease{}
		err := live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: o.Pod.Node.Name}, lease)
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		case err != nil:
			return nil, fmt.Errorf("reading the Lease of node %s: %w", o.Pod.Node.Name, err)
		case !servertime.Written(lease, "").IsZero():
			leases[i] = lease
		}
	}
	if len(leases) == 0 {
		return s, nil
	}
	now, err := servertime.Now(ctx, c) // after the reads: at worst, a Lease seems older than it is
	if err != nil {
		return nil, err
	}
	heard := *s
	heard.Ordinals = slices.Clone(s.Ordinals)
	for i, lease := range leases {
		believed := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, nodeLeaseDuration)) * time.Second / 5
		if now.Sub(servertime.Written(lease, "")) > believed {
			pod := *s.Ordinals[i].Pod
			pod.Node.Trouble = fmt.Sprintf("silent (its Lease has not been renewed for %s)", believed)
			heard.Ordinals[i].Pod = &pod
		}
	}
	return &heard, nil
}
