// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/crash/killed"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// goingBack is a stopped cluster that goes back: to a target in its backup, or to data that was set aside before. original is the folder of
// its member, with the data of now.
type goingBack struct {
	*cluster
	id, original string
	recovery     *member.Recovery
	// revision of the state that it goes back to, once it is raised, and value of the key there.
	revision int64
	value    string
	// lost: the volume of the first member is, with the data of now.
	lost bool
}

// goBack prepares a cluster of one member, which a second one is to join, to go back. If its volume is lost, it goes back to the final snapshot, as
// an undo does then.
func goBack(t *testing.T, source member.RecoverySource, lost bool) *goingBack {
	g := NewWithT(t)
	c := newCluster(t, 2).backedUp()
	c.share(g, 1)
	c.start(g, 0, "new")
	id := c.idOf(g, 0)
	c.put(g, "wanted")
	b := &goingBack{cluster: c, id: id, revision: c.revision(g) + bump, value: "wanted", lost: lost}
	kept := filepath.Base(c.dataDir(0)) + member.BeforeSuffix + "aaaa-1"
	if source == member.RecoverFromKept {
		c.stop(0)
		g.Expect(os.CopyFS(filepath.Join(c.memberDir(0), kept), os.DirFS(c.dataDir(0)))).To(Succeed())
		c.start(g, 0, "existing")
	}
	taker := c.takeSnapshots(g)
	c.put(g, "unwanted")
	_, err := taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	target := backup.Target{Revision: b.revision - bump}
	if lost {
		final, err := taker.Full(t.Context(), true)
		g.Expect(err).NotTo(HaveOccurred())
		target = backup.Target{Snapshot: final.Name()}
		b.revision, b.value = c.revision(g)+bump, "unwanted"
	}
	latest := c.revision(g)
	c.stop(0)

	b.recovery = &member.Recovery{Task: "bbbb", TaskName: "back", Member: "m0", Source: source, PreviousClusterID: id}
	switch source {
	case member.RecoverFromKept:
		b.recovery.Restore = &member.RestorePoint{Kept: kept, Bump: latest + datadir.Margin}
		b.revision = latest + datadir.Margin
	case member.RecoverFromPoint:
		b.recovery.Restore = c.preview(g, target)
	default:
		// The volume had data when the backup was chosen, so the first member waits if it has neither that, nor what was restored.
		b.recovery.HadData, b.recovery.HighestRevision, b.value = true, 1, "unwanted"
		b.revision = latest + datadir.Margin
	}
	c.mayBegin = false
	c.share(g, 2)
	c.recordID(id)
	c.recover(g, b.recovery)
	g.Expect(os.CopyFS(c.dataDir(1), os.DirFS(c.dataDir(0)))).To(Succeed(), "a member that had the same")
	if lost {
		g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	}
	b.original = t.TempDir()
	for i := range 2 {
		g.Expect(os.CopyFS(b.originalOf(i), os.DirFS(c.memberDir(i)))).To(Succeed())
	}
	return b
}

func (b *goingBack) originalOf(i int) string {
	return filepath.Join(b.original, filepath.Base(b.memberDir(i)))
}

