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
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	testingclock "k8s.io/utils/clock/testing"
)

// kv is an etcd whose clients write keys.
type kv struct {
	mu       sync.Mutex
	revision int64
	events   []*clientv3.Event
	changed  chan struct{}
	// compacted is the revision up to which it forgot the events.
	compacted int64
	// What it fails with, whether watches end at once, and whether a snapshot hangs.
	asking, sending, leasing error
	ends, hangs              bool
	// leases that it was asked about.
	leases []int64
}

func (e *kv) put(key string, lease int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revision++
	e.events = append(e.events, &clientv3.Event{Type: mvccpb.Event_PUT, Kv: &mvccpb.KeyValue{
		Key: []byte(key), Value: []byte("value"), Lease: lease, CreateRevision: e.revision - 1, ModRevision: e.revision, Version: 2,
	}})
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *kv) set(change func(*kv)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *kv) Revision(context.Context) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.revision, e.asking
}

func (e *kv) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hangs {
		return io.NopCloser(hanging{ctx}), nil
	}
	content := fmt.Appendf(bytes.Repeat([]byte("database"), 64), "%d", e.revision)
	content = append(content, make([]byte, 512-len(content)%512)...)
	sum := sha256.Sum256(content)
	return io.NopCloser(bytes.NewReader(append(content, sum[:]...))), e.sending
}

type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (e *kv) LeaseTTL(_ context.Context, lease int64) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases = append(e.leases, lease)
	return 10 * lease, e.leasing
}

