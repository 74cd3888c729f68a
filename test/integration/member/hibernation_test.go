// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/finalsnapshot"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// finalSnapshot takes the final snapshot of a member.
func (c *cluster) finalSnapshot(g Gomega, i int, clusterID string) (backup.Snapshot, error) {
	to, err := store.Open(c.t.Context(), c.store)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = to.Close() }()
	return finalsnapshot.Take(c.t.Context(), finalsnapshot.Config{
		Store: to, DataDir: c.dataDir(i), ClusterID: clusterID, WorkDir: c.t.TempDir(), Compression: backup.Gzip, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
}

// Three members are killed during writes, and lose their volumes once the final snapshot was taken of the most advanced
// one: the cluster that wakes up has every acknowledged write, and refuses to restore less.
func TestHibernation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	id := c.startThree(g)
	c.put(g, "in an earlier snapshot")
	c.takeFull(g)
	w := c.writeUntilKilled(g, time.Second/2)

	best := 0
	surveys := map[int]member.Survey{}
	for i := range 3 {
		surveys[i] = c.survey(g, i)
		t.Logf("m%d: %+v", i, surveys[i])
		if surveys[i].LastTerm > surveys[best].LastTerm || surveys[i].LastTerm == surveys[best].LastTerm && surveys[i].LastIndex > surveys[best].LastIndex {
			best = i
		}
	}
	_, err := c.finalSnapshot(g, best, "beef")
	g.Expect(err).To(MatchError(ContainSubstring("not of cluster beef")))
	final, err := c.finalSnapshot(g, best, id)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("%s", final.Name())
	g.Expect(final.Final).To(BeTrue())
	g.Expect(final.LastRevision).To(BeNumerically(">=", surveys[best].Revision))
	again := c.survey(g, best)
	again.Free = surveys[best].Free // of the whole machine
	g.Expect(again).To(Equal(surveys[best]), "the data was only read")
	for i := range 3 {
		g.Expect(os.RemoveAll(c.dataDir(i))).To(Succeed())
	}

	r := member.Recovery{Task: "9f3e", Member: "m0", Source: member.RecoverFromBackup, PreviousClusterID: id, Revision: final.LastRevision + 1}
	c.recover(g, &r)
	g.Expect(c.prepare(0, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRestoreFailed+": "), ContainSubstring("end at revision %d, and must reach revision %d", final.LastRevision, final.LastRevision+1))))
	g.Expect(c.dataDir(0)).NotTo(BeADirectory(), "less than the final snapshot is not restored")
	r.Revision = final.LastRevision
	c.recover(g, &r)
	for _, i := range []int{1, 2} {
		g.Expect(c.prepare(i, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonWakingUp+": "), ContainSubstring("m%d joins it as a learner", i))))
	}
	c.start(g, 0, "existing")
	w.expectAll(g, 0)
	newID := c.idOf(g, 0)
	g.Expect(newID).NotTo(Equal(id))
	c.recordID(newID)
	for _, i := range []int{1, 2} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	for i := range 3 {
		w.expectAll(g, i)
	}
}

// No final snapshot is taken of a member that is behind the store, and a failing store keeps no partial snapshot.
func TestFinalSnapshotOfALaggingMember(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp().single(g)
	id := c.idOf(g, 0)
	for i := range 3 {
		c.put(g, fmt.Sprint(i))
	}
	c.stop(0)
	at, err := store.Open(t.Context(), c.store)
	g.Expect(err).NotTo(HaveOccurred())
	first, err := c.finalSnapshot(g, 0, id)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(at.Verify(t.Context(), first)).To(Succeed())
	second, err := c.finalSnapshot(g, 0, id)
	g.Expect(err).NotTo(HaveOccurred(), "after an interruption, another snapshot is taken")
	g.Expect(second.LastRevision).To(Equal(first.LastRevision))
	g.Expect(second.Created.After(first.Created)).To(BeTrue())

	file, ok := at.File(second)
	g.Expect(ok).To(BeTrue())
	ahead := second
	ahead.LastRevision++
	ahead.Created = ahead.Created.Add(time.Second)
	later, _ := at.File(ahead)
	g.Expect(os.Rename(file, later)).To(Succeed())
	_, err = c.finalSnapshot(g, 0, id)
	g.Expect(err).To(MatchError(ContainSubstring("the member lacks data of the cluster")))

	g.Expect(os.WriteFile(later, []byte("altered"), 0o600)).To(Succeed())
	ahead.Size = int64(len("altered"))
	g.Expect(at.Verify(t.Context(), ahead)).NotTo(Succeed())
}
