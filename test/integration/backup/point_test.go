// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
	testingclock "k8s.io/utils/clock/testing"
)

// previewed returns the preview of a restore to a target.
func previewed(t *testing.T, s *store.Store, target backup.Target, changes ...func(*restore.PreviewConfig)) backup.Preview {
	t.Helper()
	config := restore.PreviewConfig{Store: s, WorkDir: t.TempDir(), Target: target, EtcdUID: "uid", ClusterID: "cafe", Log: logOf(t)}
	for _, change := range changes {
		change(&config)
	}
	p, err := restore.Preview(t.Context(), config)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return p
}

// pointOf returns what a member restores of a preview.
func pointOf(p backup.Preview) *restore.Point {
	return &restore.Point{Base: p.Base, Revision: p.Revision, Hash: p.Hash, Bytes: p.Bytes}
}

// restorePoint restores an earlier state into a new data directory.
func restorePoint(t *testing.T, s *store.Store, p *restore.Point, bump int64) (dir string, err error) {
	dir = filepath.Join(t.TempDir(), "new.etcd")
	_, err = restore.Restore(t.Context(), restore.Config{
		Store: s, DataDir: dir, Member: memberName, PeerURL: peerURL, InitialCluster: memberName + "=" + peerURL, Token: "token", Point: p, Bump: bump, Log: logOf(t),
	})
	return dir, err
}

// workload changes keys in every way that etcd has. Deltas and full snapshots are taken in between.
func workload(t *testing.T, e *etcd, r *snapshots, random *rand.Rand, operations int, before func()) (ttls map[clientv3.LeaseID]int64) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	ttls = map[clientv3.LeaseID]int64{}
	key := func() string { return fmt.Sprintf("/registry/kind-%d/name-%d", random.IntN(3), random.IntN(20)) }
	leases := func() []clientv3.LeaseID { return slices.Sorted(maps.Keys(ttls)) }
	alive := []clientv3.LeaseID{}
	for i := range operations {
		before()
		var err error
		switch n := random.IntN(20); {
		case n < 9:
			_, err = e.Put(ctx, key(), fmt.Sprint(i))
		case n < 12:
			_, err = e.Delete(ctx, key())
		case n < 15:
			_, err = e.Txn(ctx).Then(clientv3.OpPut("a", fmt.Sprint(i)), clientv3.OpPut(fmt.Sprintf("/registry/kind-0/txn-%d", i%5), "t"), clientv3.OpDelete("/registry/kind-1/name-1", clientv3.WithPrefix())).Commit()
		case n < 16 || len(alive) == 0:
			ttl := 1000 + int64(len(leases()))
			var lease *clientv3.LeaseGrantResponse
			if lease, err = e.Grant(ctx, ttl); err == nil {
				ttls[lease.ID] = ttl
				alive = append(alive, lease.ID)
			}
		case n < 19:
			_, err = e.Put(ctx, key(), fmt.Sprint(i), clientv3.WithLease(alive[random.IntN(len(alive))]))
		default:
			// The TTL of a lease is known only as long as it lives.
			_, err = r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = e.Revoke(ctx, alive[0])
			alive = alive[1:]
		}
		g.Expect(err).NotTo(HaveOccurred())
		if i%17 == 16 {
			_, err = r.Delta(ctx)
		} else if i%90 == 89 {
			_, err = r.Full(ctx, false)
		}
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := r.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return ttls
}

