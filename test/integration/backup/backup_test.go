// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// world returns the readable state of an etcd: the revision, and every key with its revisions.
func world(g Gomega, e *etcd) (revision int64, keys []string) {
	r, err := e.Get(context.Background(), "", clientv3.WithPrefix())
	g.Expect(err).NotTo(HaveOccurred())
	for _, kv := range r.Kvs {
		keys = append(keys, fmt.Sprintf("%q=%q created %d modified %d version %d lease %d", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease))
	}
	return r.Header.Revision, keys
}

func put(g Gomega, e *etcd, prefix string, n int) {
	for i := range n {
		_, err := e.Put(context.Background(), fmt.Sprintf("%s%d", prefix, i%7), strings.Repeat("v", i))
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// A restore brings back every kind of change to keys: the revisions that clients know, the history, leases.
func TestRestoreIsComplete(t *testing.T) {
	t.Parallel()
	for _, compression := range []backup.Compression{backup.None, backup.Gzip, backup.LZW, backup.Zlib} {
		t.Run(string(compression), func(t *testing.T) {
			g := NewWithT(t)
			ctx := t.Context()
			e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
			lease, err := e.Grant(ctx, 3600)
			g.Expect(err).NotTo(HaveOccurred())
			put(g, e, "before", 20)
			s := folder(t)
			o := options()
			o.Compression = compression
			r := run(t, e, s, o)
			full := r.begin(g)

			put(g, e, "after", 20)
			_, err = e.Put(ctx, "leased", "1", clientv3.WithLease(lease.ID))
			g.Expect(err).NotTo(HaveOccurred())
			_, err = e.Txn(ctx).Then(clientv3.OpPut("a", "1"), clientv3.OpDelete("before1"), clientv3.OpPut("b", "\x00\xff"), clientv3.OpDelete("after", clientv3.WithPrefix())).Commit()
			g.Expect(err).NotTo(HaveOccurred())
			first, err := r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(first.StartRevision).To(Equal(full.LastRevision + 1))
			nothing, err := r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(nothing).To(BeNil(), "no delta without events")
			put(g, e, "later", 5)
			expireLeaseWithManyKeys(g, e)
			_, err = r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())

			revision, keys := world(g, e)
			again, result := restored(t, s)
			g.Expect(result.Revision).To(Equal(revision))
			gotRevision, gotKeys := world(g, again)
			g.Expect(gotKeys).To(Equal(keys))
			g.Expect(gotRevision).To(Equal(revision))
			old, err := again.Get(ctx, "before1", clientv3.WithRev(full.LastRevision))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(old.Kvs).To(HaveLen(1), "the history is restored")
			g.Expect(hashOf(g, again)).To(Equal(hashOf(g, e)), "etcd's own checksum of keys and history")
			put(g, again, "new", 3)
		})
	}
}

// expireLeaseWithManyKeys creates one revision with more changes than a transaction may have.
func expireLeaseWithManyKeys(g Gomega, e *etcd) {
	ctx := context.Background()
	lease, err := e.Grant(ctx, 3600)
	g.Expect(err).NotTo(HaveOccurred())
	for i := range 300 {
		_, err := e.Put(ctx, fmt.Sprintf("many%d", i), "x", clientv3.WithLease(lease.ID))
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err = e.Revoke(ctx, lease.ID)
	g.Expect(err).NotTo(HaveOccurred())
}

func hashOf(g Gomega, e *etcd) uint32 {
	r, err := e.HashKV(context.Background(), e.Endpoints()[0], 0)
	g.Expect(err).NotTo(HaveOccurred())
	return r.Hash
}

// A lease granted after the full snapshot is restored with its keys: a client keeps it alive, or the keys expire.
func TestLeasesOfDeltas(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 5)
	s := folder(t)
	r := run(t, e, s, options())
	r.begin(g)
	const long, short = 3600, 3
	for key, ttl := range map[string]int64{"kept": long, "left": short} {
		lease, err := e.Grant(ctx, ttl)
		g.Expect(err).NotTo(HaveOccurred())
		for range 2 {
			_, err = e.Put(ctx, key, "1", clientv3.WithLease(lease.ID))
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	_, err := r.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.None, Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())

	again, _ := restored(t, s)
	kept, err := again.Get(ctx, "kept")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept.Kvs).To(HaveLen(1))
	alive, err := again.KeepAliveOnce(ctx, clientv3.LeaseID(kept.Kvs[0].Lease))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(alive.TTL).To(BeEquivalentTo(long))
	g.Eventually(func(g Gomega) {
		left, err := again.Get(ctx, "left")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left.Kvs).To(BeEmpty())
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// A request during a snapshot returns that snapshot.
func TestConcurrentRequestsShareASnapshot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 5)
	s := folder(t)
	r := run(t, e, s, options())
	r.begin(g)

	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Full(impatient, false)
	g.Expect(err).To(MatchError(context.Canceled))
	names := make([]string, 20)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			snapshot, err := r.Full(t.Context(), i%2 == 1)
			g.Expect(err).NotTo(HaveOccurred())
			names[i] = snapshot.Name()
		})
	}
	all.Wait()
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(list)).To(BeNumerically("<", 20))
	for i, name := range names {
		g.Expect(strings.HasSuffix(name, ".final")).To(Equal(i%2 == 1), "of the kind that was asked for")
	}
}

