// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// recreate deletes the Etcd of a cluster that has served, and creates it again beside the volumes, of which some are lost. The new
// Etcd has another UID, and nothing is recorded yet.
func (c *cluster) recreate(g Gomega, lost ...int) {
	c.t.Helper()
	c.share(g, 3)
	for i := range 3 {
		g.Expect(c.prepare(i, 0)).To(Succeed())
		c.run(g, i)
	}
	c.awaitVoters(g, 3)
	c.put(g, "acknowledged")
	for i := range 3 {
		c.stop(i)
		g.Expect(os.RemoveAll(filepath.Join(c.memberDir(i), member.KeyFirstStart))).To(Succeed())
	}
	for _, i := range lost {
		g.Expect(os.RemoveAll(c.dataDir(i))).To(Succeed())
	}
	c.etcdUID, c.mayBegin = "another", false
	c.share(g, 3)
}

// Two volumes are lost: the other two members do not begin an empty cluster beside the intact data.
func TestRecreatedBesideAMinorityOfTheData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	c.recreate(g, 1, 2)
	for _, i := range []int{1, 2} {
		g.Expect(c.prepare(i, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonFirstStartBlocked+": ")), "member %d", i)
	}
	c.start(g, 0, "existing")

	// The permission of the Etcd that was deleted is none.
	for i := range 3 {
		c.write(g, i, member.KeyFirstStart, map[string]any{"etcd": c.t.Name()})
	}
	g.Expect(c.prepare(1, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonFirstStartBlocked + ": ")))
}

// One volume is lost: its member does not begin a cluster of its own before the others answer. Then it joins them.
func TestRecreatedBesideAQuorumOfTheData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	c.recreate(g, 2)
	g.Expect(c.prepare(2, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonFirstStartBlocked + ": ")))

	c.start(g, 0, "existing")
	c.start(g, 1, "existing")
	c.record(c.id(g))
	c.start(g, 2, "existing")
	c.promote(g, 2)
	c.awaitVoters(g, 3)
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, key)
		if err == nil {
			g.Expect(r.Kvs).To(HaveExactElements(HaveField("Value", []byte("acknowledged"))))
		}
		return err
	})
}
