// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
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
	c.replaceThird(g)
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

// createAgainDamaged has the only member of a cluster lose its data to damage, and creates its Etcd again beside the volume, with what
// the operator records of it: the cluster that the survey has found.
func (c *cluster) createAgainDamaged(g *GomegaWithT, harm func(*GomegaWithT)) {
	c.t.Helper()
	c.share(g, 1)
	c.begin(g)
	id := c.idOf(g, 0)
	c.stop(0)
	harm(g)
	found := c.survey(g, 0)
	g.Expect(found).To(And(HaveField("State", member.SurveyDamaged), HaveField("ClusterID", id), HaveField("Voters", BeEmpty())), "so the operator records its ID")
	for _, file := range []string{filepath.Join(c.memberDir(0), member.KeyFirstStart), c.configFile(0)} {
		g.Expect(os.Remove(file)).To(Succeed())
	}
	c.etcdUID, c.mayBegin = "another", false
	c.share(g, 1)
	c.recordID(found.ClusterID)
}

// An Etcd of one member is created again beside its claim, whose data is damaged: the backup is restored, under an ID that the operator
// takes for the successor of the one that it has found on the volume.
func TestRecreatedBesideItsDamagedData(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*cluster) func(*GomegaWithT){
		"the log":      func(c *cluster) func(*GomegaWithT) { return func(g *GomegaWithT) { c.damage(g, 0) } },
		"the database": (*cluster).damageDatabase,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			c := newCluster(t, 1).backedUp()
			c.createAgainDamaged(g, harm(c))
			c.start(g, 0, "existing")
			g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
			shared, err := serve.SharedIn(c.memberDir(0), "")()
			g.Expect(err).NotTo(HaveOccurred())
			id := c.idOf(g, 0)
			g.Expect(shared.SuccessorIDs()).To(ContainElement(id))
			g.Expect(filepath.Glob(c.dataDir(0)+member.AsideSuffix+"*")).To(HaveLen(1), "the damaged data is kept")
			c.restart(g, id)
			c.recordID(id)
			c.restart(g, id)
		})
	}
}

// Without a backup, nothing is begun: the member says that its data is damaged, and what to do.
func TestRecreatedBesideItsDamagedDataWithoutABackup(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(string) store.Config{
		"no store": func(string) store.Config { return store.Config{} },
		"an empty prefix": func(dir string) store.Config {
			return store.Config{Provider: store.Local, Container: dir, Prefix: "empty"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			c := newCluster(t, 1).backedUp()
			c.createAgainDamaged(g, func(g *GomegaWithT) { c.damage(g, 0) })
			c.store = to(c.store.Container)
			g.Expect(c.prepare(0, 0)).To(MatchError(And(
				HavePrefix(v1alpha1.ReasonDataDamaged+": the data of member m0 in "+c.dataDir(0)+" is damaged"),
				ContainSubstring("there is no backup to restore: restore the volume"), ContainSubstring("Starting empty would hide the loss"))))
			g.Expect(c.configFile(0)).NotTo(BeAnExistingFile(), "etcd has nothing to start with")
			c.repair(g, 0)
			c.start(g, 0, "existing")
			g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
		})
	}
}

// damageDatabase overwrites the pages of the database, and leaves the log.
func (c *cluster) damageDatabase() func(*GomegaWithT) {
	return func(g *GomegaWithT) {
		path := filepath.Join(c.dataDir(0), "member", "snap", "db")
		info, err := os.Stat(path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(path, bytes.Repeat([]byte("not bbolt"), int(info.Size())/9), 0o600)).To(Succeed())
	}
}
