// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	testingclock "k8s.io/utils/clock/testing"
)

// at is an Etcd at a revision, whose database is its content.
type at struct{ revision int64 }

func (e at) Revision(context.Context) (int64, error) { return e.revision, nil }
func (e at) Snapshot(context.Context) (io.ReadCloser, error) {
	content := bytes.Repeat([]byte("database"), 64)
	sum := sha256.Sum256(content)
	return io.NopCloser(bytes.NewReader(append(content, sum[:]...))), nil
}
func (e at) LeaseTTL(context.Context, int64) (int64, error)  { return 0, nil }
func (e at) Watch(context.Context, int64) clientv3.WatchChan { return nil }

// A member that begins to lead reports at once whether the store is up to date, and what is in it, also if another member took it. A full snapshot
// that is due stays required until it is taken.
func TestWhatANewLeaderFinds(t *testing.T) {
	g := NewWithT(t)
	now := testingclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	lead := func(revision int64) *session {
		s, err := New(Config{Options: Options{Schedule: "0 0 * * *", Compression: backup.None, Timeout: time.Minute}, Etcd: at{revision}, Store: to, Clock: now, Log: logr.Discard()})
		g.Expect(err).NotTo(HaveOccurred())
		s.start()
		n := &session{Snapshotter: s, leases: map[int64]int64{}}
		g.Expect(n.resume(t.Context())).To(Succeed())
		return n
	}
	required := func(n *session, kind backup.Kind) float64 {
		return testutil.ToFloat64(n.metrics.required.WithLabelValues(string(kind)))
	}
	first := lead(10)
	g.Expect(first.Current().IsZero()).To(BeTrue(), "the store is empty")
	first.schedules(want{kind: backup.Full})
	g.Expect(required(first, backup.Full)).To(Equal(1.0))
	_, err = first.submit(want{kind: backup.Delta}, true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.perform(t.Context(), first.next(now.Now()))).To(Succeed())
	g.Expect(required(first, backup.Full)).To(BeZero())
	g.Expect(first.Current()).To(Equal(now.Now()))

	now.Step(time.Hour)
	second := lead(10)
	g.Expect(second.Current()).To(Equal(now.Now()), "nothing was written since")
	g.Expect(testutil.ToFloat64(second.metrics.revision.WithLabelValues(string(backup.Full)))).To(Equal(10.0))
	second.schedules(want{kind: backup.Full})
	_, err = second.submit(want{kind: backup.Delta}, true)
	g.Expect(err).NotTo(HaveOccurred())
	second.queue[0], second.queue[1] = second.queue[1], second.queue[0]
	g.Expect(second.perform(t.Context(), second.next(now.Now()))).To(Succeed())
	g.Expect(required(second, backup.Full)).To(Equal(1.0), "a delta is no full snapshot")

	now.Step(time.Hour)
	g.Expect(lead(11).Current().IsZero()).To(BeTrue(), "the store lacks a revision")
}