// seenIn returns when the first event of each revision was seen, as the deltas of a store say.
func seenIn(t *testing.T, s *store.Store) map[int64]time.Time {
	t.Helper()
	g, seen := NewWithT(t), map[int64]time.Time{}
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for _, snapshot := range list {
		if snapshot.Kind == backup.Full {
			continue
		}
		object, err := s.Reader(t.Context(), snapshot)
		g.Expect(err).NotTo(HaveOccurred())
		content, err := backup.NewReader(snapshot, object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(backup.ReadDelta(content, func(e backup.Event) error {
			if at := e.EtcdEvent.Kv.ModRevision; seen[at].IsZero() {
				seen[at] = e.Time
			}
			return nil
		})).To(Succeed())
		g.Expect(object.Close()).To(Succeed())
	}
	return seen
}

var targets = flag.Int("targets", 100, "how many targets of a recorded history are restored")

// newestIn returns the time in the name of the newest snapshot of a store.
func newestIn(t *testing.T, s *store.Store) time.Time {
	t.Helper()
	list, err := s.List(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return slices.MaxFunc(list, func(a, b backup.Snapshot) int { return a.Created.Compare(b.Created) }).Created
}

// Any revision, and any time, of a recorded history is restored as the cluster had it: etcd's checksum over keys, values, leases, versions and
// history at that revision is the same. A member that restores some of them serves exactly the keys and leases of then.
func TestAnyTargetIsRestoredExactly(t *testing.T) {
	t.Parallel()
	g, random := NewWithT(t), rand.New(rand.NewPCG(34, uint64(time.Now().UnixNano())))
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "before", 5)
	s := folder(t)
	clock := testingclock.NewFakeClock(time.Now())
	r := run(t, e, s, options(), func(c *snapshotter.Config) { c.Clock = clock })
	first := r.begin(g).LastRevision
	ttls := workload(t, e, r, random, 400, func() { clock.SetTime(clock.Now().Add(time.Duration(random.Int64N(int64(5 * time.Second))))) })
	last, _ := world(g, e)
	seen, newest := seenIn(t, s), newestIn(t, s)
	for i := range *targets {
		target := backup.Target{Revision: first + random.Int64N(last-first+1)}
		want := target.Revision
		if i%4 == 3 {
			// The last revision that was seen before the first one that was seen later.
			target = backup.Target{Time: seen[first+1+random.Int64N(last-first)].Add(time.Duration(random.Int64N(int64(time.Second))))}
			for want = first; want < last && !seen[want+1].After(target.Time); want++ {
			}
		}
		p := previewed(t, s, target)
		if p.Refused != nil && target.Time.After(newest) {
			continue // The name of the newest snapshot has whole seconds: nothing says that there is no event later in its second.
		}
		g.Expect(p.Refused).To(BeNil(), "%s", target)
		g.Expect(p.Revision).To(Equal(want), "%s", target)
		hash, err := e.HashKV(t.Context(), e.Endpoints()[0], p.Revision)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.Hash).To(Equal(hash.Hash), "%s", target)
		then, err := e.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(p.Revision))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.Keys).To(Equal(then.Count), "%s", target)
		g.Expect(p.End.Revision).To(Equal(last))
		g.Expect(p.Lost).To(Equal(last - p.Revision))
		expectChanges(g, e, p)
		expectLeases(t, s, p, then.Kvs, ttls)
		if i%40 == 0 {
			expectServed(t, s, e, p, ttls)
		}
	}
}

// expectLeases expects that a data directory that is restored has the leases of the keys of then, with the TTLs that were granted.
func expectLeases(t *testing.T, s *store.Store, p backup.Preview, keys []*mvccpb.KeyValue, ttls map[clientv3.LeaseID]int64) {
	t.Helper()
	g := NewWithT(t)
	dir, err := restorePoint(t, s, pointOf(p), 1)
	g.Expect(err).NotTo(HaveOccurred())
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, &bolt.Options{ReadOnly: true})
	g.Expect(err).NotTo(HaveOccurred())
	granted := map[int64]int64{}
	g.Expect(db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(schema.Lease.Name()).ForEach(func(_, v []byte) error {
			l := &leasepb.Lease{}
			if err := proto.Unmarshal(v, l); err != nil {
				return err
			}
			granted[l.GetID()] = l.GetTTL()
			return nil
		})
	})).To(Succeed())
	g.Expect(db.Close()).To(Succeed())
	for _, kv := range keys {
		if kv.Lease != 0 {
			g.Expect(granted).To(HaveKeyWithValue(kv.Lease, ttls[clientv3.LeaseID(kv.Lease)]), "of %s at revision %d", kv.Key, p.Revision)
		}
	}
	g.Expect(os.RemoveAll(dir)).To(Succeed())
}

