// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// etcd refuses proposals of a member that has applied 5,000 entries fewer than are committed, and does not count what a snapshot
// of the leader brought: the member cannot announce itself, and serves nobody, until another entry is committed. Where nobody
// writes, the agent has one committed.
func TestMemberWithoutDataCatchesUpWhereNobodyWrites(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	c.startThree(g)
	c.putMany(g, 12_000, 1)

	c.stop(2)
	g.Expect(os.RemoveAll(c.dataDir(2))).To(Succeed())
	c.replaceThird(g)
	m, _, err := serve.NewMember("m2", serve.SharedIn(c.memberDir(2), ""))
	g.Expect(err).NotTo(HaveOccurred())
	agent := &serve.Server{
		Log: testr.New(t), Member: m, Lease: noLease{}, Heartbeat: time.Minute,
		Address: "127.0.0.1:0", Handler: http.NotFoundHandler(), Metrics: serve.NewMetrics(prometheus.NewRegistry()), Clock: clock.RealClock{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	c.promote(g, 2)
	c.awaitVoters(g, 3)
	cancel()
	g.Expect(<-ended).To(Succeed())
}

// noLease is a lease that is renewed nowhere.
type noLease struct{}

func (noLease) Renew(context.Context, string, time.Time) error { return nil }
func (noLease) Annotate(context.Context, string, string) error { return nil }
