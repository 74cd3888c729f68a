// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// answering is an etcd that answers, or fails.
type answering struct {
	clientv3.KV
	clientv3.Lease
	clientv3.Maintenance
	clientv3.Watcher
	ttl   int64
	fails error
}

func (a *answering) Get(_ context.Context, _ string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet("", options...); op.IsSerializable() {
		return nil, errors.New("the member may be behind")
	}
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 7}}, a.fails
}

func (a *answering) SnapshotWithVersion(context.Context) (*clientv3.SnapshotResponse, error) {
	return &clientv3.SnapshotResponse{Snapshot: io.NopCloser(strings.NewReader("database"))}, a.fails
}

func (a *answering) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return &clientv3.LeaseTimeToLiveResponse{TTL: a.ttl, GrantedTTL: 60}, a.fails
}

func (a *answering) Watch(_ context.Context, _ string, options ...clientv3.OpOption) clientv3.WatchChan {
	changes := make(chan clientv3.WatchResponse, 1)
	changes <- clientv3.WatchResponse{CompactRevision: clientv3.OpGet("", options...).Rev()}
	return changes
}

func (a *answering) Close() error { return nil }

// What is asked of a member is asked of one alone, and an error is no answer.
func TestMember(t *testing.T) {
	g := NewWithT(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.ActiveConnection().Close() })
	etcd := &answering{ttl: 30}
	client.KV, client.Lease, client.Maintenance, client.Watcher = etcd, etcd, etcd, etcd
	m, err := Member(client)
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(m.Revision(t.Context())).To(Equal(int64(7)))
	database, err := m.Snapshot(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(io.ReadAll(database)).To(BeEquivalentTo("database"))
	g.Expect(m.LeaseTTL(t.Context(), 1)).To(Equal(int64(60)))
	etcd.ttl = 0
	g.Expect(m.LeaseTTL(t.Context(), 1)).To(Equal(int64(60)), "it has not ended before etcd revokes it")
	etcd.ttl = -1
	g.Expect(m.LeaseTTL(t.Context(), 1)).To(BeZero(), "it has ended")
	g.Expect((<-m.Watch(t.Context(), 8)).CompactRevision).To(Equal(int64(8)))

	etcd.fails = errors.New("no leader")
	_, err = m.Revision(t.Context())
	g.Expect(err).To(MatchError("asking etcd for its revision: no leader"))
	_, err = m.Snapshot(t.Context())
	g.Expect(err).To(MatchError("asking etcd for a snapshot: no leader"))
	_, err = m.LeaseTTL(t.Context(), 0xab)
	g.Expect(err).To(MatchError("asking etcd for lease ab: no leader"))

	client.SetEndpoints("http://127.0.0.1:1", "http://127.0.0.1:2")
	_, err = Member(client)
	g.Expect(err).To(MatchError(ContainSubstring("must have one endpoint, not 2")), "the revision would be that of another member")
}
