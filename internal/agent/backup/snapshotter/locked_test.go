// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"
)

// locking is a bucket that refuses to remove or replace what it locks.
type locking struct {
	mu sync.Mutex
	// keys of its objects, beneath the prefix of the store.
	keys []string
	// locks reports whether an object must not be removed; nil for none.
	locks func(key string) bool
	// asked are the snapshots that it was asked to remove, and removed those that it has removed.
	asked, removed []string
	// status is what it answers to such a request; 0 for 403.
	status int
	// takes is called with each such request.
	takes func()
	// forbids reports whether it refuses to list what begins with a prefix; nil for none.
	forbids func(prefix string) bool
	// hangs reports whether it does not answer a request at all; nil for none.
	hangs    func(r *http.Request) bool
	requests int
}

const snapshots = "v2/"

// has adds a snapshot.
func (l *locking) has(s backup.Snapshot) { l.keys = append(l.keys, snapshots+s.Name()) }

// minutes adds full snapshots with some revisions, taken a minute apart.
func (l *locking) minutes(from, to int64) {
	for i := from; i <= to; i++ {
		l.has(backup.Snapshot{Kind: backup.Full, LastRevision: i, Created: noon.Add(time.Duration(i) * time.Minute), Compression: backup.None})
	}
}

func (l *locking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.requests++
	if l.hangs != nil && l.hangs(r) {
		l.mu.Unlock()
		<-r.Context().Done()
		return
	}
	defer l.mu.Unlock()
	key, prefix := strings.TrimPrefix(r.URL.Path, "/bucket/a/"), strings.TrimPrefix(r.URL.Query().Get("prefix"), "a/")
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case r.Method == http.MethodDelete:
		l.remove(w, key)
	case r.Method == http.MethodPut:
		l.write(w, key)
	case r.Method == http.MethodGet && l.forbids != nil && l.forbids(prefix):
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet:
		var list strings.Builder
		for _, k := range l.keys {
			if strings.HasPrefix(k, prefix) {
				fmt.Fprintf(&list, "<Contents><Key>a/%s</Key><Size>1</Size><LastModified>2026-11-20T00:00:00Z</LastModified></Contents>", k)
			}
		}
		_, _ = fmt.Fprintf(w, "<ListBucketResult>%s</ListBucketResult>", list.String())
	}
}

func (l *locking) write(w http.ResponseWriter, key string) {
	if is := slices.Contains(l.keys, key); is && l.locks != nil && l.locks(key) {
		w.WriteHeader(cmp.Or(l.status, http.StatusForbidden))
		return
	} else if !is {
		l.keys = append(l.keys, key)
	}
	w.Header().Set("ETag", `"1"`)
}

func (l *locking) remove(w http.ResponseWriter, key string) {
	name, is := strings.CutPrefix(key, snapshots)
	if is {
		l.asked = append(l.asked, name)
	}
	if l.takes != nil {
		l.takes()
	}
	if l.locks != nil && l.locks(key) {
		w.WriteHeader(cmp.Or(l.status, http.StatusForbidden))
		return
	}
	l.keys = slices.DeleteFunc(l.keys, func(k string) bool { return k == key })
	l.removed = append(l.removed, name)
	w.WriteHeader(http.StatusNoContent)
}

// revision is that of the snapshot with a key; 0 for none.
func revision(key string) int64 {
	s, _ := backup.ParseName(strings.TrimPrefix(key, snapshots))
	return s.LastRevision
}

// open returns the store of the bucket, with identities that decrypt what is there.
func (l *locking) open(t *testing.T, identities string) *store.Store {
	g := NewWithT(t)
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	credentials := t.TempDir()
	for key, value := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"} {
		g.Expect(os.WriteFile(filepath.Join(credentials, key), []byte(value), 0o600)).To(Succeed())
	}
	to, err := store.Open(t.Context(), store.Config{Provider: store.S3, Container: "bucket", Prefix: "a", Credentials: credentials, Identities: identities})
	g.Expect(err).NotTo(HaveOccurred())
	return to
}

// collects returns a session that keeps the newest full snapshot alone.
func (l *locking) collects(t *testing.T, clock *testingclock.FakeClock, timeout time.Duration, log logr.Logger) *session {
	o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: timeout, Retention: backup.Retention{Limit: 1}}
	s, err := New(Config{Options: o, Etcd: at{40}, Store: l.open(t, ""), Clock: clock, Log: log})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &session{Snapshotter: s, leases: map[int64]int64{}}
}

