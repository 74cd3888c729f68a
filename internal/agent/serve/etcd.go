// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// etcd implements Member with etcd's client.
type etcd struct {
	name   string
	url    string
	shared SharedFrom
	local  *clientv3.Client
}

// errNoPeer is returned for a member that knows no other one.
var errNoPeer = errors.New("there is no other member to ask")

// NewMember makes a Member of the pod's own etcd.
func NewMember(name string, shared SharedFrom) (Member, *clientv3.Client, error) {
	config, err := shared()
	if err != nil {
		return nil, nil, err
	}
	url, err := config.LocalClientURL()
	if err != nil {
		return nil, nil, err
	}
	id, err := config.Identify(name)
	if err != nil {
		return nil, nil, err
	}
	local, err := dial(config, member.ClientDir, id, url)
	if err != nil {
		return nil, nil, err
	}
	return &etcd{name: name, url: url, shared: shared, local: local}, local, nil
}

// dial makes a client of the pod's own etcd, or of others. A member's certificate is for its host name, but the own member is
// dialed by another address, so gRPC needs the host name to verify. The client's certificate is in the folder
// certificates.
func dial(config member.Shared, certificates string, id member.Identity, urls ...string) (*clientv3.Client, error) {
	tls, err := config.ClientTLS(certificates)
	if err != nil {
		return nil, err
	}
	var options []grpc.DialOption
	if tls != nil && !slices.Contains(id.PeerClientURLs, urls[0]) {
		host, err := neturl.Parse(id.ClientURL)
		if err != nil {
			return nil, fmt.Errorf("reading the member's client URL: %w", err)
		}
		options = append(options, grpc.WithAuthority(host.Hostname()))
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: urls, TLS: tls, DialOptions: options, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("making an etcd client for %v: %w", urls, err)
	}
	return client, nil
}

func (e *etcd) Status(ctx context.Context) (Status, error) {
	r, err := e.local.Status(ctx, e.url)
	if err != nil {
		return Status{}, fmt.Errorf("asking the member for its status: %w", err)
	}
	return Status{
		ClusterID: r.Header.GetClusterId(), MemberID: r.Header.GetMemberId(), Leader: r.Leader, Learner: r.IsLearner,
		Revision: r.Header.GetRevision(),
	}, nil
}

func (e *etcd) Read(ctx context.Context, linearizable bool) error {
	options := []clientv3.OpOption{clientv3.WithKeysOnly()}
	if !linearizable {
		options = append(options, clientv3.WithSerializable())
	}
	if _, err := e.local.Get(ctx, "etcd-foreman/timed-read", options...); err != nil {
		return fmt.Errorf("reading from the member: %w", err)
	}
	return nil
}

// Promote asks the others: a learner serves almost no requests.
func (e *etcd) Promote(ctx context.Context, memberID uint64) error {
	return e.askOthers(func(others *clientv3.Client) error {
		if _, err := others.MemberPromote(ctx, memberID); err != nil {
			return fmt.Errorf("promoting learner %x: %w", memberID, err)
		}
		return nil
	})
}

// Listed reads linearizably: a member that lags could still list one that is gone.
func (e *etcd) Listed(ctx context.Context, clusterID, memberID uint64) (listed bool, err error) {
	err = e.askOthers(func(others *clientv3.Client) error {
		list, err := others.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("asking for the member list: %w", err)
		}
		if id := list.Header.GetClusterId(); id != clusterID {
			return fmt.Errorf("cluster %x answers, and not %x", id, clusterID)
		}
		listed = slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == memberID })
		return nil
	})
	return listed, err
}

// Stir revokes lease 0, which never exists: every member applies the entry, and finds nothing to do.
func (e *etcd) Stir(ctx context.Context) error {
	return e.askOthers(func(others *clientv3.Client) error {
		if _, err := others.Revoke(ctx, clientv3.NoLease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("committing an entry that changes nothing: %w", err)
		}
		return nil
	})
}

// askOthers asks the other members by a connection of its own.
func (e *etcd) askOthers(ask func(others *clientv3.Client) error) error {
	shared, err := e.shared()
	if err != nil {
		return err
	}
	id, err := shared.Identify(e.name)
	if err != nil {
		return err
	}
	if len(id.PeerClientURLs) == 0 {
		return errNoPeer
	}
	others, err := dial(shared, member.ClientDir, id, id.PeerClientURLs...)
	if err != nil {
		return err
	}
	// The connection is not needed any more.
	defer func() { _ = others.Close() }()
	return ask(others)
}

var _ Member = (*etcd)(nil)

// SharedIn reads the shared configuration in a folder, as it is for a pod with a configuration file.
func SharedIn(dir, file string) SharedFrom {
	return func() (member.Shared, error) {
		shared, err := member.ReadShared(dir)
		if err != nil {
			return member.Shared{}, err
		}
		return shared.InPod(file)
	}
}