func (e *kv) Watch(ctx context.Context, from int64) clientv3.WatchChan {
	to := make(chan clientv3.WatchResponse)
	go func() {
		defer close(to)
		for next := from; ; {
			e.mu.Lock()
			response, changed, ends := clientv3.WatchResponse{}, e.changed, e.ends
			for _, event := range e.events {
				if event.Kv.ModRevision >= next {
					response.Events = append(response.Events, event)
				}
			}
			if next <= e.compacted {
				response = clientv3.WatchResponse{CompactRevision: e.compacted}
			}
			e.mu.Unlock()
			if ends {
				return
			}
			if n := len(response.Events); n > 0 || response.CompactRevision > 0 {
				select {
				case to <- response:
				case <-ctx.Done():
					return
				}
				if n > 0 {
					next = response.Events[n-1].Kv.ModRevision + 1
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// trial is a leader that takes snapshots of an etcd.
type trial struct {
	*machine.WithT
	t      *testing.T
	etcd   *kv
	clock  *testingclock.FakeClock
	store  *store.Store
	config Config
	s      *Snapshotter
	// told are the snapshots that were reported.
	told []string
}

var noon = time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)

func newTrial(t *testing.T, keys string) *trial {
	r := &trial{WithT: machine.Gomega(t), t: t, etcd: &kv{revision: 10, changed: make(chan struct{})}, clock: testingclock.NewFakeClock(noon)}
	r.open(store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a", SigningKeys: keys})
	r.config = Config{
		Options: Options{Schedule: "0 * * * *", Compression: backup.None, Timeout: time.Minute, DeltaLimit: 1 << 20},
		Etcd:    r.etcd, Store: r.store, Clock: r.clock, Log: testr.New(t), OnSnapshot: func(s backup.Snapshot) { r.told = append(r.told, s.Name()) },
	}
	return r
}

// open has the next leader use a store.
func (r *trial) open(config store.Config) {
	r.t.Helper()
	var err error
	r.store, err = store.Open(r.t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.config.Store = r.store
}

// lead runs until the test ends, or the leader is to end.
func (r *trial) lead() (end func()) {
	r.t.Helper()
	var err error
	r.s, err = New(r.config)
	r.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.s.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		r.Eventually(ended).Should(Receive(MatchError(context.Canceled)))
	})
	r.t.Cleanup(end)
	r.Eventually(func() bool { r.s.mu.Lock(); defer r.s.mu.Unlock(); return r.s.running }).Should(BeTrue())
	return end
}

// retries lets time pass, by a snapshot that is asked for, until there is no failure any more.
func (r *trial) retries(failing func() error) {
	r.t.Helper()
	r.Eventually(func() error {
		r.clock.Step(retryPeriod)
		ctx, cancel := context.WithTimeout(r.t.Context(), machine.Scaled(200*time.Millisecond))
		defer cancel()
		_, err := r.s.Delta(ctx)
		return errors.Join(err, failing())
	}).WithPolling(100 * time.Millisecond).Should(Succeed())
}

func (r *trial) full() backup.Snapshot {
	r.t.Helper()
	s, err := r.s.Full(r.t.Context(), false)
	r.Expect(err).NotTo(HaveOccurred())
	return s
}

func (r *trial) delta() *backup.Snapshot {
	r.t.Helper()
	s, err := r.s.Delta(r.t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	return s
}

func (r *trial) chain() (names []string) {
	r.t.Helper()
	chain, err := r.s.Latest(r.t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	names = []string{chain.Full.Name()}
	for _, d := range chain.Deltas {
		names = append(names, d.Name())
	}
	return names
}

// changes are the events of a delta.
func (r *trial) changes(s *backup.Snapshot) (all []backup.Event) {
	object, err := r.store.Reader(r.t.Context(), *s)
	r.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = object.Close() }()
	content, err := backup.NewReader(*s, object)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(backup.ReadDelta(content, func(e backup.Event) error { all = append(all, e); return nil })).To(Succeed())
	return all
}

// A chain of snapshots has all that was written, and each is newer than the one before, whatever the clock does. Every one is reported once it is in the
// store.
func TestAChainOfSnapshots(t *testing.T) {
	for name, keys := range map[string]string{"unsigned": "", "signed": signaturetest.Keys(t)} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, keys)
			end := r.lead()
			full := r.full()
			r.Expect(full.LastRevision).To(Equal(int64(10)))
			r.Expect(r.delta()).To(BeNil(), "nothing was written since")
			r.etcd.put("a", 0)
			r.etcd.put("b", 7)
			r.etcd.put("c", 7)
			delta := r.delta()
			r.Expect([]int64{delta.StartRevision, delta.LastRevision}).To(Equal([]int64{11, 13}))
			events := r.changes(delta)
			r.Expect(events).To(HaveLen(3))
			r.Expect(events[1]).To(Equal(backup.Event{Time: noon, LeaseTTL: 70, EtcdEvent: backup.EtcdEvent{Kv: backup.KeyValue{
				Key: []byte("b"), Value: []byte("value"), Lease: 7, CreateRevision: 11, ModRevision: 12, Version: 2,
			}}}))
			r.Expect(events[0].LeaseTTL).To(BeZero())
			r.Expect(r.etcd.leases).To(Equal([]int64{7}), "etcd is asked once for a lease")
			r.etcd.put("d", 7)
			last := r.delta()
			r.Expect(r.changes(last)).To(HaveLen(1))
			r.Expect(r.etcd.leases).To(Equal([]int64{7, 7}), "a delta forgets what it knew of leases, which may have ended")
			r.Expect(r.chain()).To(Equal([]string{full.Name(), delta.Name(), last.Name()}))
			r.Expect(r.told[len(r.told)-3:]).To(Equal(r.chain()))
			r.Expect(last.Created).To(Equal(full.Created.Add(2*time.Second)), "the clock stands still")
			r.clock.SetTime(noon.Add(-time.Hour))
			r.Expect(r.full().Created).To(Equal(last.Created.Add(time.Second)), "the clock was set back")
			r.Expect(r.s.Healthy()).To(Succeed())
			end()

			r.etcd.put("e", 0)
			_, err := r.s.Delta(t.Context())
			r.Expect(err).To(MatchError(ErrNotRunning))
			r.lead()
			next := r.delta()
			r.Expect([]int64{next.StartRevision, next.LastRevision}).To(Equal([]int64{15, 15}), "another leader continues")
			if keys != "" {
				r.Expect(next.Proof.History).To(Equal(full.Proof.History))
			}
		})
	}
}

// uploading is an etcd whose snapshot takes ten minutes to read, while clients write.
type uploading struct {
	*kv
	clock *testingclock.FakeClock
}

func (e uploading) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	database, err := e.kv.Snapshot(ctx)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(database, e), database}, err
}

