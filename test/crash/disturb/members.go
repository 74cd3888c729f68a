// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package disturb

import (
	"context"
	"crypto/tls"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
)

// Members passes what is asked of members that changes something to a function, as a write.
type Members struct {
	etcdclient.Dialer
	// Write carries a write out by calling do, or not.
	Write func(w Write, do func() error) error
}

// Dial implements etcdclient.Dialer.
func (m Members) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	c, err := m.Dialer.Dial(endpoint, config)
	if err != nil {
		return nil, err
	}
	return member{c, m, endpoint}, nil
}

type member struct {
	etcdclient.Client
	members  Members
	endpoint string
}

func (m member) write(verb string, do func() error) error {
	return m.members.Write(Write{Verb: verb, Kind: "member", Name: m.endpoint}, do)
}

func (m member) MoveLeader(ctx context.Context, to uint64) error {
	return m.write("move leader", func() error { return m.Client.MoveLeader(ctx, to) })
}

func (m member) AddLearner(ctx context.Context, urls []string) error {
	return m.write("add learner", func() error { return m.Client.AddLearner(ctx, urls) })
}

func (m member) PromoteLearner(ctx context.Context, id uint64) error {
	return m.write("promote learner", func() error { return m.Client.PromoteLearner(ctx, id) })
}

func (m member) RemoveMember(ctx context.Context, id uint64) error {
	return m.write("remove member", func() error { return m.Client.RemoveMember(ctx, id) })
}

func (m member) Compact(ctx context.Context, revision int64) error {
	return m.write("compact", func() error { return m.Client.Compact(ctx, revision) })
}

func (m member) Defragment(ctx context.Context) error {
	return m.write("defragment", func() error { return m.Client.Defragment(ctx) })
}

func (m member) Disarm(ctx context.Context, a etcdclient.Alarm) error {
	return m.write("disarm", func() error { return m.Client.Disarm(ctx, a) })
}

func (m member) SetPeerURLs(ctx context.Context, id uint64, urls []string) error {
	return m.write("set peer URLs", func() error { return m.Client.SetPeerURLs(ctx, id, urls) })
}
