// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// session resumes a session that the test drives.
func (r *trial) session() *session {
	r.t.Helper()
	var err error
	r.s, err = New(r.config)
	r.Expect(err).NotTo(HaveOccurred())
	r.s.start()
	n := &session{Snapshotter: r.s, leases: map[int64]int64{}}
	r.Expect(n.resume(r.t.Context())).To(Succeed())
	return n
}

// states returns the states that can be restored.
func states(s *Snapshotter) []backup.Interval {
	all, _ := s.Restorable()
	return all
}

func (r *trial) states() []backup.Interval { return states(r.s) }

// takes has a session take a snapshot.
func (r *trial) takes(n *session, kind backup.Kind) {
	r.t.Helper()
	_, err := r.s.submit(want{kind: kind}, false)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(n.perform(r.t.Context(), n.next(r.clock.Now()))).To(Succeed())
}

// A leader removes what has expired by itself, and says what can be restored since.
func TestALeaderCollects(t *testing.T) {
	r := newTrial(t, "")
	r.config.Schedule, r.config.CollectionPeriod, r.config.Retention.Limit = "0 0 1 1 *", time.Hour, 1
	r.lead()
	first := r.full()
	r.clock.Step(time.Minute)
	r.etcd.put("key", 0)
	second := r.full()
	r.clock.Step(time.Minute)
	r.etcd.put("key", 0)
	third := r.full()
	r.Expect(r.states()).NotTo(BeEmpty())
	r.Expect(r.states()[0].From.Revision).To(Equal(first.LastRevision))
	r.Eventually(func() ([]backup.Snapshot, error) {
		r.clock.Step(time.Hour)
		return r.store.List(t.Context())
	}).WithTimeout(machine.Patience()).ShouldNot(ContainElement(second))
	r.Expect(r.store.List(t.Context())).To(ContainElement(third))
	r.Expect(r.s.Healthy()).To(Succeed())
}

// What is kept or held is not collected.
func TestCollectionLeavesWhatIsKept(t *testing.T) {
	r := newTrial(t, "")
	r.config.Schedule, r.config.Retention.Limit = "0 0 1 1 *", 1
	n := r.session()
	for range 5 {
		r.clock.Step(time.Minute)
		r.etcd.put("key", 0)
		r.takes(n, backup.Full)
	}
	list, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	var fulls []backup.Snapshot
	for _, s := range list {
		if s.Kind == backup.Full {
			fulls = append(fulls, s)
		}
	}
	kept, err := r.s.Keep(t.Context(), fulls[1].Name())
	r.Expect(err).NotTo(HaveOccurred())
	held, err := r.s.Hold(t.Context(), fulls[2].Name(), 0)
	r.Expect(err).NotTo(HaveOccurred())
	names := func() (all []string) {
		list, err := r.store.List(t.Context())
		r.Expect(err).NotTo(HaveOccurred())
		for _, s := range list {
			all = append(all, s.Name())
		}
		return all
	}
	n.removeExpired(t.Context())
	r.Expect(names()).To(ContainElements(kept.Name(), held.Name()))
	r.Expect(names()).NotTo(ContainElement(fulls[3].Name()))
	left, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.states()).To(Equal(backup.Restorable(left, nil)), "what was removed cannot be restored")
	r.clock.Step(backup.HoldFor + time.Minute)
	n.removeExpired(t.Context()) // the hold ends
	n.removeExpired(t.Context())
	r.Expect(names()).To(ContainElement(kept.Name()))
	r.Expect(names()).NotTo(ContainElement(held.Name()))
}

