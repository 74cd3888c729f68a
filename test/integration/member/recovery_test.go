// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/test/crash/killed"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Three members are killed during writes. One has lost its volume; the cluster is recovered from the more advanced of the
// other two and has every acknowledged write. The third comes late with its old data and joins like the one without.
func TestRecoveryFromTheDataOfAMember(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	w := c.writeUntilKilled(g, time.Second/2)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())

	surveys := map[int]member.Survey{}
	for i := range 3 {
		survey := c.survey(g, i)
		surveys[i] = survey
		t.Logf("m%d: %+v", i, survey)
	}
	g.Expect(surveys[0].State).To(Equal(member.SurveyNone))
	chosen, late := 1, 2
	if surveys[2].LastTerm > surveys[1].LastTerm || surveys[2].LastTerm == surveys[1].LastTerm && surveys[2].LastIndex > surveys[1].LastIndex {
		chosen, late = 2, 1
	}
	c.recover(g, &member.Recovery{Task: "5b1c", Member: fmt.Sprintf("m%d", chosen), Source: member.RecoverFromData, PreviousClusterID: id})
	for _, i := range []int{0, late} {
		g.Expect(c.prepare(i, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRecovering+": "), ContainSubstring("the data of member m%d", chosen))))
	}
	g.Expect(c.dataDir(late)).To(BeADirectory(), "it was left alone")

	c.start(g, chosen, "existing")
	w.expectAll(g, chosen)
	newID := c.idOf(g, chosen)
	g.Expect(newID).NotTo(Equal(id))
	c.recordID(newID)
	for _, i := range []int{0, late} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	for i := range 3 {
		w.expectAll(g, i)
	}
	for _, i := range []int{chosen, late} {
		g.Expect(filepath.Glob(c.dataDir(i)+member.BeforeSuffix+"5b1c-*")).To(HaveLen(1), "the data of member %d is kept", i)
		g.Expect(serve.RemoveReplaced(logr.Discard(), serve.SharedIn(c.memberDir(i), ""))).To(BeFalse())
		g.Expect(c.setAside(g, i)).To(HaveLen(1))
	}

	c.recover(g, nil)
	for i := range 3 {
		g.Expect(serve.RemoveReplaced(logr.Discard(), serve.SharedIn(c.memberDir(i), ""))).To(BeTrue())
		g.Expect(c.setAside(g, i)).To(BeEmpty())
	}
	c.stop(late)
	c.start(g, late, "existing")
	c.awaitVoters(g, 3)
}

// A recovery is recorded, but the cluster before serves: the chosen member waits, and says that the recovery can be withdrawn. Once it is,
// the member continues with its data. A second recovery replaces one whose chosen member has lost its volume.
func TestRecoveryThatNoMemberHasActedOn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	c.put(g, "before")
	c.stop(1)
	first := &member.Recovery{Task: "5b1c", TaskName: "recover-1", Member: "m1", Source: member.RecoverFromData, PreviousClusterID: id}
	c.recover(g, first)
	g.Expect(c.prepare(1, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonPreviousClusterServes+": "), ContainSubstring("delete task recover-1"))))
	c.recover(g, nil)
	c.start(g, 1, "existing")
	c.awaitVoters(g, 3)
	g.Expect(c.idOf(g, 1)).To(Equal(id))

	c.put(g, "again")
	for i := range 3 {
		c.stop(i)
	}
	g.Expect(os.RemoveAll(c.dataDir(1))).To(Succeed())
	c.recover(g, first)
	g.Expect(c.prepare(1, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonDataLost+": "), ContainSubstring("delete task recover-1, and create another recovery"))))
	c.recover(g, &member.Recovery{Task: "77aa", TaskName: "recover-2", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: id})
	c.start(g, 0, "existing")
	c.recordID(c.idOf(g, 0))
	for _, i := range []int{1, 2} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("again"))
	}
}

// A member of the previous cluster that is started with its old data beside the recovered cluster finds no quorum and does
// not join it.
func TestOldMemberBesideTheRecoveredCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	for i := range 3 {
		c.stop(i)
	}
	c.recover(g, &member.Recovery{Task: "5b1c", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: id})
	c.start(g, 0, "existing")
	c.put(g, "after the recovery")

	c.run(g, 1) // with its old configuration
	g.Consistently(func(g Gomega) {
		c.put(g, "again")
		c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
			list, err := etcd.MemberList(ctx)
			if err == nil {
				g.Expect(list.Members).To(HaveLen(1))
			}
			return err
		})
		g.Expect(c.leaderOf(1)).To(BeZero())
	}).WithTimeout(4 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())

	c.stop(1)
	c.start(g, 1, "existing")
	c.promote(g, 1)
	g.Expect(c.get(g, 1)).To(Equal("again"))
}

