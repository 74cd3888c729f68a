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
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// preview previews a restore of the cluster's backup.
func (c *cluster) preview(g Gomega, target backup.Target) *member.RestorePoint {
	from, err := store.Open(c.t.Context(), c.store)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = from.Close() }()
	p, err := restore.Preview(c.t.Context(), restore.PreviewConfig{Store: from, WorkDir: c.t.TempDir(), Target: target, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Refused).To(BeNil())
	return &member.RestorePoint{Base: p.Base, Revision: p.Revision, Hash: p.Hash, Bytes: p.Bytes, Bump: bump}
}

const bump = 10_000

// revisionOf returns the revision that a member serves, and expects that everything before is compacted.
func (c *cluster) revisionOf(g Gomega, i int) (revision int64) {
	g.Eventually(func(g Gomega) {
		c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
			r, err := etcd.Get(ctx, "x")
			if err == nil {
				revision = r.Header.Revision
				_, old := etcd.Get(ctx, "x", clientv3.WithRev(revision-1))
				g.Expect(old).To(MatchError(rpctypes.ErrCompacted))
			}
			return err
		})
	}).WithTimeout(machine.Patience()).Should(Succeed())
	return revision
}

// regrow starts the members of a new cluster, the first one first.
func (c *cluster) regrow(g Gomega) (id string) {
	c.start(g, 0, "existing")
	c.awaitVoters(g, 1)
	id = c.idOf(g, 0)
	c.recordID(id)
	for _, i := range []int{1, 2} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	return id
}

// A cluster of three that lives goes back to a revision, with a revision above all that were reported. What it had is kept as long as the recovery
// is there, and it goes back to that, and once more to the revision.
func TestGoingBackAndUndo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	before := c.startThree(g)
	c.put(g, "wanted")
	taker := c.takeSnapshots(g)
	_, err := taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	wanted := c.preview(g, backup.Target{Latest: true}).Revision
	for _, value := range []string{"unwanted", "unwanted too"} {
		c.put(g, value)
	}
	_, err = taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	c.put(g, "last")
	for i := range 3 {
		c.stop(i)
	}

	point := c.preview(g, backup.Target{Revision: wanted})
	r := &member.Recovery{Task: "aaaa", TaskName: "go-back", Member: "m0", Source: member.RecoverFromPoint, PreviousClusterID: before, Restore: point}
	wrong := *point
	wrong.Hash++
	r.Restore = &wrong
	c.recover(g, r)
	g.Expect(c.prepare(0, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRestoreFailed+": task go-back"), ContainSubstring("was previewed"))))
	g.Expect(c.setAside(g, 0)).To(BeEmpty(), "its data is unchanged")
	survey := c.survey(g, 0)
	g.Expect(survey.ClusterID).To(Equal(before))
	r.Restore = point
	c.recover(g, r)
	g.Expect(c.prepare(1, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRecovering+": "), ContainSubstring("by member m0"))))
	restored := c.regrow(g)
	g.Expect(restored).NotTo(Equal(before))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("wanted"))
		g.Expect(c.revisionOf(g, i)).To(Equal(wanted + bump))
		g.Expect(serve.RemoveReplaced(logr.Discard(), serve.SharedIn(c.memberDir(i), ""))).To(BeFalse())
		g.Expect(filepath.Glob(c.dataDir(i)+member.BeforeSuffix+"aaaa-*")).To(HaveLen(1), "what member %d had is kept", i)
	}
	c.put(g, "after")

	for i := range 3 {
		c.stop(i)
	}
	survey = c.survey(g, 0)
	g.Expect(survey.Kept).To(HaveLen(1))
	undo := &member.Recovery{
		Task: "bbbb", TaskName: "undo", Member: "m0", Source: member.RecoverFromKept, PreviousClusterID: restored,
		Restore: &member.RestorePoint{Kept: survey.Kept[0], Bump: wanted + 2*bump + datadir.Margin},
	}
	c.recover(g, undo)
	g.Expect(c.prepare(0, 0)).To(MatchError(ContainSubstring("which is none that was before")), "the operator says which clusters were before")
	undo.EarlierClusterIDs = []string{before}
	undo.Restore.Kept = "other" + member.BeforeSuffix + "x"
	c.recover(g, undo)
	g.Expect(c.prepare(0, 0)).To(MatchError(ContainSubstring("is not data that was set aside")))
	undo.Restore.Kept = survey.Kept[0]
	c.recover(g, undo)
	c.regrow(g)
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("last"), "with what no snapshot has")
		g.Expect(c.revisionOf(g, i)).To(Equal(wanted + 2*bump + datadir.Margin))
	}
	g.Expect(filepath.Join(c.memberDir(0), survey.Kept[0])).To(BeADirectory(), "it is kept after the undo")
	g.Expect(filepath.Glob(c.dataDir(0) + member.BeforeSuffix + "bbbb-*")).To(HaveLen(1))

	c.recover(g, nil)
	g.Expect(serve.RemoveReplaced(logr.Discard(), serve.SharedIn(c.memberDir(0), ""))).To(BeTrue())
	g.Expect(c.setAside(g, 0)).To(BeEmpty(), "once the tasks are gone")
}

