// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	. "github.com/onsi/gomega"
)

// answering is a member that answers as its functions do.
type answering struct {
	etcdclient.Client
	move   func(ctx context.Context) error
	status func(ctx context.Context) (etcdclient.Status, error)
}

func (a answering) MoveLeader(ctx context.Context, _ uint64) error { return a.move(ctx) }

func (a answering) Status(ctx context.Context) (etcdclient.Status, error) { return a.status(ctx) }

func TestHandOver(t *testing.T) {
	const successor = 2
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	refuse := func(context.Context) error { return errors.New("not leader") }
	accept := func(context.Context) error { return nil }
	says := func(leader uint64) func(context.Context) (etcdclient.Status, error) {
		return func(context.Context) (etcdclient.Status, error) { return etcdclient.Status{Leader: leader}, nil }
	}
	silent := func(ctx context.Context) (etcdclient.Status, error) { return etcdclient.Status{}, hang(ctx) }
	for name, test := range map[string]struct {
		move   func(context.Context) error
		status func(context.Context) (etcdclient.Status, error)
		want   string
	}{
		"the successor knows before the leader answers": {move: hang, status: says(successor)},
		"the leader answers, the successor is silent":   {move: accept, status: silent},
		"the leader refuses, the successor is silent":   {move: refuse, status: silent, want: "not leader"},
		"the leader refuses, another one leads":         {move: refuse, status: says(3), want: "not leader"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := handOver(t.Context(), answering{move: test.move}, answering{status: test.status}, successor)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			}
		})
	}
}
