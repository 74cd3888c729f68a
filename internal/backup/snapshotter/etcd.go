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

// Etcd is what is asked of a member.
type Etcd interface {
	// Revision that the member has; it has all that was acknowledged before.
	Revision(ctx context.Context) (int64, error)
	// Snapshot streams the database, and its checksum.
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	// LeaseTTL is what a lease was granted for, in seconds; 0 for one that has ended.
	LeaseTTL(ctx context.Context, lease int64) (int64, error)
	// Watch all changes from a revision on.
	Watch(ctx context.Context, from int64) clientv3.WatchChan
}

type member struct{ client *clientv3.Client }

// Member asks the member behind a client, which must have that one endpoint and no other: the revision that a
// snapshot is named after has to be one that the member which sends it has.
func Member(client *clientv3.Client) (Etcd, error) {
	if n := len(client.Endpoints()); n != 1 {
		return nil, fmt.Errorf("the client of a snapshotter must have one endpoint, not %d", n)
	}
	return member{client}, nil
}

func (m member) Revision(ctx context.Context) (int64, error) {
	// A linearizable read is answered by a member only after it has applied all that was committed before.
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