// Read comes at the end of the database.
func (e uploading) Read([]byte) (int, error) {
	e.clock.Step(10 * time.Minute)
	e.put("key", 0)
	return 0, io.EOF
}

// What is written while a snapshot is taken is not said to be in the store.
func TestTheStoreIsCurrentAsOfTheBeginning(t *testing.T) {
	r := newTrial(t, "")
	r.config.Etcd = uploading{r.etcd, r.clock}
	n := r.session()
	r.takes(n, backup.Full)
	r.Expect(r.clock.Now()).To(Equal(noon.Add(10 * time.Minute)))
	r.Expect(r.s.Current()).To(Equal(noon))
	r.Expect(n.deltaDue).To(Equal(noon.Add(r.config.DeltaPeriod)))
	r.takes(n, backup.Delta)
	r.Expect(r.s.Current()).To(Equal(noon.Add(10 * time.Minute)))
}

// What was known of the store in an earlier term says nothing in the next one: other members have led in between. Until the store was listed, what they have
// reported stays.
func TestAnEarlierTermIsForgotten(t *testing.T) {
	r := newTrial(t, "")
	end := r.lead()
	r.full()
	r.Expect(r.s.Current().IsZero()).To(BeFalse())
	r.Expect(r.states()).NotTo(BeNil())
	end()
	r.Expect(r.s.Current().IsZero()).To(BeTrue())
	r.Expect(r.states()).To(BeNil())
}

// A final snapshot is a full one.
func TestAFinalSnapshot(t *testing.T) {
	r := newTrial(t, "")
	r.lead()
	final, err := r.s.Full(t.Context(), true)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect([]any{final.Final, final.Kind}).To(Equal([]any{true, backup.Full}))
}

// When so many events were collected as memory may hold, they are written, also if more were written than fit. What etcd has compacted away before
// it was collected is replaced with a full snapshot.
func TestEventsAreBounded(t *testing.T) {
	r := newTrial(t, "")
	r.config.DeltaLimit = 300
	r.lead()
	r.full()
	for range 3 {
		r.etcd.put("key", 0)
	}
	r.Eventually(r.chain).Should(ContainElement(HavePrefix("Incr-00000011-")))
	r.etcd.set(func(e *kv) { e.ends = true })
	r.etcd.put("key", 0)
	r.Eventually(func() error { return r.s.Healthy() }).Should(MatchError("watching etcd: the watch has ended"))
	r.Expect(testutil.ToFloat64(r.s.metrics.failures.WithLabelValues(failureSession))).To(Equal(1.0))

	for range 20 {
		r.etcd.put("key", 0)
	}
	r.etcd.set(func(e *kv) { e.ends, e.compacted = false, e.revision })
	r.retries(func() error { return r.s.Healthy() })
	r.Eventually(r.chain).Should(HaveExactElements(HavePrefix(fmt.Sprintf("Full-00000000-%08d-", r.etcd.revision))))
	r.etcd.put("key", 0)
	r.Expect(r.delta().StartRevision).To(Equal(r.etcd.revision), "deltas continue from there")
}

// Who asks gets the failure, and the next attempt is a while later.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		breaks, heals func(*kv)
		delta         bool
	}{
		"no revision":      {func(e *kv) { e.asking = broken }, func(e *kv) { e.asking = nil }, false},
		"none for a delta": {func(e *kv) { e.asking = broken }, func(e *kv) { e.asking = nil }, true},
		"no snapshot":      {func(e *kv) { e.sending = broken }, func(e *kv) { e.sending = nil }, false},
		"no lease":         {func(e *kv) { e.leasing = broken }, func(e *kv) { e.leasing = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, "")
			r.lead()
			before := r.full()
			r.etcd.set(c.breaks)
			ask := func(ctx context.Context) error { _, err := r.s.Full(ctx, false); return err }
			if c.delta {
				r.etcd.put("key", 5)
				ask = func(ctx context.Context) error { _, err := r.s.Delta(ctx); return err }
			}
			// If the watch fails before the request, that waits for the next attempt.
			r.Eventually(func() error {
				r.clock.Step(retryPeriod)
				ctx, cancel := context.WithTimeout(t.Context(), machine.Scaled(200*time.Millisecond))
				defer cancel()
				return ask(ctx)
			}).Should(MatchError(broken))
			r.Expect(r.s.Healthy()).To(MatchError(broken))
			r.Expect(testutil.CollectAndCount(r.s.metrics.duration)).To(BeNumerically(">=", 1))
			r.Expect(r.chain()).To(Equal([]string{before.Name()}))
			r.etcd.set(c.heals)
			r.retries(func() error { return r.s.Healthy() })
			r.Expect(ask(t.Context())).To(Succeed())
		})
	}
}

