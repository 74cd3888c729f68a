// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

const (
	// MaxMembers is the maximum length of a member list. etcd recommends at most seven members.
	MaxMembers = 100
	// maxMemberList bounds the answer, in bytes: small entries take fifty times as much once decoded.
	maxMemberList = 64 << 10
)

func (c *client) Members(ctx context.Context) ([]Member, error) { return c.members(ctx, false) }

func (c *client) ConfirmedMembers(ctx context.Context) ([]Member, error) { return c.members(ctx, true) }

func (c *client) members(ctx context.Context, linearizable bool) ([]Member, error) {
	r, err := etcdserverpb.NewClusterClient(c.etcd.ActiveConnection()).MemberList(ctx, &etcdserverpb.MemberListRequest{Linearizable: linearizable}, grpc.MaxCallRecvMsgSize(maxMemberList))
	if err != nil {
		return nil, fmt.Errorf("asking %s for its member list: %w", c.endpoint, err)
	}
	if n := len(r.Members); n > MaxMembers {
		return nil, fmt.Errorf("asking %s for its member list: it has %d members, more than %d", c.endpoint, n, MaxMembers)
	}
	members := make([]Member, 0, len(r.Members))
	for _, m := range r.Members {
		members = append(members, Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner, ClientURLs: m.ClientURLs, PeerURLs: m.PeerURLs})
	}
	return members, nil
}

func (c *client) AddLearner(ctx context.Context, urls []string) error {
	if _, err := c.etcd.MemberAddAsLearner(ctx, urls); err != nil {
		return fmt.Errorf("asking %s to add a learner with the peer URLs %v: %w", c.endpoint, urls, err)
	}
	return nil
}

func (c *client) PromoteLearner(ctx context.Context, id uint64) error {
	if _, err := c.etcd.MemberPromote(ctx, id); err != nil {
		return fmt.Errorf("asking %s to promote learner %x: %w", c.endpoint, id, err)
	}
	return nil
}

func (c *client) RemoveMember(ctx context.Context, id uint64) error {
	if _, err := c.etcd.MemberRemove(ctx, id); err != nil {
		return fmt.Errorf("asking %s to remove member %x: %w", c.endpoint, id, err)
	}
	return nil
}

// IsRefusal reports whether etcd has refused a request to change the member list, so that it cannot take effect later. After any other
// error it may.
func IsRefusal(err error) bool {
	refused, ok := errors.AsType[rpctypes.EtcdError](err)
	if !ok {
		return false
	}
	switch refused.Code() {
	case codes.FailedPrecondition, codes.NotFound, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return IsUnhealthy(err)
}

// IsUnhealthy reports whether a member has refused to change the member list because it considers too many others disconnected. It judges
// by its own record, where a late failure of a connection to a member's old address may outlast the new connections. Another member may
// accept the request.
func IsUnhealthy(err error) bool { return errors.Is(err, rpctypes.ErrUnhealthy) }

func (c *client) MoveLeader(ctx context.Context, to uint64) error {
	if _, err := c.etcd.MoveLeader(ctx, to); err != nil {
		return fmt.Errorf("asking %s to move leadership to member %x: %w", c.endpoint, to, err)
	}
	return nil
}

func (c *client) SetPeerURLs(ctx context.Context, id uint64, urls []string) error {
	if _, err := c.etcd.MemberUpdate(ctx, id, urls); err != nil {
		return fmt.Errorf("asking %s to list member %x with the peer URLs %v: %w", c.endpoint, id, urls, err)
	}
	return nil
}