// expectChanges expects that a preview has the number of keys that differ between its revision and now.
func expectChanges(g Gomega, e *etcd, p backup.Preview) {
	at := func(revision int64) map[string]string {
		keys := map[string]string{}
		r, err := e.Get(context.Background(), "", clientv3.WithPrefix(), clientv3.WithRev(revision))
		g.Expect(err).NotTo(HaveOccurred())
		for _, kv := range r.Kvs {
			keys[string(kv.Key)] = string(kv.Value)
		}
		return keys
	}
	then, now, want := at(p.Revision), at(0), backup.Changes{}
	for key, value := range then {
		if is, ok := now[key]; !ok {
			want.Back++
		} else if is != value {
			want.Changed++
		}
	}
	for key := range now {
		if _, ok := then[key]; !ok {
			want.Gone++
		}
	}
	g.Expect(p.Changes).To(Equal(want))
	sum := backup.Changes{}
	for _, prefix := range p.Prefixes {
		sum.Back, sum.Changed, sum.Gone = sum.Back+prefix.Back, sum.Changed+prefix.Changed, sum.Gone+prefix.Gone
	}
	g.Expect(sum).To(Equal(want), "%v", p.Prefixes)
}

// expectServed expects that a member that restores what was previewed has the keys and leases of then, above all revisions, and that what was
// before is compacted.
func expectServed(t *testing.T, s *store.Store, e *etcd, p backup.Preview, ttls map[clientv3.LeaseID]int64) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	const bump = 5000
	dir, err := restorePoint(t, s, pointOf(p), bump)
	g.Expect(err).NotTo(HaveOccurred())
	again := startEtcd(t, dir)
	defer again.stop()
	then, err := e.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(p.Revision))
	g.Expect(err).NotTo(HaveOccurred())
	got, err := again.Get(ctx, "", clientv3.WithPrefix())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Kvs).To(HaveLen(len(then.Kvs)))
	for i, kv := range then.Kvs {
		g.Expect(got.Kvs[i].String()).To(Equal(kv.String()))
		if kv.Lease != 0 {
			lease, err := again.TimeToLive(ctx, clientv3.LeaseID(kv.Lease))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lease.GrantedTTL).To(Equal(ttls[lease.ID]), "of %s", kv.Key)
		}
	}
	expectRaised(g, again, p.Revision, p.Revision+bump)
}

// expectRaised expects that a member is at a revision, and that everything before it is compacted.
func expectRaised(g Gomega, e *etcd, old, raised int64) {
	ctx := context.Background()
	is, err := e.Get(ctx, "x")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(is.Header.Revision).To(Equal(raised))
	for _, revision := range []int64{1, old, old + 1, raised - 1} {
		_, err := e.Get(ctx, "x", clientv3.WithRev(revision))
		g.Expect(err).To(MatchError(rpctypes.ErrCompacted), "revision %d", revision)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	var told clientv3.WatchResponse
	g.Eventually(e.Watch(watching, "", clientv3.WithPrefix(), clientv3.WithRev(old+1))).WithTimeout(machine.Patience()).Should(Receive(&told))
	g.Expect(told.Err()).To(MatchError(rpctypes.ErrCompacted), "a client that resumes lists again")
	after, err := e.Put(ctx, "x", "y")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.Header.Revision).To(Equal(raised + 1))
}

var allEtcds = flag.Bool("all-etcds", false, "also run etcd 3.6, which has to be built for it: go run ./test/local build etcd-3.6/etcd")