// A snapshot is kept again where the bucket locks its marker: the answer may have been lost, and a second Restore of an idle cluster has the same final
// snapshot.
func TestASnapshotIsKeptAgainBesideLockedObjects(t *testing.T) {
	g := NewWithT(t)
	bucket := &locking{locks: func(string) bool { return true }}
	bucket.minutes(1, 2)
	n := bucket.collects(t, testingclock.NewFakeClock(noon.Add(6*time.Hour)), machine.Patience(), logr.Discard())
	first := backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: noon.Add(time.Minute), Compression: backup.None}
	for range 2 {
		kept, err := n.Keep(t.Context(), first.Name())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]bool{kept.Kept, kept.Marked}).To(Equal([]bool{true, true}))
	}
	g.Expect(bucket.keys).To(HaveLen(3))
	g.Expect(bucket.keys).To(ContainElement("kept/keep." + first.Name()))
	bucket.keys = slices.DeleteFunc(bucket.keys, func(key string) bool { return strings.HasPrefix(key, "kept/") })
	_, err := n.Keep(t.Context(), first.Name())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bucket.keys).To(HaveLen(3), "a person had released it")
}

// A bucket that locks objects for some days refuses to remove the younger ones; a legal hold, or an earlier lock that lasts longer, older ones: all others
// that retention does not keep are removed at once, wherever the locks are. What was refused is not asked for again within a day, and removed after that
// if it can be. A store that answers something else is asked once, and the next time for another one.
func TestACollectionBesideLockedObjects(t *testing.T) {
	between := func(first, last int64) func(int64) bool {
		return func(revision int64) bool { return first <= revision && revision <= last }
	}
	both := func(a, b func(int64) bool) func(int64) bool { return func(r int64) bool { return a(r) || b(r) } }
	none, all := between(0, 0), between(1, 1000)
	for name, c := range map[string]struct {
		status                 int
		objects                int64
		refused, again, remain int
		locks                  func(revision int64) bool
	}{
		"no lock":                             {objects: 40, locks: none, remain: 1},
		"locked by age":                       {objects: 40, locks: between(21, 40), remain: 20, refused: 19},
		"by Azure":                            {status: http.StatusConflict, objects: 40, locks: between(21, 40), remain: 20, refused: 19},
		"and one for longer":                  {objects: 40, locks: both(between(3, 3), between(21, 40)), remain: 21, refused: 20},
		"the oldest by a legal hold":          {objects: 40, locks: between(1, 10), remain: 11, refused: 10},
		"the oldest, and others by age":       {objects: 140, locks: both(between(1, 30), between(101, 140)), remain: 70, refused: 69},
		"fewer between two locks than before": {objects: 140, locks: both(between(1, 70), between(111, 140)), remain: 100, refused: 99},
		"all":                                 {objects: 140, locks: all, remain: 140, refused: 139},
		"the store cannot remove any":         {status: http.StatusNotImplemented, objects: 40, locks: all, remain: 40, refused: 1, again: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bucket := &locking{status: c.status, locks: func(key string) bool { return c.locks(revision(key)) }}
			bucket.minutes(1, c.objects)
			clock := testingclock.NewFakeClock(noon.Add(6 * time.Hour))
			n := bucket.collects(t, clock, machine.Patience(), logr.Discard())
			n.removeExpired(t.Context())
			g.Expect(bucket.keys).To(HaveLen(c.remain))
			g.Expect(len(bucket.asked) - len(bucket.removed)).To(Equal(c.refused))
			g.Expect(states(n.Snapshotter)).To(HaveLen(c.remain), "what is left can be restored")

			clock.Step(23 * time.Hour)
			n.removeExpired(t.Context())
			g.Expect(len(bucket.asked) - len(bucket.removed)).To(Equal(c.refused + c.again))
			g.Expect(states(n.Snapshotter)).To(HaveLen(c.remain))
			bucket.locks = nil
			clock.Step(24 * time.Hour)
			n.removeExpired(t.Context())
			g.Expect(bucket.keys).To(HaveLen(1), "the locks have ended")
			if asked := slices.Clone(bucket.asked); c.again > 0 {
				slices.Sort(asked)
				g.Expect(slices.Compact(asked)).To(HaveLen(len(asked)-c.refused-c.again), "those that have failed were asked for twice")
			}
		})
	}
}

