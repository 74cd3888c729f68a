// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Etcd is the member whose snapshots are taken.
type Etcd interface {
	// Revision returns the member's revision, which includes everything acknowledged before the call.
	Revision(ctx context.Context) (int64, error)
	// Snapshot streams the database and its checksum.
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	// LeaseTTL returns the TTL that a lease was granted with, in seconds; 0 if the lease has ended.
	LeaseTTL(ctx context.Context, lease int64) (int64, error)
	// Watch watches all changes, starting at a revision.
	Watch(ctx context.Context, from int64) clientv3.WatchChan
}

type member struct{ client *clientv3.Client }

// Member returns the Etcd of a client with one endpoint: the revision in the name of a snapshot must be one of the member
// that sends it.
func Member(client *clientv3.Client) (Etcd, error) {
	if n := len(client.Endpoints()); n != 1 {
		return nil, fmt.Errorf("the client of a snapshotter must have one endpoint, not %d", n)
	}
	return member{client}, nil
}

func (m member) Revision(ctx context.Context) (int64, error) {
	// A linearizable read is answered once the member has applied everything committed before.
	response, err := m.client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("asking etcd for its revision: %w", err)
	}
	return response.Header.Revision, nil
}

func (m member) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	response, err := m.client.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking etcd for a snapshot: %w", err)
	}
	return response.Snapshot, nil
}

func (m member) LeaseTTL(ctx context.Context, lease int64) (int64, error) {
	response, err := m.client.TimeToLive(ctx, clientv3.LeaseID(lease))
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking etcd for lease %x: %w", lease, err)
	case response.TTL < 0:
		return 0, nil
	}
	return response.GrantedTTL, nil
}

func (m member) Watch(ctx context.Context, from int64) clientv3.WatchChan {
	return m.client.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(), clientv3.WithRev(from))
}