// A snapshot that takes too long ends, and so does one of a member that does not lead any more: the caller asks the next leader.
func TestASnapshotThatHangs(t *testing.T) {
	r := newTrial(t, "")
	r.config.Timeout = 50 * time.Millisecond
	r.etcd.hangs = true
	end := r.lead()
	r.Eventually(func() error { return r.s.Healthy() }).Should(MatchError(context.DeadlineExceeded), "the first one")
	end()
	r.config.Timeout = time.Hour
	end = r.lead()
	waits := make(chan error, 1)
	go func() { _, err := r.s.Full(t.Context(), false); waits <- err }()
	r.Eventually(func() int { r.s.mu.Lock(); defer r.s.mu.Unlock(); return len(r.s.pending) - len(r.s.queue) }).Should(BeNumerically(">", 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.s.Delta(ctx)
	r.Expect(err).To(MatchError(context.Canceled), "who does not wait any more")
	end()
	r.Eventually(waits).Should(Receive(MatchError(ErrNotRunning)))
	r.Expect(r.s.Healthy()).To(Succeed(), "a member that does not lead has no failure")
}

// A store that ends after etcd, or a member that was restored, has another history: a full snapshot begins it. One is enough.
func TestWhyAFullSnapshotIsFirst(t *testing.T) {
	r := newTrial(t, "")
	end := r.lead()
	r.full()
	r.etcd.put("key", 0)
	r.delta()
	end()
	r.clock.Step(time.Minute)
	r.etcd.revision, r.etcd.events = 10, nil
	end = r.lead()
	r.Eventually(r.chain).Should(HaveExactElements(HavePrefix("Full-00000000-00000010-")), "the store ended after etcd")
	r.etcd.put("key", 0)
	r.delta()
	end()
	r.clock.Step(time.Minute)
	asked := 0
	r.config.FullFirst = func(context.Context) bool { asked++; return true }
	r.lead()
	r.Eventually(r.chain).Should(HaveExactElements(HavePrefix("Full-00000000-00000011-")), "the member was restored")
	r.etcd.set(func(e *kv) { e.ends = true })
	r.etcd.put("key", 0)
	r.Eventually(func() error { return r.s.Healthy() }).Should(HaveOccurred())
	r.etcd.set(func(e *kv) { e.ends = false })
	r.retries(func() error { return r.s.Healthy() })
	r.delta()
	r.Expect(r.chain()).To(HaveLen(2))
	r.Expect(asked).To(Equal(1), "after the snapshot it does not matter")
}

// Where snapshots are signed, a store that lacks what is recorded, or has something newer that is not signed, gets a full snapshot, and the agent says what is wrong.
func TestAStoreThatIsNotTrusted(t *testing.T) {
	r := newTrial(t, signaturetest.Keys(t))
	record, unknown := backup.Record{}, error(nil)
	r.config.Recorded = func(context.Context) (backup.Record, error) { return record, unknown }
	end := r.lead()
	first := r.full()
	r.Expect(r.s.Healthy()).To(Succeed())
	end()

	r.clock.Step(time.Minute)
	record = backup.Record{Revision: 11}
	end = r.lead()
	r.Eventually(func() error { return r.s.Healthy() }).Should(MatchError(ContainSubstring("newer snapshots were removed")))
	r.Eventually(r.chain).ShouldNot(ContainElement(first.Name()))
	end()

	r.clock.Step(time.Minute)
	record, unknown = backup.Record{}, errors.New("no API server")
	before := r.chain()
	end = r.lead()
	r.Eventually(r.chain).ShouldNot(Equal(before))
	r.Expect(r.s.Healthy()).To(Succeed(), "that is no word on the store")
	end()
	unknown = nil

	r.clock.Step(time.Minute)
	folder, _ := r.store.File(first)
	foreign := backup.Snapshot{Kind: backup.Full, LastRevision: 99, Created: r.clock.Now(), Compression: backup.None}
	r.Expect(os.WriteFile(filepath.Join(filepath.Dir(folder), foreign.Name()), []byte("x"), 0o600)).To(Succeed())
	r.clock.Step(time.Minute)
	r.lead()
	r.Eventually(func() error { return r.s.Healthy() }).Should(MatchError(And(ContainSubstring(foreign.Name()), ContainSubstring("it has no valid signature"))))
	r.Eventually(func() (err error) { _, err = r.s.Latest(t.Context()); return err }).Should(Succeed(), "a signed one is newer")
}

// An agent that cannot decrypt what it has written says so, and removes nothing: what is older may be all that can be restored. Once the
// identity is there, all is well. That people alone have one is meant to be.
func TestBackupsThatCannotBeRead(t *testing.T) {
	r := newTrial(t, "")
	identity, recipient := encryptiontest.Identity(t)
	config := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"}
	r.open(config)
	r.config.CollectionPeriod, r.config.Retention.Limit = time.Hour, 1
	end := r.lead()
	plain := r.full()
	end()

	config.Recipients, config.Identities = []string{recipient}, encryptiontest.Folder(t)
	r.open(config)
	r.clock.Step(time.Minute)
	end = r.lead()
	first := r.full()
	r.Expect(first.Encrypted).To(BeTrue())
	r.Expect(r.s.Healthy()).To(MatchError(And(ContainSubstring(first.Name()), ContainSubstring("identitySecretRef does not exist"))))
	r.etcd.put("key", 0)
	r.Expect(r.delta().Encrypted).To(BeTrue(), "snapshots are taken nevertheless")
	surplus := r.full()
	r.full()
	all, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(all).To(ContainElement(HaveField("Created", plain.Created)))
	n := &session{Snapshotter: r.s}
	n.removeExpired(t.Context())
	r.Expect(r.store.List(t.Context())).To(Equal(all), "nothing is removed")

	r.Expect(os.WriteFile(filepath.Join(config.Identities, "key.txt"), []byte(identity), 0o600)).To(Succeed())
	n.removeExpired(t.Context())
	r.Expect(r.s.Healthy()).To(Succeed())
	left, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(left).NotTo(ContainElement(surplus), "retention keeps the newest, and the first of the schedule")
	end()

	config.Identities = ""
	r.open(config)
	r.clock.Step(time.Minute)
	r.lead()
	r.full()
	r.Expect(r.s.Healthy()).To(Succeed(), "for people only")
}

// A writer of the store adds a plain snapshot after encrypted ones: the agent says so, and supersedes it.
func TestAPlainSnapshotAmongEncryptedOnes(t *testing.T) {
	r := newTrial(t, "")
	identity, recipient := encryptiontest.Identity(t)
	r.open(store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a", Recipients: []string{recipient}, Identities: encryptiontest.Folder(t, identity)})
	end := r.lead()
	first := r.full()
	end()
	r.clock.Step(time.Minute)
	folder, _ := r.store.File(first)
	foreign := backup.Snapshot{Kind: backup.Full, LastRevision: 99, Created: r.clock.Now(), Compression: backup.None}
	r.Expect(os.WriteFile(filepath.Join(filepath.Dir(folder), foreign.Name()), []byte("x"), 0o600)).To(Succeed())
	r.clock.Step(time.Minute)
	r.lead()
	r.Eventually(func() error { return r.s.Healthy() }).Should(MatchError(And(ContainSubstring(foreign.Name()), ContainSubstring("it is not encrypted"))))
	r.Eventually(func() (err error) { _, err = r.s.Latest(t.Context()); return err }).Should(Succeed(), "an encrypted one is newer")
}