// If no data is left, the newest backup is restored, whatever is on the volume.
func TestRecoveryFromABackup(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	id := c.startThree(g)
	c.put(g, "in the full snapshot")
	taker := c.takeSnapshots(g)
	_, err := taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	c.put(g, "in the delta")
	_, err = taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	c.put(g, "lost")
	for i := range 3 {
		c.stop(i)
	}
	c.damage(g, 1)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	r := &member.Recovery{Task: "5b1c", TaskName: "recover", Member: "m1", Source: member.RecoverFromData, PreviousClusterID: id}
	c.recover(g, r)
	g.Expect(c.prepare(1, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonDataDamaged+": "), ContainSubstring("delete task recover,"))))

	r.Source, r.Revision, r.HighestRevision = member.RecoverFromBackup, 999, 3_000_000_000
	c.recover(g, r)
	g.Expect(c.prepare(1, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRestoreFailed+": "), ContainSubstring("what is on its volume is unchanged"), ContainSubstring("must reach revision 999"))), "the volumes have more")
	g.Expect(c.setAside(g, 1)).To(BeEmpty())
	r.Revision = 2
	c.recover(g, r)
	g.Expect(c.prepare(2, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonRecovering+": "), ContainSubstring("the newest backup, by member m1"))))
	c.start(g, 1, "existing")
	note, err := os.ReadFile(c.dataDir(1) + ".restored")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(note)).To(HavePrefix("restored "), "backups start with a new full snapshot")
	g.Expect(filepath.Glob(c.dataDir(1) + member.BeforeSuffix + "5b1c-*")).To(HaveLen(1))
	g.Eventually(func() string { return c.get(g, 1) }).WithTimeout(machine.Patience()).Should(Equal("in the delta"))
	g.Expect(c.revisionOf(g, 1)).To(BeNumerically(">=", 4_000_000_000), "clients may have seen what the operator knows")
	for _, i := range []int{0, 2} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	g.Expect(c.get(g, 2)).To(Equal("in the delta"), "its own data, which had more, was put aside")
	g.Expect(filepath.Glob(c.dataDir(2) + member.BeforeSuffix + "5b1c-*")).To(HaveLen(1))
}

// The backup is chosen over the only data that is left, and is of no use: it ends before the revision that its Lease has. The data is where
// it was, and a user who decides for it gets it.
func TestABackupThatIsTooShortLeavesTheData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	id := c.startThree(g)
	c.takeFull(g)
	c.put(g, "in no snapshot")
	for i := range 3 {
		c.stop(i)
		if i != 1 {
			g.Expect(os.RemoveAll(c.dataDir(i))).To(Succeed())
		}
	}
	c.recover(g, &member.Recovery{Task: "5b1c", TaskName: "recover", Member: "m1", Source: member.RecoverFromBackup, PreviousClusterID: id, Revision: 999, HighestRevision: 999, HadData: true})
	for range 2 {
		g.Expect(c.prepare(1, 0)).To(MatchError(ContainSubstring("must reach revision 999")))
	}
	survey := c.survey(g, 1)
	g.Expect(survey.ClusterID).To(Equal(id))
	g.Expect(survey.SetAside).To(BeEmpty())
	c.recover(g, &member.Recovery{Task: "6c2d", TaskName: "from-data", Member: "m1", Source: member.RecoverFromData, PreviousClusterID: id, HighestRevision: 999, HadData: true})
	c.start(g, 1, "existing")
	g.Expect(c.get(g, 1)).To(Equal("in no snapshot"))
}

// A voter that had fallen behind is all that is left: clients have seen later revisions, and are told that what they know is compacted.
func TestRecoveryFromAVoterThatHadFallenBehind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	c.put(g, "what all have")
	g.Eventually(func() string { return c.get(g, 2) }).WithTimeout(machine.Patience()).Should(Equal("what all have"))
	c.stop(2)
	for range 20 {
		c.put(g, "what it lacks")
	}
	highest := c.revision(g)
	for _, i := range []int{0, 1} {
		c.stop(i)
		g.Expect(os.RemoveAll(c.dataDir(i))).To(Succeed())
	}
	c.recover(g, &member.Recovery{Task: "5b1c", Member: "m2", Source: member.RecoverFromData, PreviousClusterID: id, HighestRevision: highest})
	c.start(g, 2, "existing")
	g.Expect(c.revisionOf(g, 2)).To(BeNumerically(">", highest))
	g.Eventually(func() string { return c.get(g, 2) }).WithTimeout(machine.Patience()).Should(Equal("what all have"))
}