// However much there is to remove, a collection ends soon, since no snapshot is taken while it lasts. Nothing starves: what was never refused, and what was
// refused longest ago, each have half of the time. While something can be removed, the next collection is soon, too.
func TestACollectionIsShort(t *testing.T) {
	g := NewWithT(t)
	clock := testingclock.NewFakeClock(noon.Add(24 * time.Hour))
	bucket := &locking{takes: func() { clock.Step(time.Second) }, locks: func(key string) bool { r := revision(key); return 0 < r && r <= 150 }}
	bucket.minutes(1, 301)
	hold := backup.Hold{Since: noon.Add(-time.Hour), Base: backup.Snapshot{Kind: backup.Full, LastRevision: 999, Created: noon, Compression: backup.None}}
	bucket.keys = append(bucket.keys, "kept/hold."+hold.String())
	n := bucket.collects(t, clock, machine.Patience(), logr.Discard())
	due := clock.Now().Add(time.Hour)
	n.config.CollectionPeriod, n.collectionDue = time.Hour, due

	n.removeExpired(t.Context())
	g.Expect(bucket.asked).To(HaveLen(60), "a minute, in which each takes a second")
	g.Expect(bucket.keys).NotTo(ContainElement(HavePrefix("kept/")), "holds end nevertheless")
	g.Expect(n.collectionDue).To(Equal(due), "nothing could be removed")
	for range 2 {
		n.removeExpired(t.Context())
	}
	g.Expect(bucket.asked).To(HaveLen(180))
	g.Expect(bucket.removed).To(ContainElement(HavePrefix("Full-00000000-00000180-")))
	g.Expect(n.collectionDue).To(Equal(clock.Now().Add(time.Minute)), "more can be removed")
	n.collectionDue = due
	for range 2 {
		n.removeExpired(t.Context())
	}
	g.Expect(bucket.keys).To(HaveLen(151), "the newest, and those that are locked")
	asked := slices.Sorted(slices.Values(bucket.asked))
	g.Expect(slices.Compact(asked)).To(HaveLen(300), "each once")
	n.collectionDue = due
	n.removeExpired(t.Context())
	g.Expect(bucket.asked).To(HaveLen(300))
	g.Expect(n.collectionDue).To(Equal(due))

	bucket.minutes(302, 402)
	for _, first := range []int64{1, 31} {
		bucket.asked = nil
		clock.Step(24 * time.Hour)
		n.removeExpired(t.Context())
		var revisions []int64
		for _, name := range bucket.asked {
			revisions = append(revisions, revision(name))
		}
		slices.Sort(revisions)
		g.Expect(revisions).To(HaveLen(60))
		g.Expect([]int64{revisions[0], revisions[29]}).To(Equal([]int64{first, first + 29}), "those refused longest ago")
		g.Expect([]int64{revisions[30], revisions[59]}).To(Equal([]int64{first + 300, first + 329}), "and what was never refused")
	}
	g.Expect(n.unremoved).To(HaveLen(150))
	bucket.keys = slices.DeleteFunc(bucket.keys, func(key string) bool { return revision(key) <= 150 })
	n.removeExpired(t.Context())
	g.Expect(n.unremoved).To(BeEmpty(), "what was removed by others is forgotten")
}

// A store that refuses to list says nothing of an object: the collection ends, and the next one removes it.
func TestACollectionThatCannotList(t *testing.T) {
	lists := 0
	for name, forbids := range map[string]func(prefix string) bool{
		"the chunks of the oldest":     func(prefix string) bool { return revision(strings.TrimSuffix(prefix, "/")) == 1 },
		"the signatures of the oldest": func(prefix string) bool { return strings.HasPrefix(prefix, "signatures/sig.Full-00000000-00000001-") },
		"what is kept, after the first time": func(prefix string) bool {
			if prefix == "kept/" {
				lists++
			}
			return prefix == "kept/" && lists > 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bucket := &locking{forbids: forbids}
			bucket.minutes(1, 5)
			n := bucket.collects(t, testingclock.NewFakeClock(noon.Add(time.Hour)), machine.Patience(), logr.Discard())
			n.removeExpired(t.Context())
			g.Expect(bucket.asked).To(BeEmpty())
			bucket.forbids = nil
			n.removeExpired(t.Context())
			g.Expect(bucket.keys).To(HaveLen(1))
		})
	}
}

// A snapshot whose object is gone is gone, also if what another tool has left beside it is locked. That does not end the collection.
func TestACollectionBesideLockedLeftovers(t *testing.T) {
	g := NewWithT(t)
	bucket := &locking{locks: func(key string) bool { return strings.HasSuffix(key, "/chunk-1") }}
	bucket.minutes(1, 13)
	for _, key := range slices.Clone(bucket.keys) {
		bucket.keys = append(bucket.keys, key+"/chunk-1")
	}
	n := bucket.collects(t, testingclock.NewFakeClock(noon.Add(time.Hour)), machine.Patience(), logr.Discard())
	n.removeExpired(t.Context())
	g.Expect(bucket.keys).To(HaveLen(1 + 13))
	g.Expect(states(n.Snapshotter)).To(HaveLen(1), "what is left can be restored")
}