// reset puts a member back to where it was, with a store that does not know that the new cluster begins.
func (b *goingBack) reset(g Gomega, i int) {
	markers, err := filepath.Glob(filepath.Join(b.store.Container, b.store.Prefix, "kept", "begun.*"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, m := range markers {
		g.Expect(os.RemoveAll(m)).To(Succeed())
	}
	g.Expect(os.RemoveAll(b.memberDir(i))).To(Succeed())
	g.Expect(os.CopyFS(b.memberDir(i), os.DirFS(b.originalOf(i)))).To(Succeed())
}

// kept expects that a member has kept what it had, unchanged, in this restore.
func (b *goingBack) kept(g Gomega, i int) {
	if b.lost && i == 0 {
		g.Expect(b.aside(g, i, member.BeforeSuffix)).To(BeEmpty(), "there was nothing")
		return
	}
	had := filepath.Join(b.originalOf(i), filepath.Base(b.dataDir(i)))
	aside := b.aside(g, i, member.BeforeSuffix+"bbbb-")
	g.Expect(aside).To(HaveLen(1))
	g.Expect(exec.Command("diff", "-r", had, aside[0]).CombinedOutput()).To(BeEmpty())
	if to := b.recovery.Restore; to != nil && to.Kept != "" && i == 0 {
		kept := to.Kept
		g.Expect(exec.Command("diff", "-r", filepath.Join(b.originalOf(i), kept), filepath.Join(b.memberDir(i), kept)).CombinedOutput()).To(BeEmpty(), "what an earlier restore kept")
	}
}

// oldOrNew expects that the first member has the state of before, unchanged, or the one that it goes back to, or that the only thing left is to
// give that its name.
func (b *goingBack) oldOrNew(g Gomega) {
	survey := b.survey(g, 0)
	switch {
	case survey.State == member.SurveyNone:
		made, err := datadir.Rebuilt(b.dataDir(0), "bbbb")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(made || b.lost).To(BeTrue())
		if made {
			b.kept(g, 0)
		}
	case survey.ClusterID == b.id:
		g.Expect(exec.Command("diff", "-r", filepath.Join(b.originalOf(0), filepath.Base(b.dataDir(0))), b.dataDir(0)).CombinedOutput()).To(BeEmpty())
		g.Expect(b.aside(g, 0, member.BeforeSuffix+"bbbb-")).To(BeEmpty())
	default:
		b.isNew(g)
	}
}

// isNew expects that the first member has the state that it goes back to.
func (b *goingBack) isNew(g Gomega) {
	survey := b.survey(g, 0)
	g.Expect(survey).To(And(HaveField("State", member.SurveyPresent), HaveField("ClusterID", Not(Equal(b.id))), HaveField("Revision", b.revision)))
	b.kept(g, 0)
}

// The agent of the member that a restore starts with is killed at each of its writes: it leaves the state of before or the new one, and the next
// one comes to the new one. So it is with the agent of a member that joins, and with an undo that has only the final snapshot.
func TestGoingBackKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]struct {
		source member.RecoverySource
		lost   bool
	}{"to a target": {member.RecoverFromPoint, false}, "to kept data": {member.RecoverFromKept, false}, "to the final snapshot, without the volume": {member.RecoverFromPoint, true}, "to the newest backup, after quorum loss": {member.RecoverFromBackup, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			b := goBack(t, to.source, to.lost)
			kills := killed.AtEachWrite(t, killed.Some(), func() *exec.Cmd { return b.process(0) }, func(call string) {
				b.oldOrNew(g)
				g.Expect(b.prepare(0, 0)).To(Succeed(), "again, after it was killed before %s", call)
				b.isNew(g)
				beside := 1
				if to.source == member.RecoverFromKept {
					beside++
				} else if to.lost {
					beside = 0
				}
				g.Expect(b.setAside(g, 0)).To(HaveLen(beside), "nothing else is left, killed before %s", call)
				b.reset(g, 0)
			})
			t.Logf("the first member: %d kills", kills)
			g.Expect(kills).To(BeNumerically(">", 3))
			b.start(g, 0, "existing")
			g.Eventually(func() string { return b.get(g, 0) }).WithTimeout(machine.Patience()).Should(Equal(b.value))
			g.Expect(b.revisionOf(g, 0)).To(Equal(b.revision))
			b.recordID(b.idOf(g, 0))
			if to.source == member.RecoverFromPoint {
				b.joinKilled(t)
			}
		})
	}
}

// joinKilled kills the agent of a member that joins with the data of before.
func (b *goingBack) joinKilled(t *testing.T) {
	g := NewWithT(t)
	copyFile(g, filepath.Join(b.memberDir(1), member.KeyClusterID), filepath.Join(b.originalOf(1), member.KeyClusterID))
	kills := killed.AtEachWrite(t, killed.Every{Call: 1, Plain: 1}, func() *exec.Cmd { return b.process(1) }, func(call string) {
		survey := b.survey(g, 1)
		if survey.State == member.SurveyNone {
			b.kept(g, 1)
		} else {
			g.Expect(survey.ClusterID).To(Equal(b.id))
			g.Expect(b.aside(g, 1, member.BeforeSuffix)).To(BeEmpty())
		}
		g.Expect(b.prepare(1, machine.Patience())).To(Succeed(), "again, after it was killed before %s", call)
		g.Expect(b.dataDir(1)).NotTo(BeADirectory(), "etcd gets its data from the others")
		b.kept(g, 1)
		learner := b.listedID(g, 1)
		g.Expect(learner).NotTo(BeEmpty())
		if call != "" {
			b.remove(g, learner)
			b.reset(g, 1)
		}
	})
	t.Logf("a member that joins: %d kills", kills)
	g.Expect(kills).To(BeNumerically(">", 1))
	b.run(g, 1)
	b.promote(g, 1)
	b.awaitVoters(g, 2)
	g.Expect(b.get(g, 1)).To(Equal(b.value))
}