// Members of each release serve with a raised revision, also if it is raised twice; alarms of then are gone; and a backup of it is restored as
// usual, to any revision since.
func TestRaisedRevisions(t *testing.T) {
	t.Parallel()
	programs := []string{"etcd", "etcd-3.5/etcd"}
	if *allEtcds {
		programs = append(programs, "etcd-3.6/etcd")
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			g, ctx := NewWithT(t), t.Context()
			e := startProgram(t, program, filepath.Join(t.TempDir(), "data"))
			put(g, e, "k", 20)
			s := folder(t)
			r := run(t, e, s, options())
			full := r.begin(g)
			put(g, e, "k", 20)
			_, err := r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			status, err := e.Status(ctx, e.Endpoints()[0])
			g.Expect(err).NotTo(HaveOccurred())
			_, err = etcdserverpb.NewMaintenanceClient(e.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
				Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: status.Header.MemberId,
			})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = r.Full(ctx, false)
			g.Expect(err).NotTo(HaveOccurred())
			r.stop()
			p := previewed(t, s, backup.Target{Latest: true})
			g.Expect(p.Alarms).To(ConsistOf(HavePrefix("NOSPACE of member ")))
			revision, keys := world(g, e)
			dir, err := restorePoint(t, s, pointOf(p), 1000)
			g.Expect(err).NotTo(HaveOccurred())
			e.stop()

			e = startProgram(t, program, dir)
			_, got := world(g, e)
			g.Expect(got).To(Equal(keys))
			expectRaised(g, e, revision, revision+1000)
			r = run(t, e, s, options())
			r.begin(g)
			put(g, e, "after", 5)
			_, err = r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			put(g, e, "later", 5)
			_, err = r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			r.stop()
			e.stop()

			p = previewed(t, s, backup.Target{Revision: revision + 1000 + 4})
			g.Expect(p.Refused).To(BeNil())
			dir, err = restorePoint(t, s, pointOf(p), 1000)
			g.Expect(err).NotTo(HaveOccurred())
			e = startProgram(t, program, dir)
			expectRaised(g, e, revision+1004, revision+2004)
			e.stop()

			p = previewed(t, s, backup.Target{Revision: full.LastRevision + 3})
			g.Expect(p.Refused).To(BeNil(), "the branch that was abandoned is kept")
			g.Expect(p.Base).To(Equal(full.Name()))
			p = previewed(t, s, backup.Target{Revision: revision + 500})
			g.Expect(p.Refused).To(HaveField("Code", backup.TargetOutside), "no state was ever there")
		})
	}
}

// history returns a store with a full snapshot, and further ones (F) and deltas of ten revisions (d) as they follow it.
func history(t *testing.T, kinds string) (s *store.Store, taken []backup.Snapshot, e *etcd) {
	t.Helper()
	g := NewWithT(t)
	e = startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 10)
	s = folder(t)
	r := run(t, e, s, options())
	for i, kind := range kinds {
		if i == 0 {
			taken = append(taken, r.begin(g))
			continue
		}
		if kind == 'F' {
			full, err := r.Full(t.Context(), false)
			g.Expect(err).NotTo(HaveOccurred())
			taken = append(taken, full)
			continue
		}
		put(g, e, "k", 10)
		delta, err := r.Delta(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		taken = append(taken, *delta)
	}
	r.stop()
	return s, taken, e
}

