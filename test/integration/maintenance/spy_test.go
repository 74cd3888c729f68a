// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"context"
	"crypto/tls"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
)

func (s *spy) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	c, err := s.Dialer.Dial(endpoint, config)
	return &watched{Client: c, spy: s, endpoint: endpoint}, err
}

// watched is a client that reports its requests to the spy.
type watched struct {
	etcdclient.Client
	spy      *spy
	endpoint string
}

func (w *watched) Defragment(ctx context.Context) error {
	status, err := w.Status(ctx)
	if err != nil {
		return err
	}
	w.spy.note("Defragment %s, leads: %v", w.endpoint, status.Leader == status.MemberID)
	if w.spy.hold != nil {
		if err := w.spy.hold(ctx); err != nil {
			return err
		}
	}
	return w.Client.Defragment(ctx)
}

func (w *watched) MoveLeader(ctx context.Context, to uint64) error {
	w.spy.note("MoveLeader %s", w.endpoint)
	return w.Client.MoveLeader(ctx, to)
}
