// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// leases renews a Lease that the operator has made. Agents may only patch.
type leases struct {
	client coordinationclient.LeaseInterface
	name   string
	// lifetime is how long a renewal is valid.
	lifetime time.Duration
	// annotations are written with each renewal; nil if none are.
	annotations map[string]string
}

// NewMemberLease makes the Lease of a member, which says whether the member uses TLS among peers, as that of etcd-druid does, and that its
// agent reports what it reads of members, even if it has read nothing: one of an older version does not.
func NewMemberLease(config *rest.Config, namespace, name string, lifetime time.Duration, shared member.Shared) (Lease, error) {
	lease, err := newLease(config, namespace, name, lifetime)
	if err != nil {
		return nil, err
	}
	lease.annotations = map[string]string{
		v1alpha1.AnnotationPeerTLSEnabled: strconv.FormatBool(shared.PeerTLS()),
		v1alpha1.AnnotationMembersRead:    cluster.Read{Etcd: shared.EtcdUID()}.Encode(),
	}
	return lease, nil
}

// NewSnapshotLease makes the Lease of a name that records snapshots.
func NewSnapshotLease(config *rest.Config, namespace, name string) (SnapshotLease, error) {
	return newLease(config, namespace, name, 0)
}

func newLease(config *rest.Config, namespace, name string, lifetime time.Duration) (*leases, error) {
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	return &leases{client: client.Leases(namespace), name: name, lifetime: lifetime}, nil
}

// Annotate writes an annotation of the lease. On that of a member it is repeated with each renewal, in case the Lease is made again.
func (l *leases) Annotate(ctx context.Context, key, value string) error {
	if l.annotations != nil {
		l.annotations[key] = value
	}
	_, err := l.patch(ctx, annotate(map[string]string{key: value}))
	return err
}

// Report implements SnapshotLease.
func (l *leases) Report(ctx context.Context, annotations map[string]string) (records bool, err error) {
	lease, err := l.patch(ctx, annotate(annotations))
	if err != nil {
		return false, err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "") != "", nil
}

func annotate(annotations map[string]string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": annotations}}
}

func (l *leases) Renew(ctx context.Context, holder string, now time.Time) error {
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(now))}
	if l.lifetime > 0 {
		spec.LeaseDurationSeconds = ptr.To(int32(l.lifetime.Seconds()))
	}
	change := map[string]any{"spec": spec}
	if len(l.annotations) > 0 {
		change["metadata"] = map[string]any{"annotations": l.annotations}
	}
	_, err := l.patch(ctx, change)
	return err
}

// Record implements SnapshotLease. A compaction records a full snapshot of its own, and another member may lead by now: a record of a snapshot that
// was taken later and does not end before stays, unless a clock that was ahead has written it.
func (l *leases) Record(ctx context.Context, s backup.Snapshot, now time.Time) error {
	holder := strconv.FormatInt(s.LastRevision, 10)
	return l.update(ctx, func(lease *coordinationv1.Lease) *coordinationv1.Lease {
		recorded, _ := strconv.ParseInt(ptr.Deref(lease.Spec.HolderIdentity, ""), 10, 64) // 0 is before all
		if at := lease.Spec.RenewTime; at != nil && at.After(s.Created) && !at.After(now) && recorded >= s.LastRevision {
			return nil
		}
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(s.Created))}}
	})
}

// maxUpdates is how often a lease is read again that was changed in between.
const maxUpdates = 5

// update writes what change sets of the annotations and the spec of a lease, or nothing. A lease that was changed in between is read again.
func (l *leases) update(ctx context.Context, change func(*coordinationv1.Lease) *coordinationv1.Lease) error {
	var conflict error
	for range maxUpdates {
		lease, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading lease %s: %w", l.name, err)
		}
		next := change(lease)
		if next == nil {
			return nil
		}
		metadata := map[string]any{"resourceVersion": lease.ResourceVersion}
		if len(next.Annotations) > 0 {
			metadata["annotations"] = next.Annotations
		}
		if _, conflict = l.patch(ctx, map[string]any{"metadata": metadata, "spec": next.Spec}); !apierrors.IsConflict(conflict) {
			return conflict
		}
	}
	return conflict
}

// patch returns the lease as it is then.
func (l *leases) patch(ctx context.Context, change map[string]any) (*coordinationv1.Lease, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encoding lease %s: %w", l.name, err)
	}
	lease, err := l.client.Patch(ctx, l.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "etcd-agent"})
	if err != nil {
		return nil, fmt.Errorf("patching lease %s: %w", l.name, err)
	}
	return lease, nil
}