// What is collected for deltas is counted by prefix, without keys that few share.
func TestHotPrefixes(t *testing.T) {
	g := NewWithT(t)
	now := testingclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	s, err := New(Config{Options: Options{Schedule: "0 0 * * *", Compression: backup.None}, Etcd: at{10}, Clock: now, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	response := clientv3.WatchResponse{}
	for i := range int64(12) {
		response.Events = append(response.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/pods/default/pod-%d", i), Value: []byte("12345"), ModRevision: 11 + i}})
	}
	response.Events = append(response.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte("/registry/secrets/default/s"), ModRevision: 23}})
	g.Expect(n.take(t.Context(), response, true)).To(Succeed())
	report := s.HotPrefixes(false)
	g.Expect(report.Events).To(Equal(int64(13)))
	g.Expect(report.Prefixes).To(ConsistOf(HaveField("Prefix", "/registry/pods/…"), HaveField("Prefix", "…")))
	g.Expect(report.Prefixes[0].Bytes).To(BeNumerically(">=", 12*5))
}

// Garbage collection respects the schedule: seven requested snapshots displace none of the seven daily ones.
func TestCollectionKeepsWhatTheScheduleTook(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC)
	now := testingclock.NewFakeClock(start.AddDate(0, 0, 6))
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	for day := range 7 {
		daily := backup.Snapshot{Kind: backup.Full, LastRevision: int64(day + 1), Created: start.AddDate(0, 0, day), Compression: backup.None}
		_, err := to.Write(t.Context(), daily, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
		g.Expect(err).NotTo(HaveOccurred())
	}
	daily, err := to.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	o := Options{Schedule: "0 1 * * *", Compression: backup.None, Timeout: time.Minute, Retention: backup.Retention{Limit: 7}}
	s, err := New(Config{Options: o, Etcd: at{7}, Store: to, Clock: now, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	s.start()
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	g.Expect(n.resume(t.Context())).To(Succeed())
	for range 9 {
		now.Step(time.Minute)
		_, err := s.submit(want{kind: backup.Full}, false)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(n.perform(t.Context(), n.next(now.Now()))).To(Succeed())
		n.removeExpired(t.Context())
	}
	left, err := to.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(ContainElements(daily))
	g.Expect(left).To(HaveLen(14), "of those that were requested, the newest seven are kept")
	now.SetTime(start.AddDate(0, 0, 7))
	g.Expect(n.look(now.Now(), 23*time.Hour+51*time.Minute)).To(BeFalse())
	g.Expect(n.perform(t.Context(), n.next(now.Now()))).To(Succeed())
	n.removeExpired(t.Context())
	left, err = to.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(ContainElements(daily[1:]))
	g.Expect(left).NotTo(ContainElement(daily[0]), "the schedule displaces the oldest of its own")
	g.Expect(left).To(HaveLen(13), "it is also one of the newest seven")
}

// A watch that brings nothing costs the delta before a full snapshot, and not the full snapshot.
func TestFullWithoutTheDeltaBefore(t *testing.T) {
	g := NewWithT(t)
	now := testingclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	for _, revision := range []int64{7, 10} {
		s, err := New(Config{Options: Options{Schedule: "0 1 * * *", Compression: backup.None, DeltaLimit: 1 << 20, Timeout: time.Second}, Etcd: at{revision}, Store: to, Clock: now, Log: logr.Discard()})
		g.Expect(err).NotTo(HaveOccurred())
		s.start()
		n := &session{Snapshotter: s, leases: map[int64]int64{}}
		g.Expect(n.resume(t.Context())).To(Succeed())
		_, err = n.full(t.Context(), false)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(n.stored).To(Equal(revision))
	}
	g.Expect(to.List(t.Context())).To(HaveLen(2))
}

// A member that was restored, or whose cluster was recovered, takes a full snapshot although the store seems to be complete.
// Once it has taken one, a failure of the store does not make it take another, whatever the note says.
func TestFullFirst(t *testing.T) {
	g := NewWithT(t)
	now := testingclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	needed, record, unknown := false, backup.Record{Revision: 10}, error(nil)
	begin := func() *Snapshotter {
		s, err := New(Config{
			Options: Options{Schedule: "0 0 * * *", Compression: backup.None, Timeout: time.Minute}, Etcd: at{10}, Store: to, Clock: now, Log: logr.Discard(),
			FullFirst: func(context.Context) bool { return needed },
			Recorded:  func(context.Context) (backup.Record, error) { return record, unknown },
		})
		g.Expect(err).NotTo(HaveOccurred())
		s.start()
		return s
	}
	takesDeltas := func(s *Snapshotter) bool {
		n := &session{Snapshotter: s, leases: map[int64]int64{}}
		g.Expect(n.resume(t.Context())).To(Succeed())
		if n.stored > 0 {
			return true
		}
		n.schedules(want{kind: backup.Full})
		g.Expect(n.perform(t.Context(), n.next(now.Now()))).To(Succeed())
		return false
	}
	s := begin()
	g.Expect(takesDeltas(s)).To(BeFalse(), "the store is empty")
	g.Expect(takesDeltas(s)).To(BeTrue())
	needed = true
	s = begin()
	g.Expect(takesDeltas(s)).To(BeFalse(), "the member was restored")
	g.Expect(takesDeltas(s)).To(BeTrue(), "in the same process, the snapshot counts")
	g.Expect(takesDeltas(begin())).To(BeFalse(), "the note was not removed")
	needed = false
	g.Expect(takesDeltas(begin())).To(BeTrue())

	// An Etcd that was created again beside its backups records none, and a recovery would find none.
	record = backup.Record{}
	s = begin()
	g.Expect(takesDeltas(s)).To(BeFalse(), "none is recorded")
	g.Expect(takesDeltas(s)).To(BeTrue(), "in the same process, the snapshot counts, whether or not it could be recorded")
	unknown = errors.New("no API server")
	g.Expect(takesDeltas(begin())).To(BeTrue(), "it is not known whether one is recorded")
}

// A final snapshot may have what no quorum had: it is taken of stopped volumes, with entries that were never committed, and the cluster may wake up with
// its volumes after all, and write others. However far etcd is, deltas do not continue it; those that the leader has itself written after one are continued.
func TestAFinalSnapshotIsNotContinued(t *testing.T) {
	for name, c := range map[string]struct {
		deltaTo, revision int64
		full              bool
	}{
		"at its revision":        {revision: 45, full: true},
		"beyond it":              {revision: 50, full: true},
		"before it":              {revision: 44, full: true},
		"with a delta after it":  {deltaTo: 48, revision: 50},
		"and nothing after that": {deltaTo: 48, revision: 48},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, "")
			r.etcd.revision = c.revision
			write := func(s backup.Snapshot) {
				s.Compression = backup.None
				_, err := r.store.Write(t.Context(), s, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
				r.Expect(err).NotTo(HaveOccurred())
			}
			write(backup.Snapshot{Kind: backup.Full, LastRevision: 45, Created: noon.Add(-2 * time.Hour), Final: true})
			if c.deltaTo > 0 {
				write(backup.Snapshot{Kind: backup.Delta, StartRevision: 46, LastRevision: c.deltaTo, Created: noon.Add(-time.Hour)})
			}
			n := r.session()
			if !c.full {
				r.Expect(n.stored).To(Equal(c.deltaTo))
				return
			}
			r.Expect(n.stored).To(BeZero())
			r.Expect(r.s.Current().IsZero()).To(BeTrue(), "what the store has may be of another history")
			r.takes(n, backup.Full)
			r.Expect(n.stored).To(Equal(c.revision))
			r.Expect(r.session().stored).To(Equal(c.revision), "one full snapshot is enough")
		})
	}
}

// A store that lacks what is recorded may have the backup of another cluster, as after a change of the prefix, and deltas would continue that: restored,
// they would be without what was written before. One that has more than is recorded is as it was: a Lease could not be written, and is written now. A
// recovery compares what the Leases record with the data that has survived.
func TestAStoreWithoutWhatIsRecorded(t *testing.T) {
	g := NewWithT(t)
	now := testingclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	there := backup.Snapshot{Kind: backup.Full, LastRevision: 8, Created: now.Now().Add(-time.Hour), Compression: backup.None}
	x := func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }
	_, err = to.Write(t.Context(), there, x)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = to.Write(t.Context(), backup.Snapshot{Kind: backup.Delta, StartRevision: 9, LastRevision: 9, Created: there.Created, Compression: backup.None}, x)
	g.Expect(err).NotTo(HaveOccurred())
	for name, c := range map[string]struct {
		record  backup.Record
		unknown error
		full    bool
		told    []int64
	}{
		"what is there":      {record: backup.Record{Revision: 8, Created: there.Created}, told: []int64{8, 9}},
		"less":               {record: backup.Record{Revision: 7, Created: there.Created.Add(-time.Minute)}, told: []int64{8, 9}},
		"a newer snapshot":   {record: backup.Record{Revision: 8, Created: there.Created.Add(time.Minute)}, full: true},
		"a higher revision":  {record: backup.Record{Revision: 10, Created: there.Created}, full: true},
		"that is not known":  {unknown: errors.New("no API server")},
		"and it is not read": {},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var told []int64
			config := Config{
				Options: Options{Schedule: "0 0 * * *", Compression: backup.None, Timeout: time.Minute}, Etcd: at{10}, Store: to, Clock: now, Log: logr.Discard(),
				OnSnapshot: func(s backup.Snapshot) { told = append(told, s.LastRevision) },
			}
			if name != "and it is not read" {
				config.Recorded = func(context.Context) (backup.Record, error) { return c.record, c.unknown }
			}
			s, err := New(config)
			g.Expect(err).NotTo(HaveOccurred())
			n := &session{Snapshotter: s, leases: map[int64]int64{}}
			g.Expect(n.resume(t.Context())).To(Succeed())
			g.Expect(n.stored == 0).To(Equal(c.full))
			g.Expect(told).To(Equal(c.told))
			g.Expect(s.Healthy()).To(Succeed(), "a full snapshot is all that it takes")
		})
	}
}