func TestOnlyTheLeaderTakesSnapshots(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 5)
	s := folder(t)
	r := run(t, e, s, options())
	r.begin(g)
	r.stop()
	_, err := r.Full(t.Context(), false)
	g.Expect(err).To(MatchError(ContainSubstring("is not the leader")))
	put(g, e, "meanwhile", 5)

	// The next leader continues from the newest snapshot in the store, without another full snapshot.
	next := run(t, e, s, options())
	g.Eventually(func() error { _, err := next.Delta(t.Context()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	chain, err := next.Latest(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	revision, _ := world(g, e)
	g.Expect(chain.LastRevision()).To(Equal(revision))
	g.Expect(chain.Deltas).NotTo(BeEmpty())
	_, result := restored(t, s)
	g.Expect(result.Revision).To(Equal(revision))
}

func TestDeltasByPeriodAndByLimit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 5)
	s := folder(t)
	o := options()
	o.DeltaPeriod, o.DeltaLimit = time.Second, 100
	r := run(t, e, s, o)
	r.begin(g)
	g.Consistently(func(g Gomega) {
		chain, err := r.Latest(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(chain.Deltas).To(BeEmpty(), "nothing has happened")
	}).WithTimeout(1500 * time.Millisecond).Should(Succeed())
	put(g, e, "k", 50)
	revision, _ := world(g, e)
	g.Eventually(func(g Gomega) {
		chain, err := r.Latest(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(chain.LastRevision()).To(Equal(revision))
		g.Expect(len(chain.Deltas)).To(BeNumerically(">", 1), "one delta each time the limit was reached")
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// No delta can have events that etcd compacted since the last snapshot: a full snapshot follows automatically.
func TestCompactedEventsCauseAFullSnapshot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 5)
	s := folder(t)
	r := run(t, e, s, options())
	r.begin(g)
	r.stop()
	put(g, e, "k", 50)
	revision, keys := world(g, e)
	_, err := e.Compact(t.Context(), revision)
	g.Expect(err).NotTo(HaveOccurred())
	next := run(t, e, s, options())
	g.Eventually(func(g Gomega) {
		chain, err := next.Latest(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(chain.Full.LastRevision).To(Equal(revision))
	}).WithTimeout(machine.Patience()).Should(Succeed())
	again, _ := restored(t, s)
	_, got := world(g, again)
	g.Expect(got).To(Equal(keys))
}

// After a restore of an older state, revisions start over: the newest snapshots in the store have another history.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := folder(t)
	first := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, first, "k", 50)
	r := run(t, first, s, options())
	r.begin(g)
	r.stop()
	second := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, second, "other", 5)
	next := run(t, second, s, options())
	g.Eventually(func() error { _, err := next.Delta(t.Context()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	again, _ := restored(t, s)
	_, want := world(g, second)
	_, got := world(g, again)
	g.Expect(got).To(Equal(want))
}

func TestCompaction(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 100)
	s := folder(t)
	r := run(t, e, s, options())
	r.begin(g)
	put(g, e, "k", 100)
	_, err := r.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	before, keys := world(g, e)
	work := t.TempDir()

	// Deltas taken during the compaction still follow it.
	list, err := s.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	put(g, e, "meanwhile", 3)
	_, err = r.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	late, err := s.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	hidden := hide(t, s, late[len(list):])
	result, err := restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: work, Compression: backup.Zlib, Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Snapshot.LastRevision).To(Equal(before))
	g.Expect(result.BytesAfter).To(BeNumerically("<", result.BytesBefore))
	g.Expect(os.ReadDir(work)).To(BeEmpty())

	again, used := restored(t, s)
	g.Expect(used.Chain.Full.Name()).To(Equal(result.Snapshot.Name()))
	g.Expect(used.Chain.Deltas).To(BeEmpty())
	revision, got := world(g, again)
	g.Expect(got).To(Equal(keys))
	g.Expect(revision).To(Equal(before))
	hidden()
	again, used = restored(t, s)
	g.Expect(used.Chain.Full.Name()).To(Equal(result.Snapshot.Name()))
	_, keys = world(g, e)
	_, got = world(g, again)
	g.Expect(got).To(Equal(keys))
}

// hide moves objects out of a folder and returns a function that moves them back.
func hide(t *testing.T, s *store.Store, snapshots []backup.Snapshot) (back func()) {
	t.Helper()
	saved := t.TempDir()
	dir := dirOf(s)
	move := func(from, to string) {
		for _, snapshot := range snapshots {
			if err := os.Rename(filepath.Join(from, snapshot.Name()), filepath.Join(to, snapshot.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	move(dir, saved)
	return func() { move(saved, dir) }
}

// dirOf returns the folder with the objects of a Local store.
func dirOf(s *store.Store) string {
	var container, prefix string
	if _, err := fmt.Sscanf(strings.ReplaceAll(s.String(), ",", ""), "Local container %s prefix %s", &container, &prefix); err != nil {
		panic(err)
	}
	return filepath.Join(container, prefix, backup.LayoutVersion)
}

func TestCorruptBackupsAreNotRestored(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	s := folder(t)
	put(g, e, "k", 10)
	r := run(t, e, s, options())
	r.begin(g)
	put(g, e, "k", 10)
	first, err := r.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	newest, err := r.Full(ctx, false)
	g.Expect(err).NotTo(HaveOccurred())
	put(g, e, "k", 10)
	delta, err := r.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	_, keys := world(g, e)

	// A corrupt full snapshot is skipped if the previous one leads to the same revision.
	alter(t, filepath.Join(dirOf(s), newest.Name()))
	again, result := restored(t, s)
	g.Expect(result.Chain.Full.Name()).NotTo(Equal(newest.Name()))
	_, got := world(g, again)
	g.Expect(got).To(Equal(keys))

	alter(t, filepath.Join(dirOf(s), delta.Name()))
	dir := filepath.Join(t.TempDir(), "new.etcd")
	_, err = restoreTo(t, s, dir)
	var corrupt *backup.CorruptError
	g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%v", err)
	g.Expect(corrupt.Name).To(Equal(delta.Name()))
	g.Expect(dir).NotTo(BeADirectory())
	g.Expect(dir + ".restoring").NotTo(BeADirectory())

	g.Expect(s.Delete(ctx, *first)).To(Succeed())
	g.Expect(s.Delete(ctx, *delta)).To(Succeed())
	_, err = restoreTo(t, s, dir)
	g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%v", err)
	g.Expect(corrupt.Name).To(Equal(newest.Name()), "the previous full snapshot no longer leads to that revision")
}

// A full snapshot that holds consistent pages, but no database of etcd, is skipped like any other corrupt one.
func TestWhatIsNoDatabaseOfEtcdIsSkipped(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	s := folder(t)
	put(g, e, "k", 10)
	r := run(t, e, s, options())
	r.begin(g)
	put(g, e, "k", 10)
	_, err := r.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	newest, err := r.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	_, keys := world(g, e)

	file := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(file, 0o600, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.Close()).To(Succeed())
	g.Expect(s.Delete(t.Context(), newest)).To(Succeed())
	_, err = s.WriteDatabase(t.Context(), file, newest)
	g.Expect(err).NotTo(HaveOccurred())

	again, result := restored(t, s)
	g.Expect(result.Chain.Full.Name()).NotTo(Equal(newest.Name()))
	_, got := world(g, again)
	g.Expect(got).To(Equal(keys))
	_, err = restore.Compact(t.Context(), restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.None, Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
}

// alter changes a byte in the middle of a file.
func alter(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreIsRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := folder(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	_, err := restoreTo(t, s, dir)
	g.Expect(err).To(MatchError(backup.ErrNoFull))
	g.Expect(os.MkdirAll(filepath.Join(dir, "member"), 0o700)).To(Succeed())
	_, err = restoreTo(t, s, dir)
	g.Expect(err).To(MatchError(ContainSubstring("it must be empty")))
	g.Expect(filepath.Join(dir, "member")).To(BeADirectory(), "data was removed")
}
