// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func (c *client) Members(ctx context.Context) ([]Member, error) {
	r, err := c.etcd.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("asking %s for its member list: %w", c.endpoint, err)
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