// Retention removes nothing that anything it keeps needs, so neither the order of removals matters, nor what a bucket refuses, nor when a collection ends:
// after each removal, the newest snapshots are the same, and each state that only kept snapshots lead to is restored by them.
func TestTheOrderOfRemovalsDoesNotMatter(t *testing.T) {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	now := start.Add(time.Hour)
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			g, random := NewWithT(t), rand.New(rand.NewPCG(seed, 119))
			var all []backup.Snapshot
			for i := range int64(60) {
				s := backup.Snapshot{Kind: backup.Delta, StartRevision: 2*i + 1, LastRevision: 2*i + 2, Created: start.Add(time.Duration(i) * time.Minute), Compression: backup.None}
				if i%5 == 0 {
					s.Kind, s.StartRevision = backup.Full, 0
				}
				all = append(all, s)
			}
			retention := backup.Retention{Limit: 3, Deltas: time.Duration(random.IntN(40)) * time.Minute}
			expired := retention.ExpiredTrusted(all, backup.TrustAll, now)
			without := func(gone func(backup.Snapshot) bool) []backup.Snapshot {
				return slices.DeleteFunc(slices.Clone(all), gone)
			}
			kept := without(func(s backup.Snapshot) bool { return slices.Contains(expired, s) })
			newest, err := backup.Newest(kept)
			g.Expect(err).NotTo(HaveOccurred())
			held, young := random.Int64N(40), 60+random.Int64N(60)
			bucket := &locking{locks: func(key string) bool {
				r := revision(key)
				return r > 0 && (r < held || r > young || random.IntN(6) == 0)
			}}
			for _, s := range all {
				bucket.has(s)
			}
			o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: time.Minute, Retention: retention}
			s, err := New(Config{Options: o, Etcd: at{120}, Store: bucket.open(t, ""), Clock: testingclock.NewFakeClock(now), Log: logr.Discard()})
			g.Expect(err).NotTo(HaveOccurred())
			(&session{Snapshotter: s, leases: map[int64]int64{}}).remove(t.Context(), expired, map[string]bool{})
			g.Expect(bucket.removed).NotTo(BeEmpty())
			for i := range bucket.removed {
				left := without(func(s backup.Snapshot) bool { return slices.Contains(bucket.removed[:i+1], s.Name()) })
				g.Expect(backup.Newest(left)).To(Equal(newest))
				for revision := int64(1); revision <= 120; revision++ {
					want, none := backup.Target{Revision: revision}.Choose(kept)
					if none == nil {
						got, err := backup.Target{Revision: revision}.Choose(left)
						g.Expect(err).NotTo(HaveOccurred(), "revision %d", revision)
						g.Expect(got[0]).To(Equal(want[0]), "revision %d", revision)
					}
				}
			}
		})
	}
}

// A collection takes no longer than a snapshot may: none is taken while it lasts. The store is asked for nothing more, and there is one error.
func TestACollectionEndsBesideAStoreThatHangs(t *testing.T) {
	g := machine.Gomega(t)
	bucket := &locking{hangs: func(r *http.Request) bool { return r.Method == http.MethodDelete }}
	bucket.minutes(1, 3)
	var failures atomic.Int32
	log := logr.New(counting{&failures})
	n := bucket.collects(t, testingclock.NewFakeClock(noon.Add(time.Hour)), machine.Scaled(200*time.Millisecond), log)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		n.removeExpired(ctx)
		close(ended)
	}()
	g.Eventually(ended).Should(BeClosed())
	g.Expect(ctx.Err()).NotTo(HaveOccurred())
	g.Expect(bucket.keys).To(HaveLen(3))
	g.Expect(failures.Load()).To(Equal(int32(1)))
}

// counting counts errors that are logged.
type counting struct{ errors *atomic.Int32 }

func (counting) Init(logr.RuntimeInfo)            {}
func (counting) Enabled(int) bool                 { return true }
func (counting) Info(int, string, ...any)         {}
func (c counting) Error(error, string, ...any)    { c.errors.Add(1) }
func (c counting) WithValues(...any) logr.LogSink { return c }
func (c counting) WithName(string) logr.LogSink   { return c }
