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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"
)

// locking is a bucket that refuses to remove what it locks.
type locking struct {
	mu      sync.Mutex
	names   []string
	locks   func(name string) bool
	refused int
	// removed are the names of what it has removed.
	removed []string
	// status is what it answers to such a request.
	status int
	// hangs: it does not answer a removal at all.
	hangs bool
}

func (l *locking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.hangs && r.Method == http.MethodDelete {
		<-r.Context().Done()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name := path.Base(r.URL.Path)
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case r.Method == http.MethodDelete && l.locks(name):
		l.refused++
		w.WriteHeader(l.status)
	case r.Method == http.MethodDelete:
		l.names = slices.DeleteFunc(l.names, func(n string) bool { return n == name })
		l.removed = append(l.removed, name)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		var list strings.Builder
		for _, n := range l.names {
			if key := "a/v2/" + n; strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				fmt.Fprintf(&list, "<Contents><Key>%s</Key><Size>1</Size><LastModified>2026-11-20T00:00:00Z</LastModified></Contents>", key)
			}
		}
		_, _ = fmt.Fprintf(w, "<ListBucketResult>%s</ListBucketResult>", list.String())
	}
}

// open returns the store of the bucket.
func (l *locking) open(t *testing.T) *store.Store {
	g := NewWithT(t)
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	credentials := t.TempDir()
	for key, value := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"} {
		g.Expect(os.WriteFile(filepath.Join(credentials, key), []byte(value), 0o600)).To(Succeed())
	}
	to, err := store.Open(t.Context(), store.Config{Provider: store.S3, Container: "bucket", Prefix: "a", Credentials: credentials})
	g.Expect(err).NotTo(HaveOccurred())
	return to
}

// A bucket that locks objects for some days refuses to remove the younger ones; a legal hold, or an earlier lock that lasts longer, older ones: all others
// that retention does not keep are removed nevertheless. A store that answers something else is asked once, and one that refuses all not for each.
func TestACollectionBesideLockedObjects(t *testing.T) {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	between := func(first, last int64) func(int64) bool {
		return func(revision int64) bool { return first <= revision && revision <= last }
	}
	both := func(a, b func(int64) bool) func(int64) bool { return func(r int64) bool { return a(r) || b(r) } }
	none, all := between(0, 0), between(0, 1000)
	for name, c := range map[string]struct {
		status, objects, refused, left int
		locks                          func(revision int64) bool
	}{
		"no lock":                            {objects: 40, locks: none, left: 1},
		"locked by age":                      {objects: 40, locks: between(21, 40), left: 20, refused: 19},
		"by Azure":                           {status: http.StatusConflict, objects: 40, locks: between(21, 40), left: 20, refused: 19},
		"and one for longer":                 {objects: 40, locks: both(between(3, 3), between(21, 40)), left: 21, refused: 20},
		"the oldest by a legal hold":         {objects: 40, locks: between(1, 10), left: 11, refused: 10},
		"more of them":                       {objects: 100, locks: between(1, 50), left: 51, refused: 4 * maxRefused},
		"the oldest, and others by age":      {objects: 140, locks: both(between(1, 30), between(101, 140)), left: 70, refused: 5 * maxRefused},
		"less between two locks than before": {objects: 140, locks: both(between(1, 70), between(111, 140)), left: 140, refused: 6 * maxRefused},
		"all":                                {objects: 140, locks: all, left: 140, refused: 6 * maxRefused},
		"the store cannot remove any":        {status: http.StatusNotImplemented, objects: 40, locks: all, left: 40, refused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bucket := &locking{status: cmp.Or(c.status, http.StatusForbidden)}
			for i := range c.objects {
				s := backup.Snapshot{Kind: backup.Full, LastRevision: int64(i + 1), Created: start.Add(time.Duration(i) * time.Minute), Compression: backup.None}
				bucket.names = append(bucket.names, s.Name())
			}
			bucket.locks = func(name string) bool {
				s, err := backup.ParseName(name)
				return err == nil && c.locks(s.LastRevision)
			}
			o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: time.Minute, Retention: backup.Retention{Limit: 1}}
			s, err := New(Config{Options: o, Etcd: at{40}, Store: bucket.open(t), Clock: testingclock.NewFakeClock(start.Add(6 * time.Hour)), Log: logr.Discard()})
			g.Expect(err).NotTo(HaveOccurred())
			(&session{Snapshotter: s, leases: map[int64]int64{}}).removeExpired(t.Context())
			g.Expect(len(bucket.names)).To(Equal(c.left))
			g.Expect(bucket.refused).To(Equal(c.refused))
			g.Expect(len(states(s))).To(Equal(c.left), "what is left can be restored")
		})
	}
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
			bucket := &locking{status: http.StatusForbidden, locks: func(name string) bool {
				s, err := backup.ParseName(name)
				return err == nil && (s.LastRevision < held || s.LastRevision > young || random.IntN(6) == 0)
			}}
			for _, s := range all {
				bucket.names = append(bucket.names, s.Name())
			}
			o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: time.Minute, Retention: retention}
			s, err := New(Config{Options: o, Etcd: at{120}, Store: bucket.open(t), Clock: testingclock.NewFakeClock(now), Log: logr.Discard()})
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

// A collection takes no longer than a snapshot may: none is taken while it lasts.
func TestACollectionEndsBesideAStoreThatHangs(t *testing.T) {
	g := machine.Gomega(t)
	bucket := &locking{hangs: true, locks: func(string) bool { return false }}
	for i := range 3 {
		bucket.names = append(bucket.names, backup.Snapshot{Kind: backup.Full, LastRevision: int64(i + 1), Created: noon.Add(time.Duration(i) * time.Minute), Compression: backup.None}.Name())
	}
	o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: machine.Scaled(200 * time.Millisecond), Retention: backup.Retention{Limit: 1}}
	s, err := New(Config{Options: o, Etcd: at{3}, Store: bucket.open(t), Clock: testingclock.NewFakeClock(noon.Add(time.Hour)), Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		(&session{Snapshotter: s, leases: map[int64]int64{}}).removeExpired(ctx)
		close(ended)
	}()
	g.Eventually(ended).Should(BeClosed())
	g.Expect(ctx.Err()).NotTo(HaveOccurred())
	g.Expect(bucket.names).To(HaveLen(3))
}