// A hold that the next leader makes in the middle of a collection counts: the agent that collects may not know yet that it does not lead any
// more.
func TestACollectionSeesAHoldOfTheNextLeader(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC)
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	for i := range 4 {
		taken := backup.Snapshot{Kind: backup.Full, LastRevision: int64(i + 1), Created: start.Add(time.Duration(i) * time.Minute), Compression: backup.None}
		_, err := to.Write(t.Context(), taken, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
		g.Expect(err).NotTo(HaveOccurred())
	}
	all, err := to.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	now, held := testingclock.NewFakeClock(start.Add(time.Hour)), false
	log := funcr.New(func(_, args string) {
		if !held && strings.Contains(args, "Removed a snapshot") {
			held = true
			_, err := to.Hold(t.Context(), all[2].Name(), 0, now.Now())
			g.Expect(err).NotTo(HaveOccurred())
		}
	}, funcr.Options{})
	o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: time.Minute, Retention: backup.Retention{Limit: 1}}
	s, err := New(Config{Options: o, Etcd: at{4}, Store: to, Clock: now, Log: log})
	g.Expect(err).NotTo(HaveOccurred())
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	n.removeExpired(t.Context())
	g.Expect(held).To(BeTrue())
	left, err := to.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(HaveLen(2), "the newest, and the one that is held")
	g.Expect(left[0].Name()).To(Equal(all[2].Name()))
	g.Expect(states(s)).To(HaveLen(2), "what is not removed can be restored")
}

