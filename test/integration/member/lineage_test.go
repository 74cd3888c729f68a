// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// The only member of a cluster loses its volume, twice in a row, wherever its recorded ID comes from. It is restored as a cluster with
// an ID of its own, and starts with its data before and after the operator records it. A volume from before a restore is refused.
func TestOnlyMemberIsRestoredWhateverIDIsRecorded(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*GomegaWithT, *cluster){
		"its own":            beginAsUsual,
		"that of etcd-druid": beginAsDruid,
		"after waking up":    beginAwake,
		"that of other URLs": beginElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			c := newCluster(t, 1).backedUp()
			begin(g, c)
			seen := []string{c.idOf(g, 0)}
			for range 2 {
				c.stop(0)
				lost := filepath.Join(t.TempDir(), "lost")
				g.Expect(os.Rename(c.dataDir(0), lost)).To(Succeed())
				c.start(g, 0, "existing")
				g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
				id := c.idOf(g, 0)
				g.Expect(seen).NotTo(ContainElement(id), "the cluster is another one")
				seen = append(seen, id)
				c.restart(g, id)
				c.recordID(id)
				c.restart(g, id)

				c.stop(0)
				kept := filepath.Join(t.TempDir(), "kept")
				g.Expect(os.Rename(c.dataDir(0), kept)).To(Succeed())
				g.Expect(os.Rename(lost, c.dataDir(0))).To(Succeed())
				g.Expect(c.prepare(0, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonDataOfAnotherCluster+": "), ContainSubstring("but this is cluster "+id))), "a volume from before the restore")
				g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
				g.Expect(os.Rename(kept, c.dataDir(0))).To(Succeed())
				c.start(g, 0, "existing")
			}
		})
	}
}

// TLS between peers is switched on, which changes the peer URL, after the restore and before the operator records the ID.
func TestOnlyMemberIsRestoredBeforeItsPeerURLChanges(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp()
	beginAsUsual(g, c)
	recorded := c.idOf(g, 0)
	c.stop(0)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	g.Expect(c.prepare(0, 0)).To(Succeed())
	c.share(g, 1)
	c.bootstrap(g, "https", t.Name())
	g.Expect(c.prepare(0, 0)).To(Succeed(), "it starts with what it has restored")
	c.recordID("beef")
	g.Expect(c.prepare(0, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonDataOfAnotherCluster+": ")), "another cluster was recorded")

	// The other way round: restored with the new URL.
	c.recordID(recorded)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	g.Expect(c.prepare(0, 0)).To(Succeed())
	c.share(g, 1)
	c.start(g, 0, "existing")
	g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
}

// A cluster that has woken up does not restore less than its final snapshot, also when it has served since.
func TestOnlyMemberThatWokeUpRestoresNoLess(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp()
	beginAwake(g, c)
	c.recover(g, &member.Recovery{Task: "9f3e", Member: "m0", Source: member.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 1000})
	c.stop(0)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	g.Expect(c.prepare(0, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRestoreFailed+": "), ContainSubstring("must reach revision 1000"))))
}

// beginAsUsual starts a cluster of one whose ID is recorded, with a backup.
func beginAsUsual(g *GomegaWithT, c *cluster) {
	c.share(g, 1)
	c.begin(g)
}

// beginAsDruid starts it with the token of etcd-druid, before it is adopted.
func beginAsDruid(g *GomegaWithT, c *cluster) {
	c.share(g, 1)
	c.bootstrap(g, "http", "etcd-cluster")
	c.begin(g)
	c.share(g, 1)
}

// beginElsewhere starts it, and restores it while its peer URL has another scheme than it has later.
func beginElsewhere(g *GomegaWithT, c *cluster) {
	c.share(g, 1)
	c.begin(g)
	c.stop(0)
	c.recordID("cafe")
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	c.bootstrap(g, "https", c.t.Name())
	g.Expect(c.prepare(0, 0)).To(Succeed())
	c.share(g, 1)
	c.start(g, 0, "existing")
	c.recordID(c.idOf(g, 0))
}

// beginAwake starts it, and wakes it up from a snapshot; the recovery is still in its configuration.
func beginAwake(g *GomegaWithT, c *cluster) {
	c.share(g, 1)
	c.begin(g)
	c.stop(0)
	revision := c.finalRevision(g)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	c.recover(g, &member.Recovery{Task: "9f3e", Member: "m0", Source: member.RecoverFromBackup, PreviousClusterID: c.recorded(g), Revision: revision})
	c.start(g, 0, "existing")
	c.recordID(c.idOf(g, 0))
	c.put(g, "saved")
	_, err := c.takeSnapshots(g).Full(c.t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
}

// begin starts a new cluster, records its ID, and takes a backup.
func (c *cluster) begin(g *GomegaWithT) {
	c.start(g, 0, "new")
	c.awaitVoters(g, 1)
	c.recordID(c.idOf(g, 0))
	c.put(g, "saved")
	_, err := c.takeSnapshots(g).Full(c.t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
}

// finalRevision takes the final snapshot, and returns its revision.
func (c *cluster) finalRevision(g *GomegaWithT) int64 {
	s, err := c.finalSnapshot(g, 0, c.recorded(g))
	g.Expect(err).NotTo(HaveOccurred())
	return s.LastRevision
}

// restart restarts the only member, which continues as the same cluster.
func (c *cluster) restart(g *GomegaWithT, id string) {
	c.t.Helper()
	c.stop(0)
	c.start(g, 0, "existing")
	g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
	g.Expect(c.idOf(g, 0)).To(Equal(id))
}

// bootstrap writes the bootstrap configuration of the only member with another scheme or token.
func (c *cluster) bootstrap(g *GomegaWithT, scheme, token string) {
	c.write(g, 0, member.KeyBootstrap, map[string]any{
		"initial-cluster":       fmt.Sprintf("m0=%s", strings.Replace(c.url(0, c.peer), "http", scheme, 1)),
		"initial-cluster-token": token,
	})
	c.write(g, 0, member.KeyFirstStart, map[string]any{"etcd": token})
}

// recorded returns the recorded cluster ID.
func (c *cluster) recorded(g *GomegaWithT) string {
	id, err := os.ReadFile(filepath.Join(c.memberDir(0), member.KeyClusterID))
	g.Expect(err).NotTo(HaveOccurred())
	return string(id)
}
