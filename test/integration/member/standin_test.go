// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// The only member is replaced by way of a second one, by the requests that the operator makes, with the agents and etcd as they are: the
// second joins, votes, leads; the first leaves, comes back from its volume with nothing of what it held; the second leaves. No write
// that was acknowledged is lost.
func TestASecondMemberStandsIn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 2)
	c.share(g, 1)
	c.start(g, 0, "new")
	id := c.idOf(g, 0)
	c.recordID(id)
	w := c.writeAlong(g)

	c.mayBegin = false
	c.share(g, 2)
	c.recordID(id)
	c.relieve(g, 0, 1, id)
	g.Expect(c.aside(g, 0, member.RemovedSuffix)).To(BeEmpty(), "its agent has yet to look")
	c.relieve(g, 1, 0, id)
	g.Expect(c.aside(g, 0, member.RemovedSuffix)).To(HaveLen(1))
	g.Expect(c.idOf(g, 0)).To(Equal(id))

	acknowledged, gap := w.end()
	t.Logf("%d writes, longest gap %s", acknowledged, gap)
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, "along/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		g.Expect(r.Count).To(BeNumerically(">=", acknowledged))
		return err
	})
}

// relieve has a member take over from the only one, which leaves.
func (c *cluster) relieve(g Gomega, only, by int, id string) {
	g.Expect(c.refusal(g, by)).To(Equal(free))
	c.changeAt(g, only, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberAddAsLearner(ctx, []string{c.url(by, c.peer)})
		return err
	})
	c.start(g, by, "existing")
	c.write(g, only, member.KeyMembers, map[string]any{"etcd": c.etcdUID, "clusterID": id, "generation": 1 + only, "leaving": []string{fmt.Sprintf("m%d", only)}})
	c.promote(g, by)
	left, joined := c.memberID(g, only), c.memberID(g, by)
	c.changeAt(g, only, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MoveLeader(ctx, joined)
		return err
	})
	c.changeAt(g, by, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberRemove(ctx, left)
		return err
	})
	g.Expect(c.awaitEnd(g, only)).To(BeZero(), "the exit code of a removed member")
	g.Expect(c.leaderOf(by)).To(Equal(joined))
}

// memberID is the ID that a member says it has.
func (c *cluster) memberID(g Gomega, i int) (id uint64) {
	c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
		status, err := etcd.Status(ctx, c.url(i, c.client))
		if err == nil {
			id = status.Header.MemberId
		}
		return err
	})
	return id
}

// along is a client that writes, one key after the other, through whichever member serves.
type along struct {
	stop context.CancelFunc
	done chan struct{}
	// acknowledged writes, and the longest time between two of them.
	acknowledged int
	gap          time.Duration
}

func (c *cluster) writeAlong(g Gomega) *along {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.url(0, c.client), c.url(1, c.client)}, Logger: zap.NewNop()})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	w := &along{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer func() { _ = etcd.Close() }()
		last := time.Now()
		for ctx.Err() == nil {
			ask, stop := context.WithTimeout(ctx, machine.Scaled(time.Second))
			_, err := etcd.Put(ask, "along/"+strconv.Itoa(w.acknowledged), "")
			stop()
			if err == nil {
				w.acknowledged++
				w.gap, last = max(w.gap, time.Since(last)), time.Now()
			}
		}
	}()
	return w
}

// end ends the writes.
func (w *along) end() (acknowledged int, gap time.Duration) {
	w.stop()
	<-w.done
	return w.acknowledged, w.gap
}