// What cannot be restored is refused before anything happens, with what can be.
func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s *store.Store, target backup.Target, code backup.RefusalCode) *backup.Refusal {
		t.Helper()
		p := previewed(t, s, target)
		NewWithT(t).Expect(p.Refused).To(HaveField("Code", code), "%+v", p)
		return p.Refused
	}
	t.Run("a delta is missing in the middle", func(t *testing.T) {
		g := NewWithT(t)
		s, taken, _ := history(t, "FddF")
		g.Expect(s.Delete(t.Context(), taken[1])).To(Succeed())
		r := refused(t, s, backup.Target{Revision: taken[2].LastRevision - 1}, backup.TargetOutside)
		g.Expect(r.Message).To(ContainSubstring("a delta snapshot was lost"))
		g.Expect([]int64{r.Before.Revision, r.After.Revision}).To(Equal([]int64{taken[0].LastRevision, taken[3].LastRevision}))
		_, err := restorePoint(t, s, &restore.Point{Base: taken[0].Name(), Revision: taken[2].LastRevision - 1}, 1)
		g.Expect(err).To(MatchError(ContainSubstring("cannot be restored")), "a member that is told to restore it nevertheless")
	})
	t.Run("a full snapshot is corrupt", func(t *testing.T) {
		g := NewWithT(t)
		s, taken, _ := history(t, "FdFd")
		whole := previewed(t, s, backup.Target{Revision: taken[3].LastRevision - 1})
		g.Expect(whole.Base).To(Equal(taken[2].Name()))
		file, _ := s.File(taken[2])
		alter(t, file)
		r := refused(t, s, backup.Target{Revision: taken[3].LastRevision - 1}, backup.SnapshotCorrupt)
		g.Expect(r.Message).To(ContainSubstring(taken[2].Name()))
		g.Expect(r.Older).To(Equal(taken[0].Name()), "offered, and not taken")
		_, err := restorePoint(t, s, pointOf(whole), 1)
		g.Expect(err).To(MatchError(ContainSubstring("is corrupt")))
		p := previewed(t, s, backup.Target{Revision: taken[3].LastRevision - 1, Base: taken[0].Name()})
		g.Expect(p.Refused).To(BeNil())
		g.Expect(p.Hash).To(Equal(whole.Hash))
		g.Expect(p.Digest).NotTo(Equal(whole.Digest))
		_, err = restorePoint(t, s, pointOf(p), 1)
		g.Expect(err).NotTo(HaveOccurred())
	})
	t.Run("a delta is corrupt", func(t *testing.T) {
		g := NewWithT(t)
		s, taken, _ := history(t, "FFd")
		file, _ := s.File(taken[2])
		alter(t, file)
		g.Expect(refused(t, s, backup.Target{Latest: true}, backup.SnapshotCorrupt).Older).To(BeEmpty(), "no full snapshot leads there without it")
		p := previewed(t, s, backup.Target{Snapshot: taken[1].Name()})
		g.Expect(p.Refused).To(BeNil(), "what is before it can be restored")
		g.Expect(p.NotCompared).To(ContainSubstring(taken[2].Name()))
	})
	t.Run("nothing", func(t *testing.T) {
		refused(t, folder(t), backup.Target{Revision: 5}, backup.NoBackup)
	})
	t.Run("outside", func(t *testing.T) {
		s, taken, _ := history(t, "Fd")
		r := refused(t, s, backup.Target{Revision: 1}, backup.TargetOutside)
		NewWithT(t).Expect(r.After.Revision).To(Equal(taken[0].LastRevision))
		refused(t, s, backup.Target{Time: time.Now().Add(time.Hour)}, backup.TargetOutside)
	})
	t.Run("the store is not what was previewed", func(t *testing.T) {
		g := NewWithT(t)
		s, _, _ := history(t, "Fd")
		p := pointOf(previewed(t, s, backup.Target{Latest: true}))
		p.Hash++
		dir, err := restorePoint(t, s, p, 1)
		g.Expect(err).To(MatchError(ContainSubstring("was previewed")))
		g.Expect(os.ReadDir(filepath.Dir(dir))).To(BeEmpty())
	})
	t.Run("there is no space for two databases and a log", func(t *testing.T) {
		g := NewWithT(t)
		s, _, _ := history(t, "Fd")
		p := pointOf(previewed(t, s, backup.Target{Latest: true}))
		p.Bytes = 1 << 60
		dir, err := restorePoint(t, s, p, 1)
		g.Expect(err).To(MatchError(ContainSubstring("bytes are needed on the volume")))
		g.Expect(os.ReadDir(filepath.Dir(dir))).To(BeEmpty())
	})
}

// A state that the members could not serve with is described, and refused.
func TestStatesThatDoNotFit(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	s, _, e := history(t, "Fd")
	r := run(t, e, s, options())
	r.begin(g)
	for _, do := range []func() error{
		func() error { _, err := e.UserAdd(ctx, "root", "p"); return err },
		func() error { _, err := e.RoleAdd(ctx, "root"); return err },
		func() error { _, err := e.UserGrantRole(ctx, "root", "root"); return err },
	} {
		g.Expect(do()).To(Succeed())
	}
	_, err := r.Full(ctx, false)
	g.Expect(err).NotTo(HaveOccurred())
	with := func(m backup.Members) backup.Preview {
		return previewed(t, s, backup.Target{Latest: true}, func(c *restore.PreviewConfig) { c.Members = m })
	}
	p := with(backup.Members{})
	g.Expect(p.Refused).To(BeNil())
	g.Expect(p.Users).To(Equal(1))
	g.Expect(p.Version).To(MatchRegexp(`^3\.\d+\.\d+$`))
	for code, m := range map[backup.RefusalCode]backup.Members{
		backup.NewerVersion: {Version: "3.4.40"}, backup.OverQuota: {Quota: p.Bytes},
	} {
		does := with(m)
		g.Expect(does.Refused).To(HaveField("Code", code))
		does.Refused = nil
		g.Expect(does).To(Equal(p), "the facts are there")
	}
	_, err = e.AuthEnable(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	r.stop()
	login, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Username: "root", Password: "p"})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = login.Close() }()
	run(t, &etcd{Client: login, process: e.process}, s, options()).begin(g)
	g.Expect(with(backup.Members{}).Refused).To(HaveField("Code", backup.AuthEnabled))
	p = with(backup.Members{AcceptAuth: true})
	g.Expect(p.Refused).To(BeNil())
	g.Expect(p.Auth).To(BeTrue())
}

