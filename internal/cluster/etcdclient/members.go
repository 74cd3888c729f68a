// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

const (
	// MaxMembers is how many members a member list may have. etcd recommends at most seven.
	MaxMembers = 100
	// maxMemberList bounds the answer, in bytes: decoded, small entries take fifty times as much.
	maxMemberList = 64 << 10
)

func (c *client) Members(ctx context.Context) ([]Member, error) {
	r, err := etcdserverpb.NewClusterClient(c.etcd.ActiveConnection()).MemberList(ctx, &etcdserverpb.MemberListRequest{}, grpc.MaxCallRecvMsgSize(maxMemberList))
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