// A store that accepts requests and does not answer does not hold a session for ever: the failure is shown, and all is tried again.
func TestASessionBesideAStoreThatHangs(t *testing.T) {
	r := newTrial(t, "")
	bucket := &locking{hangs: func(*http.Request) bool { return true }}
	r.config.Store, r.config.Timeout = bucket.open(t, ""), machine.Scaled(200*time.Millisecond)
	r.lead()
	r.Eventually(func() error { return r.s.Healthy() }).Should(MatchError(ContainSubstring("deadline exceeded")))
	r.Expect(testutil.ToFloat64(r.s.metrics.failures.WithLabelValues(failureSession))).To(BeNumerically(">=", 1))
	r.Eventually(func() int {
		r.clock.Step(retryPeriod)
		bucket.mu.Lock()
		defer bucket.mu.Unlock()
		return bucket.requests
	}).Should(BeNumerically(">", 1))
}

// So it is once the record can be read again, and with a store that lists what is there and does not let it be read: that is replaced.
func TestASessionBesideAStoreThatHangsLater(t *testing.T) {
	g := machine.Gomega(t)
	identity, _ := encryptiontest.Identity(t)
	bucket := &locking{hangs: func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/bucket/a/v2/Full-") }}
	bucket.has(backup.Snapshot{Kind: backup.Full, LastRevision: 40, Created: noon, Compression: backup.None, Encrypted: true})
	s, err := New(Config{
		Options: Options{Schedule: "* * * * *", Compression: backup.None, Timeout: machine.Scaled(2 * time.Second)}, Etcd: at{40}, Store: bucket.open(t, encryptiontest.Folder(t, identity)),
		Clock: testingclock.NewFakeClock(noon), Log: logr.Discard(), OnSnapshot: func(backup.Snapshot) {},
		Recorded: func(context.Context) (backup.Record, error) { return backup.Record{Revision: 40, Created: noon}, nil },
	})
	g.Expect(err).NotTo(HaveOccurred())
	s.start()
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { ended <- n.resume(ctx) }()
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(n.stored).To(BeZero())
	g.Expect(n.queue).To(HaveLen(1))

	n.config.Timeout = machine.Scaled(200 * time.Millisecond)
	bucket.mu.Lock()
	bucket.hangs = func(*http.Request) bool { return true }
	bucket.mu.Unlock()
	go func() { ended <- n.recordAgain(ctx) }()
	g.Eventually(ended).Should(Receive(MatchError(ContainSubstring("deadline exceeded"))))
}