// After a restore without a raised revision, as by other tools, two histories have the same revisions: each state is restored from its own.
func TestTwoHistoriesWithTheSameRevisions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, taken, _ := history(t, "Fd")
	dir, err := restorePoint(t, s, &restore.Point{Base: taken[0].Name(), Revision: taken[0].LastRevision, Hash: previewed(t, s, backup.Target{Snapshot: taken[0].Name()}).Hash}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	e := startEtcd(t, dir)
	put(g, e, "other", 2)
	r := run(t, e, s, options(), fullFirst)
	full := r.begin(g)
	put(g, e, "other", 3)
	_, err = r.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for _, revision := range []int64{full.LastRevision, full.LastRevision + 2} {
		p := previewed(t, s, backup.Target{Revision: revision})
		g.Expect(p.Base).To(Equal(full.Name()), "the newer history")
		hash, err := e.HashKV(t.Context(), e.Endpoints()[0], revision)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.Hash).To(Equal(hash.Hash))
	}
	old := previewed(t, s, backup.Target{Snapshot: taken[1].Name()})
	g.Expect(old.Base).To(Equal(taken[0].Name()), "the older one, by name")
	g.Expect(old.Deltas).To(Equal(1))
	g.Expect(previewed(t, s, backup.Target{Revision: taken[1].LastRevision})).To(Equal(old), "the older one, by a revision that it alone has")
}

// Writes between reading the revision and the copy are in a full snapshot, and not in its name. If no delta follows, as after the final snapshot of
// a restore, it is restored all the same, and with nothing else.
func TestAFullSnapshotWithMoreThanItsNameSays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, taken, e := history(t, "FF")
	put(g, e, "k", 3)
	full := run(t, e, s, options(), fullFirst).begin(g)
	named := full
	named.LastRevision -= 2
	g.Expect(s.Delete(t.Context(), taken[1])).To(Succeed())
	folder := dirOf(s)
	g.Expect(os.Rename(filepath.Join(folder, full.Name()), filepath.Join(folder, named.Name()))).To(Succeed())
	p := previewed(t, s, backup.Target{Snapshot: named.Name()})
	g.Expect(p.Refused).To(BeNil())
	g.Expect(p.Revision).To(Equal(full.LastRevision), "what it has")
	_, err := restorePoint(t, s, pointOf(p), 1)
	g.Expect(err).NotTo(HaveOccurred())
	more := *pointOf(p)
	more.Revision++
	_, err = restorePoint(t, s, &more, 1)
	g.Expect(err).To(MatchError(ContainSubstring("cannot be restored")))
}

// What is held is kept until the hold is swept, and it is not held if it is not there.
func TestHeldSnapshotsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*store.Store{"folder": folder(t), "S3": startS3(t).store()} {
		t.Run(name, func(t *testing.T) {
			// Snapshots that follow each other quickly are dated ahead.
			g, ctx, now := NewWithT(t), t.Context(), time.Now().Add(time.Hour)
			from, taken, _ := history(t, "FddFdF")
			_, err := copier.Copy(ctx, copier.Config{Source: from, Target: s, Now: now, Log: logOf(t)})
			g.Expect(err).NotTo(HaveOccurred())
			expired := func() (names []string) {
				list, err := s.List(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				for _, snapshot := range (backup.Retention{Limit: 1}).Expired(list, now) {
					names = append(names, snapshot.Name())
				}
				return names
			}
			all := expired()
			for _, snapshot := range taken[:5] {
				g.Expect(all).To(ContainElement(snapshot.Name()))
			}
			held, err := s.Hold(ctx, taken[0].Name(), taken[1].LastRevision-1, now)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(held.Kept).To(BeTrue())
			left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == taken[0].Name() || name == taken[1].Name() })
			g.Expect(expired()).To(ConsistOf(left))
			g.Expect(s.Sweep(ctx, now.Add(-time.Second))).To(Succeed())
			g.Expect(expired()).To(ConsistOf(left))
			g.Expect(s.Sweep(ctx, now.Add(time.Second))).To(Succeed())
			g.Expect(expired()).To(ConsistOf(all))
			_, err = s.Hold(ctx, taken[3].Name(), 0, now)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(expired()).NotTo(ContainElement(taken[3].Name()))
			g.Expect(expired()).To(ContainElement(taken[4].Name()), "the full snapshot alone")

			g.Expect(s.Delete(ctx, taken[1])).To(Succeed())
			_, err = s.Hold(ctx, taken[0].Name(), taken[2].LastRevision, now)
			g.Expect(err).To(MatchError(ContainSubstring("does not have what is to be restored any more")))
			g.Expect(s.Delete(ctx, taken[0])).To(Succeed())
			_, err = s.Hold(ctx, taken[0].Name(), 0, now)
			g.Expect(err).To(HaveOccurred())
		})
	}
}