// The operator is away, so that the ID of the new cluster is not recorded. Its first member has lost its volume, and does not begin it again:
// neither beside a member of it that has no quorum, nor where none answers, since the store has a marker of it, and the volume had data.
func TestTheFirstMemberDoesNotBeginAgain(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	id := c.startThree(g)
	c.put(g, "in the snapshot")
	c.takeFull(g)
	for i := range 3 {
		c.stop(i)
	}
	r := &member.Recovery{Task: "5b1c", TaskName: "recover", Member: "m0", Source: member.RecoverFromBackup, PreviousClusterID: id, HighestRevision: 1}
	c.recover(g, r)
	c.start(g, 0, "existing")
	c.awaitVoters(g, 1)
	for _, i := range []int{1, 2} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	c.put(g, "acknowledged")

	c.stop(0)
	c.stop(1)
	lost, err := filepath.Glob(c.dataDir(0) + "*")
	g.Expect(err).NotTo(HaveOccurred())
	for _, path := range lost {
		g.Expect(os.RemoveAll(path)).To(Succeed())
	}
	waits := MatchError(And(HavePrefix(v1alpha1.ReasonDataLost+": "), ContainSubstring("may have begun"), ContainSubstring("delete task recover, and create a QuorumLossRecovery")))
	g.Eventually(func() error { return c.prepare(0, 0) }).WithTimeout(machine.Patience()).Should(waits, "m2 is one of it")
	c.stop(2)
	g.Expect(c.prepare(0, 0)).To(waits, "no other answers, and the store has the marker")
	markers, err := filepath.Glob(filepath.Join(c.store.Container, c.store.Prefix, "kept", "begun.*-5b1c.*"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(markers).To(HaveLen(1))
	g.Expect(os.Remove(markers[0])).To(Succeed())
	r.HadData = true
	c.recover(g, r)
	g.Expect(c.prepare(0, 0)).To(waits, "nor has it a marker any more")
	g.Expect(c.dataDir(0)).NotTo(BeADirectory())

	c.run(g, 1)
	c.run(g, 2)
	c.start(g, 0, "existing")
	c.promote(g, 0)
	g.Expect(c.get(g, 0)).To(Equal("acknowledged"))
}

// setAside returns what is beside the data of a member other than the note for its agent, and the ID of what was restored, which stays until
// the recovery is over.
func (c *cluster) setAside(g Gomega, i int) []string {
	beside, err := filepath.Glob(c.dataDir(i) + ".*")
	g.Expect(err).NotTo(HaveOccurred())
	note := member.Shared{Config: map[string]any{"data-dir": c.dataDir(i)}}.RestoreNoteFile()
	return slices.DeleteFunc(beside, func(name string) bool { return name == note || strings.HasPrefix(name, c.dataDir(i)+".copy-") })
}

// A rebuild is killed at each of its writes: the next one has the same result, and the data is unchanged until it is put aside.
func TestRebuildKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).single(g)
	early := c.copyDatabase(g)
	n := c.putMany(g, 500, 1000)
	id := c.idOf(g, 0)
	c.stop(0)
	c.rewind(g, early)
	original := filepath.Join(c.memberDir(0), "original")
	g.Expect(os.CopyFS(original, os.DirFS(c.dataDir(0)))).To(Succeed())
	c.recover(g, &member.Recovery{Task: "5b1c", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: id})

	kills := killed.AtEachWrite(t, killed.Some(), func() *exec.Cmd { return c.process(0) }, func(call string) {
		g.Expect(c.prepare(0, 0)).To(Succeed(), "killed before %s", call)
		survey := c.survey(g, 0)
		g.Expect(survey.State).To(Equal(member.SurveyPresent), survey.Damage)
		g.Expect(survey.ClusterID).NotTo(Equal(id))
		g.Expect(survey.Revision).To(Equal(n), "killed before %s", call)
		kept := c.setAside(g, 0)
		g.Expect(kept).To(HaveLen(1), "killed before %s", call)
		g.Expect(exec.Command("diff", "-r", original, kept[0]).CombinedOutput()).To(BeEmpty())
		for _, dir := range append(kept, c.dataDir(0)) {
			g.Expect(os.RemoveAll(dir)).To(Succeed())
		}
		g.Expect(os.CopyFS(c.dataDir(0), os.DirFS(original))).To(Succeed())
	})
	t.Logf("killed %d times", kills)
	g.Expect(kills).To(BeNumerically(">", 3))
	c.start(g, 0, "existing")
	g.Eventually(func() int64 { return c.revision(g) }).WithTimeout(machine.Patience()).Should(Equal(n))
}

