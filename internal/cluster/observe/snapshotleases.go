// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SnapshotLeases are the leases in which the leader's agent records the newest snapshots; nil if there is none.
type SnapshotLeases struct{ Full, Delta *coordinationv1.Lease }

// ReadSnapshotLeases reads the snapshot leases of an Etcd.
func ReadSnapshotLeases(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (SnapshotLeases, error) {
	var leases SnapshotLeases
	for _, of := range []struct {
		name string
		into **coordinationv1.Lease
	}{{etcd.FullSnapshotLeaseName(), &leases.Full}, {etcd.DeltaSnapshotLeaseName(), &leases.Delta}} {
		lease, err := lookup.Get[coordinationv1.Lease](ctx, reader, "lease", client.ObjectKey{Namespace: etcd.Namespace, Name: of.name})
		if err != nil {
			return SnapshotLeases{}, err
		}
		// A foreign lease says nothing about this Etcd's snapshots.
		if lease != nil && ownership.Of(etcd, "Lease", lease) == nil {
			*of.into = lease
		}
	}
	return leases, nil
}