// A snapshot that is marked is never removed, displaces none, and is restored as any other.
func TestMarkedSnapshotsAreKept(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	s, _, _ := history(t, "FFFF")
	taken, err := s.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.Keep(ctx, "Full-00000000-00000007-7")
	g.Expect(err).To(MatchError(ContainSubstring("has no snapshot Full-00000000-00000007-7")))
	for range 2 {
		kept, err := s.Keep(ctx, taken[0].Name())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kept.Kept).To(BeTrue())
	}
	list, err := s.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	expired := backup.Retention{Limit: 2}.Expired(list, time.Now())
	g.Expect(expired).To(HaveLen(len(taken) - 3))
	g.Expect(expired).NotTo(ContainElement(HaveField("Kept", true)))
	g.Expect(s.Sweep(ctx, time.Now().Add(time.Hour))).To(Succeed())
	list, err = s.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list[0].Kept).To(BeTrue())
	g.Expect(previewed(t, s, backup.Target{Snapshot: taken[0].Name()}).Refused).To(BeNil())

	// A compaction removes nothing, and what it writes displaces nothing that is marked.
	_, err = restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.Gzip, Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
	compacted, err := s.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(compacted).To(HaveLen(len(list) + 1))
	for _, limit := range []int{1, 2} {
		g.Expect(backup.Retention{Limit: limit}.Expired(compacted, time.Now().AddDate(1, 0, 0))).NotTo(ContainElement(HaveField("Kept", true)))
	}
	g.Expect(backup.Retention{}.Expired(compacted, time.Now().AddDate(1, 0, 0))).NotTo(ContainElement(HaveField("Kept", true)))
}

// A preview fits into a termination message, whatever the names of keys are.
func TestPreviewsAreShort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, taken, e := history(t, "F")
	for prefix := range 30 {
		for key := range 10 {
			_, err := e.Put(t.Context(), fmt.Sprintf("/%s%d/%s/%d", strings.Repeat("\x01", 60), prefix, strings.Repeat("<", 100), key), "x")
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	run(t, e, s, options(), fullFirst).begin(g)
	p := previewed(t, s, backup.Target{Snapshot: taken[0].Name()})
	text, err := json.Marshal(p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(text)).To(BeNumerically("<=", 4096))
	g.Expect(p.Changes.Gone).To(BeEquivalentTo(300))
	g.Expect(len(p.Prefixes)).To(BeNumerically(">", 1))
	sum := int64(0)
	for _, prefix := range p.Prefixes {
		sum += prefix.Gone
	}
	g.Expect(sum).To(BeEquivalentTo(300))
}

// A preview that fails for reasons beside the snapshots may be tried again.
func TestPreviewThatFails(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, taken, _ := history(t, "F")
	file := filepath.Join(t.TempDir(), "file")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	_, err := restore.Preview(t.Context(), restore.PreviewConfig{Store: s, WorkDir: file, Target: backup.Target{Snapshot: taken[0].Name()}, Log: logOf(t)})
	g.Expect(err).To(HaveOccurred())
	_, err = restore.Preview(t.Context(), restore.PreviewConfig{Store: s, WorkDir: t.TempDir(), Log: logOf(t)})
	g.Expect(err).To(MatchError(ContainSubstring("a target is either")))
}