// The chosen member has lost its volume during the switch: it restores all the same. So does one whose store is back.
func TestGoingBackWithoutTheVolume(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp()
	beginAsUsual(g, c)
	id := c.idOf(g, 0)
	c.stop(0)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	point := c.preview(g, backup.Target{Latest: true})
	c.recover(g, &member.Recovery{Task: "aaaa", TaskName: "go-back", Member: "m0", Source: member.RecoverFromPoint, PreviousClusterID: id, Restore: point})
	gone := c.store.Container + ".gone"
	g.Expect(os.Rename(c.store.Container, gone)).To(Succeed())
	g.Expect(c.prepare(0, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonRestoreFailed + ": ")))
	g.Expect(os.Rename(gone, c.store.Container)).To(Succeed())
	c.start(g, 0, "existing")
	g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
	g.Expect(c.revisionOf(g, 0)).To(Equal(point.Revision + bump))
}

// The only member of a cluster is restored by itself: what it wrote after the last snapshot is lost, and no client waits for a revision that it
// has seen.
func TestRestoredMemberIsAboveWhatWasLost(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp()
	beginAsUsual(g, c)
	for range 5 {
		c.put(g, "lost")
	}
	last := c.revision(g)
	for range 2 {
		c.stop(0)
		g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
		c.start(g, 0, "existing")
		g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("saved"))
		g.Expect(c.revisionOf(g, 0)).To(BeNumerically(">", last))
		c.recordID(c.idOf(g, 0))
	}
}

// The only member cannot go back, since what was previewed is gone. A recovery, which is the way out, starts the cluster from the data of before.
func TestOnlyMemberGivesARestoreUp(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp()
	c.share(g, 1)
	c.start(g, 0, "new")
	before := c.idOf(g, 0)
	c.put(g, "wanted")
	wanted := c.revision(g)
	taker := c.takeSnapshots(g)
	c.put(g, "last")
	_, err := taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	c.stop(0)
	point := c.preview(g, backup.Target{Revision: wanted})
	point.Base = "Full-00000000-00000001-1"
	c.mayBegin = false
	c.share(g, 1)
	c.recordID(before)
	c.recover(g, &member.Recovery{Task: "aaaa", TaskName: "go-back", Member: "m0", Source: member.RecoverFromPoint, PreviousClusterID: before, Restore: point})
	g.Expect(c.prepare(0, 0)).To(MatchError(ContainSubstring("To give up, create a QuorumLossRecovery: it starts the cluster from that data")))
	c.recover(g, &member.Recovery{Task: "bbbb", TaskName: "recover", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: before})
	c.start(g, 0, "existing")
	g.Eventually(func() string { return c.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal("last"))
	g.Expect(c.idOf(g, 0)).NotTo(Equal(before))
}