// startThree starts a cluster of three and returns its ID once it is recorded.
func (c *cluster) startThree(g Gomega) (id string) {
	c.share(g, 3)
	c.start(g, 0, "new")
	c.start(g, 1, "new")
	c.awaitVoters(g, 2)
	c.start(g, 2, "existing")
	c.awaitVoters(g, 3)
	id = c.idOf(g, 0)
	c.recordID(id)
	return id
}

// recover instructs the members how to recover the cluster; nil ends the recovery.
func (c *cluster) recover(g Gomega, r *member.Recovery) {
	value, details := "", ""
	if r != nil {
		var err error
		value, err = r.Encode()
		g.Expect(err).NotTo(HaveOccurred())
		details, err = r.EncodeDetails()
		g.Expect(err).NotTo(HaveOccurred())
	}
	for i := range c.members {
		g.Expect(os.WriteFile(filepath.Join(c.memberDir(i), member.KeyRecovery), []byte(value), 0o600)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(c.memberDir(i), member.KeyRecoveryDetails), []byte(details), 0o600)).To(Succeed())
	}
}

// idOf returns the cluster ID of a serving member, in hex.
func (c *cluster) idOf(g Gomega, i int) (id string) {
	g.Eventually(func(g Gomega) {
		c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
			r, err := etcd.Get(ctx, "x")
			if err == nil {
				id = strconv.FormatUint(r.Header.ClusterId, 16)
			}
			return err
		})
	}).WithTimeout(machine.Patience()).Should(Succeed())
	return id
}

func (c *cluster) recordID(id string) {
	c.t.Helper()
	n, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	c.record(n)
}

// leaderOf returns the leader that a member knows; 0 if it knows none or does not answer.
func (c *cluster) leaderOf(i int) (leader uint64) {
	etcd, err := clientv3.New(c.clientConfig(c.url(i, c.client)))
	if err != nil {
		return 0
	}
	defer func() { _ = etcd.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), machine.Scaled(time.Second))
	defer cancel()
	if status, err := etcd.Status(ctx, c.url(i, c.client)); err == nil {
		leader = status.Leader
	}
	return leader
}

// writers write keys of their own and remember the acknowledged ones.
type writers struct {
	c     *cluster
	mu    sync.Mutex
	acked map[string]bool
}

// beginWriting writes until end is called.
func (c *cluster) beginWriting(g Gomega) (w *writers, end func()) {
	const parallel = 8
	w = &writers{c: c, acked: map[string]bool{}}
	ctx, cancel := context.WithCancel(c.t.Context())
	var done sync.WaitGroup
	for i := range parallel {
		etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.url(i%c.members, c.client)}, Logger: zap.NewNop()})
		g.Expect(err).NotTo(HaveOccurred())
		done.Go(func() {
			defer func() { _ = etcd.Close() }()
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%d-%d", i, n)
				if _, err := etcd.Put(ctx, key, key); err == nil {
					w.mu.Lock()
					w.acked[key] = true
					w.mu.Unlock()
				}
			}
		})
	}
	return w, func() {
		cancel()
		done.Wait()
		c.t.Logf("%d writes were acknowledged", len(w.acked))
	}
}

// awaitWrites waits until some more writes are acknowledged.
func (w *writers) awaitWrites(g Gomega) {
	acknowledged := func() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.acked) }
	g.Eventually(acknowledged).WithTimeout(machine.Patience()).Should(BeNumerically(">", acknowledged()+100))
}

// writeUntilKilled writes for a while, and kills all members in the middle of it.
func (c *cluster) writeUntilKilled(g Gomega, duration time.Duration) *writers {
	w, end := c.beginWriting(g)
	<-time.After(duration)
	w.awaitWrites(g) // a busy machine takes longer
	for i := range c.members {
		g.Expect(c.processes[i].Process.Kill()).To(Succeed())
	}
	for i := range c.members {
		c.stop(i)
	}
	end()
	return w
}

// expectAll expects a member to have all that was acknowledged.
func (w *writers) expectAll(g Gomega, i int) {
	w.c.t.Helper()
	g.Eventually(func(g Gomega) {
		w.c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
			r, err := etcd.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return err
			}
			found := map[string]bool{}
			for _, kv := range r.Kvs {
				found[string(kv.Key)] = true
			}
			var missing []string
			for key := range w.acked {
				if !found[key] {
					missing = append(missing, key)
				}
			}
			g.Expect(missing).To(BeEmpty(), "of %d", len(w.acked))
			return nil
		})
	}).WithTimeout(machine.Patience()).Should(Succeed())
}