// A snapshot that may not be used, and appears while an agent leads, is superseded by a full one.
func TestASnapshotThatMayNotBeUsedAppears(t *testing.T) {
	r := newTrial(t, signaturetest.Keys(t))
	r.config.Schedule = "0 0 1 1 *"
	n := r.session()
	r.takes(n, backup.Full)
	first := n.newest
	n.removeExpired(t.Context())
	r.Expect(n.newest).To(Equal(first), "all is well")
	chain, err := r.s.Latest(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.clock.Step(time.Hour)
	folder, _ := r.store.File(*chain.Full)
	foreign := backup.Snapshot{Kind: backup.Full, LastRevision: 99, Created: r.clock.Now(), Compression: backup.None}
	r.Expect(os.WriteFile(filepath.Join(filepath.Dir(folder), foreign.Name()), []byte("x"), 0o600)).To(Succeed())
	_, err = r.s.Latest(t.Context())
	r.Expect(err).To(MatchError(ContainSubstring(foreign.Name())))
	n.removeExpired(t.Context())
	r.Expect(r.s.Healthy()).To(MatchError(ContainSubstring(foreign.Name())))
	r.takes(n, backup.Delta)
	chain, err = r.s.Latest(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(chain.Full.Created).To(BeTemporally(">", foreign.Created))
	n.removeExpired(t.Context())
	r.Expect(n.newest).To(Equal(chain.Full.Created), "one is enough")
}

// So is one that is dated before the newest delta: it would be part of what is restored. One that no full snapshot can follow is left to a person.
func TestASnapshotThatMayNotBeUsedAppearsLate(t *testing.T) {
	r := newTrial(t, signaturetest.Keys(t))
	r.config.Schedule = "0 0 1 1 *"
	n := r.session()
	r.takes(n, backup.Full)
	r.clock.Step(time.Hour)
	r.etcd.put("key", 0)
	r.takes(n, backup.Delta)
	chain, err := r.s.Latest(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	object, _ := r.store.File(*chain.Full)
	puts := func(created time.Time) {
		foreign := backup.Snapshot{Kind: backup.Delta, StartRevision: 50, LastRevision: 99, Created: created, Compression: backup.None}
		r.Expect(os.WriteFile(filepath.Join(filepath.Dir(object), foreign.Name()), []byte("x"), 0o600)).To(Succeed())
	}
	puts(chain.Last().Created.Add(-time.Minute))
	n.removeExpired(t.Context())
	r.Expect(r.s.Healthy()).To(HaveOccurred())
	r.takes(n, backup.Delta)
	n.removeExpired(t.Context())
	r.Expect(r.s.Healthy()).To(Succeed())
	_, err = r.s.Latest(t.Context())
	r.Expect(err).NotTo(HaveOccurred())

	stored := n.stored
	puts(r.clock.Now().Add(48 * time.Hour))
	n.removeExpired(t.Context())
	r.Expect(r.s.Healthy()).To(HaveOccurred())
	r.Expect(n.stored).To(Equal(stored))
}

// delete removes snapshots from the store, as a lifecycle rule does.
func (r *trial) delete(gone ...backup.Snapshot) {
	r.t.Helper()
	for _, s := range gone {
		r.Expect(r.store.Delete(r.t.Context(), s)).To(Succeed())
	}
}

// Where the store no longer leads to the snapshot that deltas continue, the leader says so, removes nothing, and takes a full snapshot: deltas would
// lead nowhere.
func TestAStoreThatLeadsNowhere(t *testing.T) {
	foreign := func(r *trial, s backup.Snapshot) {
		s.Compression, s.Created = backup.None, r.clock.Now().Add(time.Hour)
		_, err := r.store.Write(r.t.Context(), s, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
		r.Expect(err).NotTo(HaveOccurred())
	}
	for name, c := range map[string]struct {
		signed bool
		change func(r *trial, all []backup.Snapshot)
		reason string
	}{
		"without a delta in between":   {change: func(r *trial, all []backup.Snapshot) { r.delete(all[3]) }, reason: "revisions 13 to 13 are missing"},
		"a signed one":                 {signed: true, change: func(r *trial, all []backup.Snapshot) { r.delete(all[3]) }, reason: "revisions 13 to 13 are missing"},
		"without the newest delta":     {change: func(r *trial, all []backup.Snapshot) { r.delete(all[4]) }, reason: "the snapshots end at revision 13, and one of revision 14 was taken"},
		"without any":                  {change: func(r *trial, all []backup.Snapshot) { r.delete(all...) }, reason: "no full snapshot"},
		"without the newest full one":  {change: func(r *trial, all []backup.Snapshot) { r.delete(all[2:]...) }, reason: "the snapshots end at revision 12"},
		"that leads on by others":      {change: func(r *trial, all []backup.Snapshot) { r.delete(all[2]) }},
		"a late one of another leader": {change: func(r *trial, _ []backup.Snapshot) { foreign(r, backup.Snapshot{Kind: backup.Full, LastRevision: 12}) }, reason: "the snapshots end at revision 12"},
		"one of another history": {signed: true, change: func(r *trial, _ []backup.Snapshot) {
			foreign(r, backup.Snapshot{Kind: backup.Full, LastRevision: 14, Proof: &backup.Proof{History: backup.NewHistory()}})
		}, reason: "begins another history"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := ""
			if c.signed {
				keys = signaturetest.Keys(t)
			}
			r := newTrial(t, keys)
			r.config.Schedule, r.config.Retention.Limit = "0 0 1 1 *", 1
			n := r.session()
			r.takes(n, backup.Full)
			for _, kind := range []backup.Kind{backup.Full, backup.Delta, backup.Delta} {
				r.clock.Step(time.Minute)
				r.etcd.put("key", 0)
				if kind == backup.Full {
					r.etcd.put("key", 0)
				}
				r.takes(n, kind)
			}
			all, err := r.store.List(t.Context())
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(all).To(HaveLen(5), "a delta comes before a full snapshot")
			c.change(r, all)
			left, err := r.store.List(t.Context())
			r.Expect(err).NotTo(HaveOccurred())

			r.inspects(n)
			r.Expect(n.next(r.clock.Now())).To(BeNil(), "one listing may lack what the store has")
			r.Expect(r.s.Healthy()).To(Succeed())
			if c.reason == "" {
				return
			}
			r.inspects(n)
			r.Expect(r.store.List(t.Context())).To(Equal(left), "what is left may be all that there is")
			r.Expect(r.s.Healthy()).To(MatchError(ContainSubstring(c.reason)))
			r.Expect(r.states()).To(Equal(append([]backup.Interval{}, backup.Restorable(left, nil)...)))
			next := n.next(r.clock.Now())
			r.Expect(next).NotTo(BeNil())
			r.Expect(next.kind).To(Equal(backup.Full))
			r.Expect(n.perform(t.Context(), next)).To(Succeed())
			chain, err := r.s.Latest(t.Context())
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(chain.Full.LastRevision).To(Equal(int64(14)))
			r.Expect(chain.Last().Name()).To(Equal(r.told[len(r.told)-1]))
			if c.signed {
				r.Expect(r.s.Healthy()).To(MatchError(ContainSubstring(c.reason)), "a person should learn of it")
			}
			r.Expect(n.collectionDue).To(BeTemporally("<=", r.clock.Now().Add(time.Minute)), "it looks again soon")
			r.inspects(n)
			r.Expect(r.s.Healthy()).To(Succeed())
			r.Expect(n.next(r.clock.Now())).To(BeNil(), "one is enough")
		})
	}
}

// inspects has a session inspect the store when that is due.
func (r *trial) inspects(n *session) {
	r.t.Helper()
	r.clock.SetTime(n.collectionDue)
	r.Expect(n.look(n.collectionDue, n.collectionDue.Sub(n.checked))).To(BeTrue())
	n.inspect(r.t.Context())
}

// hide has the store not list a snapshot, as in a bucket whose listings lag behind its writes.
func (r *trial) hide(s backup.Snapshot) (show func()) {
	r.t.Helper()
	object, _ := r.store.File(s)
	hidden := filepath.Join(r.t.TempDir(), "hidden")
	r.Expect(os.Rename(object, hidden)).To(Succeed())
	return func() { r.Expect(os.Rename(hidden, object)).To(Succeed()) }
}

// A listing that lacks a snapshot once changes nothing, and the next one is soon. Lacking it twice costs one full snapshot, also if a delta is due.
func TestAListingThatLags(t *testing.T) {
	r := newTrial(t, "")
	r.config.Schedule, r.config.CollectionPeriod, r.config.Retention.Limit = "0 0 1 1 *", time.Hour, 1
	n := r.session()
	for _, kind := range []backup.Kind{backup.Full, backup.Full, backup.Full, backup.Delta} {
		r.clock.Step(time.Minute)
		r.etcd.put("key", 0)
		r.takes(n, kind)
	}
	all, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	newest, before := all[len(all)-1], r.states()
	show := r.hide(newest)
	r.inspects(n)
	r.Expect(n.next(r.clock.Now())).To(BeNil())
	r.Expect(r.s.Healthy()).To(Succeed())
	r.Expect(r.states()).To(Equal(before))
	r.Expect(n.collectionDue).To(Equal(r.clock.Now().Add(time.Minute)), "it looks again soon")
	show()
	r.Expect(r.store.List(t.Context())).To(Equal(all), "nothing was removed")
	r.inspects(n)
	r.Expect(n.next(r.clock.Now())).To(BeNil())
	r.Expect(r.store.List(t.Context())).NotTo(Equal(all), "what has expired is removed")

	r.hide(newest)
	r.inspects(n)
	r.Expect(n.next(r.clock.Now())).To(BeNil(), "the one before was in order")
	object, _ := r.store.File(newest)
	folder := filepath.Dir(object)
	r.Expect(os.Rename(folder, folder+".away")).To(Succeed())
	r.Expect(os.WriteFile(folder, nil, 0o600)).To(Succeed())
	r.inspects(n)
	r.Expect(n.collectionDue).To(Equal(r.clock.Now().Add(time.Minute)), "a look that fails is repeated as soon")
	r.Expect(os.Remove(folder)).To(Succeed())
	r.Expect(os.Rename(folder+".away", folder)).To(Succeed())
	_, err = r.s.submit(want{kind: backup.Delta}, true)
	r.Expect(err).NotTo(HaveOccurred())
	r.inspects(n)
	r.Expect(r.s.Healthy()).NotTo(Succeed())
	var taken []backup.Kind
	for next := n.next(r.clock.Now()); next != nil; next = n.next(r.clock.Now()) {
		r.Expect(n.perform(t.Context(), next)).To(Succeed())
		if next.snapshot != nil {
			taken = append(taken, next.snapshot.Kind)
		}
	}
	r.Expect(taken).To(Equal([]backup.Kind{backup.Full}))
	r.Expect(r.s.Healthy()).To(Succeed())
}

// A store that never lists the newest snapshot costs a full one in two hours at most, whatever the period of garbage collections.
func TestAStoreThatNeverListsTheNewestSnapshot(t *testing.T) {
	r := newTrial(t, "")
	r.config.Schedule, r.config.CollectionPeriod = "0 0 1 1 *", time.Second
	n := r.session()
	r.takes(n, backup.Full)
	var taken []time.Duration
	for began := r.clock.Now(); r.clock.Since(began) < 4*time.Hour; {
		chain, err := r.s.Latest(t.Context())
		r.Expect(err).NotTo(HaveOccurred())
		r.etcd.put("key", 0)
		show := r.hide(chain.Last())
		r.inspects(n)
		show()
		if next := n.next(r.clock.Now()); next != nil {
			r.Expect(n.perform(t.Context(), next)).To(Succeed())
			taken = append(taken, r.clock.Since(began).Truncate(time.Minute))
		}
	}
	r.Expect(taken).To(Equal([]time.Duration{time.Minute, time.Hour + 2*time.Minute, 3*time.Hour + 2*time.Minute}))
}

// So it does where garbage collection is switched off, as where the bucket has rules of its own: it looks once an hour, and removes nothing.
func TestAStoreIsInspectedWithoutCollections(t *testing.T) {
	r := newTrial(t, "")
	r.config.Schedule, r.config.Retention.Limit = "0 0 1 1 *", 1
	n := r.session()
	for range 3 {
		r.etcd.put("key", 0)
		r.clock.Step(time.Minute)
		r.takes(n, backup.Full)
	}
	all, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(n.look(r.clock.Now(), 3*time.Minute)).To(BeFalse())
	r.clock.Step(time.Hour)
	r.Expect(n.look(r.clock.Now(), time.Hour)).To(BeTrue())
	n.inspect(t.Context())
	r.Expect(r.store.List(t.Context())).To(Equal(all))
	r.Expect(n.next(r.clock.Now())).To(BeNil())
	r.delete(all[3:]...)
	r.inspects(n)
	r.inspects(n)
	next := n.next(r.clock.Now())
	r.Expect(next).NotTo(BeNil())
	r.Expect(next.kind).To(Equal(backup.Full))
	r.Expect(r.store.List(t.Context())).To(Equal(all[:3]))
	r.Expect(r.states()).To(Equal(backup.Restorable(all[:3], nil)))
}

// A store that cannot be listed has said nothing about what can be restored; one that fails has said nothing about its snapshots.
func TestAStoreThatFailsSaysNothing(t *testing.T) {
	r := newTrial(t, "")
	identity, recipient := encryptiontest.Identity(t)
	credentials := filepath.Join(t.TempDir(), "credentials")
	r.Expect(os.Mkdir(credentials, 0o700)).To(Succeed())
	r.open(store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a", Recipients: []string{recipient}, Identities: encryptiontest.Folder(t, identity), Credentials: credentials})
	n := r.session()
	r.takes(n, backup.Full)
	n.removeExpired(t.Context())
	n.readHeaders(t.Context())
	before := r.states()
	r.Expect(before).To(HaveLen(1))
	gone := backup.Snapshot{Kind: backup.Full, LastRevision: 99, Created: noon, Encrypted: true}
	r.Expect(n.checkReadable(t.Context(), gone)).NotTo(Succeed())
	r.Expect(r.s.Healthy()).To(Succeed())
	r.Expect(os.Remove(credentials)).To(Succeed(), "no operation succeeds without them")
	n.removeExpired(t.Context())
	r.Expect(r.states()).To(Equal(before))
	_, err := r.s.Latest(t.Context())
	r.Expect(err).To(HaveOccurred())
	r.Expect(n.resume(t.Context())).NotTo(Succeed())
}

// An agent does not begin with a store or an etcd that it knows nothing of, nor with a compression that there is not.
func TestWhatASessionBeginsWith(t *testing.T) {
	r := newTrial(t, "")
	broken := errors.New("broken")
	r.etcd.asking = broken
	r.lead()
	r.Eventually(func() error { return r.s.Healthy() }).WithTimeout(machine.Patience()).Should(MatchError(broken))
	r.Expect(r.store.List(t.Context())).To(BeEmpty())
	r.config.Compression = "zip"
	_, err := New(r.config)
	r.Expect(err).To(MatchError(`there is no compression "zip"`))
}

// A delta that cannot be written ends the attempt, and the next one has its events.
func TestADeltaThatCannotBeWritten(t *testing.T) {
	r := newTrial(t, "")
	n := r.session()
	r.takes(n, backup.Full)
	r.etcd.put("key", 0)
	ctx, cancel := context.WithCancel(t.Context())
	r.Expect(n.gather(ctx, r.etcd.revision)).To(Succeed())
	cancel()
	written, err := n.delta(ctx)
	r.Expect(err).To(HaveOccurred())
	r.Expect(written).To(BeNil())
	written, err = n.delta(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(written.LastRevision).To(Equal(r.etcd.revision))
	r.Expect(r.changes(written)).To(HaveLen(1))
}

// A new leader goes on where the store ends: its snapshots are later than those there, whatever its clock says, the schedule counts from the
// last full one, what cannot be read is known at once, and what can be restored once the headers were read.
func TestWhatANewLeaderGoesOnFrom(t *testing.T) {
	r := newTrial(t, "")
	identity, recipient := encryptiontest.Identity(t)
	config := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a", Recipients: []string{recipient}, Identities: encryptiontest.Folder(t, identity)}
	r.open(config)
	r.config.DeltaPeriod, r.config.CollectionPeriod = 5*time.Minute, 12*time.Hour
	n := r.session()
	r.takes(n, backup.Full)
	first := n.newest
	r.clock.Step(time.Minute)
	r.etcd.put("key", 0)
	r.takes(n, backup.Delta)
	last := n.newest

	r.clock.SetTime(noon.Add(time.Hour))
	n = r.session()
	n.readHeaders(t.Context())
	r.Expect(r.states()).NotTo(BeEmpty())
	r.Expect(n.newest).To(Equal(last))
	r.Expect(n.fullDue).To(Equal(n.schedule.after(first, r.clock.Now())))
	r.Expect(n.fullDue).NotTo(Equal(n.schedule.after(time.Time{}, r.clock.Now())))
	r.Expect(n.fullDue).NotTo(Equal(n.schedule.after(last.Add(2*time.Hour), r.clock.Now())))
	r.Expect(n.deltaDue).To(Equal(r.clock.Now().Add(5 * time.Minute)))
	r.Expect(n.collectionDue).To(Equal(r.clock.Now().Add(12 * time.Hour)))
	r.Expect(n.checked).To(Equal(r.clock.Now()))

	r.clock.SetTime(noon.Add(-time.Hour))
	n = r.session()
	r.etcd.put("key", 0)
	r.takes(n, backup.Full)
	r.Expect(n.newest).To(BeTemporally(">", first), "the clock went back")

	config.Identities = encryptiontest.Folder(t)
	r.open(config)
	r.clock.SetTime(noon.Add(2 * time.Hour))
	r.session()
	locked, ok := errors.AsType[*backup.LockedError](r.s.Healthy())
	r.Expect(ok).To(BeTrue(), "%v", locked)

	broken := errors.New("broken")
	r.etcd.asking = broken
	r.Expect(n.resume(t.Context())).To(MatchError(broken))
}
