// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// A preview says what a restore would bring, compared with the end of the store, and is the same each time.
func TestPreview(t *testing.T) {
	r := newTrial(t, false)
	for i := range hotprefix.EnoughKeys {
		r.put(fmt.Sprintf("/registry/pods/ns/p%d=1", i))
	}
	base := r.full()
	r.put("/registry/pods/ns/p0=2", "/registry/pods/ns/p1", "new=1")
	first := r.delta()
	r.put("/registry/pods/ns/p2", "another=1")
	second := r.delta()
	end := &backup.Point{Revision: 16, Time: second.Created}
	seen := func(revision int64) time.Time { return noon.Add(time.Duration(revision-1) * time.Minute) }
	pods := func(c backup.Changes) backup.PrefixChanges {
		return backup.PrefixChanges{Prefix: "/registry/pods/" + hotprefix.Other, Changes: c}
	}
	other := func(c backup.Changes) backup.PrefixChanges {
		return backup.PrefixChanges{Prefix: hotprefix.Other, Changes: c}
	}
	for name, c := range map[string]struct {
		target backup.Target
		want   backup.Preview
	}{
		"the latest": {backup.Target{Latest: true}, backup.Preview{Deltas: 2, Revision: 16, Keys: 10}},
		"a revision between": {backup.Target{Revision: 12}, backup.Preview{
			Deltas: 1, Revision: 12, Keys: 10, Lost: 4, Changes: backup.Changes{Back: 2, Gone: 2},
			Prefixes: []backup.PrefixChanges{pods(backup.Changes{Back: 2}), other(backup.Changes{Gone: 2})},
		}},
		"a time": {backup.Target{Time: seen(13).Add(time.Second)}, backup.Preview{
			Deltas: 1, Revision: 13, Keys: 9, Lost: 3, Changes: backup.Changes{Back: 1, Gone: 2},
			Prefixes: []backup.PrefixChanges{other(backup.Changes{Back: 1, Gone: 2})},
		}},
		"a snapshot": {backup.Target{Snapshot: first.Name()}, backup.Preview{
			Deltas: 1, Revision: 14, Keys: 10, Lost: 2, Changes: backup.Changes{Back: 1, Gone: 1},
			Prefixes: []backup.PrefixChanges{other(backup.Changes{Back: 1, Gone: 1})},
		}},
		"the full snapshot": {backup.Target{Snapshot: base.Name()}, backup.Preview{
			Revision: 11, Keys: 10, Lost: 5, Changes: backup.Changes{Back: 2, Changed: 1, Gone: 2},
			Prefixes: []backup.PrefixChanges{pods(backup.Changes{Back: 2, Changed: 1}), other(backup.Changes{Gone: 2})},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			work := t.TempDir()
			g.Expect(os.MkdirAll(filepath.Join(work, "preview", "db"), 0o700)).To(Succeed(), "by one that was killed")
			config := PreviewConfig{Store: r.store, WorkDir: work, Target: c.target, EtcdUID: "uid", ClusterID: "cafe"}
			got, err := Preview(t.Context(), config)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.ReadDir(work)).To(BeEmpty())
			g.Expect(Preview(t.Context(), config)).To(Equal(got))
			g.Expect(got.Hash).NotTo(BeZero())
			g.Expect(got.Bytes).To(BeNumerically(">", 0))
			g.Expect(got.EndBytes).To(BeNumerically(">", 0))
			g.Expect(got.Digest).To(HaveLen(64))
			g.Expect(got.Time).To(Equal(seen(got.Revision)))
			want := c.want
			want.Base, want.Hash, want.Bytes, want.EndBytes, want.Digest, want.Time, want.End = base.Name(), got.Hash, got.Bytes, got.EndBytes, got.Digest, got.Time, end
			g.Expect(got).To(Equal(want))
		})
	}
}

// What is at another place is restored from there alone, and compared with the newest state of the own store, whose revisions say nothing of
// the other's.
func TestPreviewFromAnotherPlace(t *testing.T) {
	other := newTrial(t, false)
	other.put("a=1", "b=1")
	base := other.full()
	other.put("c=1")
	delta := other.delta()
	r := newTrial(t, false)
	r.put("x=1")
	config := PreviewConfig{Store: r.store, From: other.store, WorkDir: t.TempDir(), Target: backup.Target{Latest: true}, EtcdUID: "uid", ClusterID: "cafe"}
	got, err := Preview(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.NotCompared).To(Equal(backup.ErrNoFull.Error()))
	r.Expect(got.End).To(BeNil())
	r.put("a=1", "a=2", "a=3", "a=4")
	own := r.full()
	r.Expect(got.Digest).NotTo(BeEmpty())
	digest := got.Digest
	got, err = Preview(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.Refused).To(BeNil())
	r.Expect(got.Base).To(Equal(base.Name()))
	r.Expect(got.Deltas).To(Equal(1))
	r.Expect(got.Revision).To(BeEquivalentTo(4))
	r.Expect(got.Digest).To(Equal(digest))
	r.Expect(got.FromTaken).To(Equal(delta.Created))
	r.Expect(got.End).To(Equal(&backup.Point{Revision: 6, Time: own.Created}))
	r.Expect(got.Lost).To(BeZero())
	r.Expect(got.Changes).To(Equal(backup.Changes{Back: 2, Changed: 1, Gone: 1}))
	r.Expect(os.ReadDir(config.WorkDir)).To(BeEmpty())

	// A full snapshot of the same name in the own store is another one.
	r.Expect(os.Remove(r.path(own))).To(Succeed())
	r.events = r.events[:2]
	same := r.fullOf(base.LastRevision, nil)
	r.Expect(os.Rename(r.path(same), filepath.Join(filepath.Dir(r.path(same)), base.Name()))).To(Succeed())
	got, err = Preview(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.Digest).To(Equal(digest))
	r.Expect(got.Changes).To(Equal(backup.Changes{Back: 2, Gone: 1}), "compared with a=1 and x=1")

	r.Expect(os.Remove(other.path(delta))).To(Succeed())
	config.Target = backup.Target{Revision: 4}
	got, err = Preview(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.Refused.Code).To(Equal(backup.TargetOutside), "the own store does not help")
}

// What a preview refuses, and what it cannot say.
func TestPreviewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		signed bool
		begin  func(r *trial, c *PreviewConfig)
		code   backup.RefusalCode
		check  func(g *WithT, p backup.Preview)
		fails  string
	}{
		"no target": {begin: func(_ *trial, c *PreviewConfig) { c.Target = backup.Target{} }, fails: "a target is either"},
		"no backup": {begin: func(*trial, *PreviewConfig) {}, code: backup.NoBackup},
		"outside": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			c.Target = backup.Target{Revision: 9}
		}, code: backup.TargetOutside, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Refused.Before.Revision).To(BeEquivalentTo(2))
			g.Expect(p.Refused.After).To(BeNil())
		}},
		"before": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1", "a=2")
			r.full()
			c.Target = backup.Target{Revision: 2}
		}, code: backup.TargetOutside, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Refused.After.Revision).To(BeEquivalentTo(3))
			g.Expect(p.Refused.Before).To(BeNil())
		}},
		"corrupt": {begin: func(r *trial, _ *PreviewConfig) {
			r.put("a=1")
			r.corrupt(r.full())
		}, code: backup.SnapshotCorrupt, check: func(g *WithT, p backup.Preview) { g.Expect(p.Refused.Older).To(BeEmpty()) }},
		"a revision that is malformed": {begin: func(r *trial, _ *PreviewConfig) {
			r.put("a=1", "a=2")
			r.fullOf(3, func(path string) {
				in(r.WithT, path, func(tx *bolt.Tx) {
					r.Expect(tx.Bucket(schema.Key.Name()).Put([]byte{0}, []byte{})).To(Succeed(), "before the last one, which is read first")
				})
			})
		}, code: backup.SnapshotCorrupt, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Refused.Message).To(And(HavePrefix("snapshot Full-00000000-00000003-"), ContainSubstring("invalid revision length: 1")))
		}},
		"corrupt, and there is an older one": {begin: func(r *trial, _ *PreviewConfig) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.delta()
			r.corrupt(r.fullOf(3, nil))
		}, code: backup.SnapshotCorrupt, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Refused.Older).To(HavePrefix("Full-00000000-00000002-"))
		}},
		"a corrupt delta": {begin: func(r *trial, _ *PreviewConfig) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.corrupt(r.delta())
		}, code: backup.SnapshotCorrupt, check: func(g *WithT, p backup.Preview) { g.Expect(p.Refused.Older).To(BeEmpty()) }},
		"a corrupt delta after the newer of two full snapshots": {begin: func(r *trial, _ *PreviewConfig) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.delta()
			r.full()
			r.put("a=3")
			r.corrupt(r.delta())
		}, code: backup.SnapshotCorrupt, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Refused.Older).To(BeEmpty(), "it needs the delta as well")
		}},
		"a full snapshot that has less than its name says": {begin: func(r *trial, _ *PreviewConfig) {
			r.put("a=1")
			r.fullOf(3, nil)
		}, fails: "restored revision 2, but the newest snapshot ends at 3"},
		"so has that of a time": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			c.Target = backup.Target{Time: r.fullOf(3, nil).Created}
		}, fails: "restored revision 2, but the newest snapshot ends at 3"},
		"the only full snapshot leads beyond": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1", "a=2")
			r.fullOf(2, nil)
			r.put("a=3")
			r.delta()
			c.Target = backup.Target{Revision: 2}
		}, code: backup.TargetOutside},
		"the newest full snapshot leads beyond": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.delta()
			r.put("a=3")
			r.taken--
			r.fullOf(3, nil)
			r.taken = 2
			r.put("a=4")
			r.delta()
			c.Target = backup.Target{Revision: 3}
		}, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Base).To(HavePrefix("Full-00000000-00000002-"))
			g.Expect(p.Revision).To(BeEquivalentTo(3))
			g.Expect(p.End.Revision).To(BeEquivalentTo(5))
		}},
		"not signed": {signed: true, begin: func(r *trial, _ *PreviewConfig) {
			signed := r.store
			plain := r.config
			plain.SigningKeys = ""
			r.store = r.open(plain)
			r.put("a=1")
			r.full()
			r.store = signed
		}, code: backup.NotTrusted},
		"before what is recorded": {signed: true, begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)}
		}, code: backup.NotTrusted},
		"not signed, so a record proves nothing": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)}
		}, check: func(g *WithT, p backup.Preview) { g.Expect(p.Revision).To(BeEquivalentTo(2)) }},
		"over the quota": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			c.Members.Quota = 1
		}, code: backup.OverQuota, check: func(g *WithT, p backup.Preview) { g.Expect(p.Revision).To(BeEquivalentTo(2)) }},
		"the end of the store is broken": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.delta()
			r.put("a=3")
			r.taken++
			r.put("a=4")
			r.delta()
			c.Target = backup.Target{Revision: 3}
		}, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Revision).To(BeEquivalentTo(3))
			g.Expect(p.End).To(BeNil())
			g.Expect(p.NotCompared).NotTo(BeEmpty())
		}},
		"the end of the store is corrupt": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.corrupt(r.delta())
			c.Target = backup.Target{Revision: 2}
		}, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Revision).To(BeEquivalentTo(2))
			g.Expect(p.End).To(BeNil())
			g.Expect(p.NotCompared).To(ContainSubstring("is corrupt"))
		}},
		"a restore has raised the revision since": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1", "a=2", "a=3")
			r.full()
			r.put("a=4", "a=5")
			r.fullOf(r.revision()+margin, func(path string) { r.Expect(datadir.Renew(path, margin)).To(Succeed()) })
			c.Target = backup.Target{Revision: 4}
		}, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.End.Revision).To(BeEquivalentTo(6 + margin))
			g.Expect(p.Lost).To(BeEquivalentTo(2))
		}},
		"two have, and the snapshots between them have expired": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1", "a=2", "a=3")
			r.full()
			r.put("a=4", "a=5")
			r.fullOf(r.revision()+2*margin, func(path string) { r.Expect(datadir.Renew(path, 2*margin)).To(Succeed()) })
			c.Target = backup.Target{Revision: 4}
		}, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Lost).To(BeEquivalentTo(2))
		}},
		"the end of the store is of another history": {begin: func(r *trial, c *PreviewConfig) {
			r.put("a=1", "a=2", "a=3")
			r.full()
			full := r.last
			r.events = r.events[:1]
			_, err := r.store.WriteDatabase(r.t.Context(), r.oldDatabase(), backup.Snapshot{Kind: backup.Full, LastRevision: 2, Created: full.Created.Add(time.Minute), Compression: backup.None})
			r.Expect(err).NotTo(HaveOccurred())
			c.Target = backup.Target{Revision: 4}
		}, check: func(g *WithT, p backup.Preview) {
			g.Expect(p.Revision).To(BeEquivalentTo(4))
			g.Expect(p.End.Revision).To(BeEquivalentTo(2))
			g.Expect(p.Lost).To(BeZero())
			g.Expect(p.Changes).To(Equal(backup.Changes{Changed: 1}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, c.signed)
			config := PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: backup.Target{Latest: true}}
			c.begin(r, &config)
			p, err := Preview(t.Context(), config)
			if c.fails != "" {
				r.Expect(err).To(MatchError(ContainSubstring(c.fails)))
				return
			}
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(os.ReadDir(config.WorkDir)).To(BeEmpty())
			if c.code == "" {
				r.Expect(p.Refused).To(BeNil())
			} else {
				r.Expect(p.Refused).NotTo(BeNil())
				r.Expect(p.Refused.Code).To(Equal(c.code))
				r.Expect(p.Refused.Message).NotTo(BeEmpty())
			}
			if c.check != nil {
				c.check(r.WithT, p)
			}
		})
	}
}

// An error that may be different next time is none that refuses a target.
func TestRefusals(t *testing.T) {
	g := NewWithT(t)
	g.Expect(refusalOf(nil)).To(BeNil())
	g.Expect(refusalOf(errors.New("the store does not answer"))).To(BeNil())
	for code, errs := range map[backup.RefusalCode][]error{
		backup.NoBackup:        {backup.ErrNoFull},
		backup.NotTrusted:      {&backup.UntrustedError{}, &backup.OlderError{}},
		backup.Locked:          {&backup.LockedError{}},
		backup.SnapshotCorrupt: {&backup.CorruptError{}},
		backup.TargetOutside:   {&backup.GapError{}, &backup.LostError{}, errBeyond, backup.ErrNotLeading, &backup.OutsideError{}},
	} {
		for _, err := range errs {
			r := refusalOf(fmt.Errorf("wrapped: %w", err))
			g.Expect(r).NotTo(BeNil(), "%T", err)
			g.Expect(r.Code).To(Equal(code), "%T", err)
			g.Expect(r.Message).To(HavePrefix("wrapped: "))
		}
	}
	g.Expect(refusalOf(&olderError{&backup.CorruptError{}, "older"}).Older).To(Equal("older"))
}

// A preview fits into a termination message, whatever its prefixes are: what is not shown is counted together.
func TestPreviewIsBounded(t *testing.T) {
	g := NewWithT(t)
	var p backup.Preview
	for i := range 60 {
		p.Prefixes = append(p.Prefixes, backup.PrefixChanges{Prefix: fmt.Sprintf("%02d%s", i, strings.Repeat("x", 100)), Changes: backup.Changes{Back: 1}})
	}
	b := bounded(p)
	text, err := json.Marshal(b)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(text)).To(BeNumerically("<=", maxPreview))
	g.Expect(len(text)).To(BeNumerically(">", maxPreview-200), "no more is left out than has to be")
	last := b.Prefixes[len(b.Prefixes)-1]
	g.Expect(last.Prefix).To(Equal(hotprefix.Other))
	g.Expect(last.Back).To(BeEquivalentTo(60 - len(b.Prefixes) + 1))
	g.Expect(bounded(b)).To(Equal(b))
	huge := backup.Preview{NotCompared: strings.Repeat("x", 2*maxPreview), Prefixes: p.Prefixes[:1]}
	g.Expect(bounded(huge).Prefixes).To(HaveLen(1), "there is nothing left to leave out")
}

// Of many prefixes, those with most changes are shown, and what was not shown before is counted with what is not shown now.
func TestAtMost(t *testing.T) {
	of := func(prefix string, n int64) backup.PrefixChanges {
		return backup.PrefixChanges{Prefix: prefix, Changes: backup.Changes{Back: n, Changed: 2 * n, Gone: 3 * n}}
	}
	all := []backup.PrefixChanges{of("a", 5), of(hotprefix.Other, 4), of("b", 3), of("c", 2)}
	g := NewWithT(t)
	g.Expect(atMost(4, all)).To(Equal(all))
	g.Expect(atMost(3, all)).To(Equal([]backup.PrefixChanges{of("a", 5), of("b", 3), of(hotprefix.Other, 6)}))
	g.Expect(atMost(2, all)).To(Equal([]backup.PrefixChanges{of("a", 5), of(hotprefix.Other, 9)}))
	g.Expect(atMost(1, all)).To(Equal([]backup.PrefixChanges{of(hotprefix.Other, 14)}))
	g.Expect(atMost(0, all)).To(Equal([]backup.PrefixChanges{of(hotprefix.Other, 14)}))
	g.Expect(all[1]).To(Equal(of(hotprefix.Other, 4)), "the list is left as it is")
}

// A prefix is shown once enough keys share it, those that vanish included.
func TestChangesByPrefix(t *testing.T) {
	g := NewWithT(t)
	then, now := newKeySpace(), newKeySpace()
	for i := range hotprefix.EnoughKeys - 1 {
		then.put(fmt.Appendf(nil, "/a/b/%d", i), []byte("1"))
		now.put(fmt.Appendf(nil, "/a/b/%d", i), []byte("2"))
		then.put(fmt.Appendf(nil, "/c/d/%d", i), []byte("1"))
	}
	now.put([]byte("/a/b/gone"), nil)
	now.put([]byte("/a/b/removed"), nil)
	now.remove([]byte("/a/b/removed"))
	total, prefixes := then.changesFrom(now)
	g.Expect(total).To(Equal(backup.Changes{Back: 9, Changed: 9, Gone: 1}))
	g.Expect(prefixes).To(Equal([]backup.PrefixChanges{
		{Prefix: "/a/b/" + hotprefix.Other, Changes: backup.Changes{Changed: 9, Gone: 1}},
		{Prefix: hotprefix.Other, Changes: backup.Changes{Back: 9}},
	}))
	total, prefixes = then.changesFrom(then)
	g.Expect(total).To(BeZero())
	g.Expect(prefixes).To(BeEmpty())
}

// in changes a database.
func in(g *WithT, path string, change func(tx *bolt.Tx)) {
	db, err := bolt.Open(path, 0o600, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.Update(func(tx *bolt.Tx) error { change(tx); return nil })).To(Succeed())
	g.Expect(db.Close()).To(Succeed())
}

// bucket returns one of a database, made if there is none.
func bucket(g *WithT, tx *bolt.Tx, name []byte) *bolt.Bucket {
	b, err := tx.CreateBucketIfNotExists(name)
	g.Expect(err).NotTo(HaveOccurred())
	return b
}

// What a database has besides its keys.
func TestDescribe(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1", "b=1", "b")
	path := r.oldDatabase()
	var p backup.Preview
	keys, err := describe(path, &p)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(keys.keys).To(HaveLen(1))
	r.Expect(p).To(Equal(backup.Preview{Bytes: p.Bytes}))
	info, err := os.Stat(path)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(p.Bytes).To(BeNumerically("<=", info.Size()))
	r.Expect(p.Bytes).To(BeNumerically(">", 0))
	in(r.WithT, path, func(tx *bolt.Tx) {
		r.Expect(bucket(r.WithT, tx, schema.Auth.Name()).Put(schema.AuthEnabledKeyName, []byte{1})).To(Succeed())
		r.Expect(bucket(r.WithT, tx, schema.AuthUsers.Name()).Put([]byte("root"), []byte("x"))).To(Succeed())
		r.Expect(bucket(r.WithT, tx, schema.Cluster.Name()).Put(schema.ClusterClusterVersionKeyName, []byte("3.6.0"))).To(Succeed())
		for i := range maxAlarms + 1 {
			alarm, err := proto.Marshal(&etcdserverpb.AlarmMember{MemberID: uint64(i + 16), Alarm: etcdserverpb.AlarmType_NOSPACE})
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(bucket(r.WithT, tx, schema.Alarm.Name()).Put(alarm, nil)).To(Succeed())
		}
		raised := mvcc.RevToBytes(mvcc.Revision{Main: 9}, mvcc.NewRevBytes())
		r.Expect(bucket(r.WithT, tx, schema.Key.Name()).Put(raised, []byte{})).To(Succeed())
	})
	keys, err = describe(path, &p)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(keys.keys).To(HaveLen(1))
	r.Expect(p.Auth).To(BeTrue())
	r.Expect(p.Users).To(Equal(1))
	r.Expect(p.Version).To(Equal("3.6.0"))
	r.Expect(p.Alarms).To(HaveLen(maxAlarms))
	r.Expect(p.Alarms[0]).To(Equal("NOSPACE of member 10"))
	for _, c := range []struct {
		in, key []byte
		says    string
	}{
		{schema.Alarm.Name(), []byte("\xffno message"), "reading an alarm: "},
		{schema.Key.Name(), mvcc.RevToBytes(mvcc.Revision{Main: 10}, mvcc.NewRevBytes()), "reading revision 10: "},
	} {
		in(r.WithT, path, func(tx *bolt.Tx) {
			r.Expect(bucket(r.WithT, tx, c.in).Put(c.key, []byte("\xffnone either"))).To(Succeed())
		})
		_, err = describe(path, &backup.Preview{})
		r.Expect(err).To(MatchError(ContainSubstring(c.says)))
		in(r.WithT, path, func(tx *bolt.Tx) { r.Expect(bucket(r.WithT, tx, c.in).Delete(c.key)).To(Succeed()) })
	}
	_, err = describe(filepath.Join(t.TempDir(), "none", "db"), &p)
	r.Expect(err).To(MatchError(HavePrefix("opening the database: ")))
}

// Events are written as etcd writes them, each once; what is missing between them is an error.
func TestApply(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	path := r.oldDatabase()
	db, err := openDatabase(path)
	r.Expect(err).NotTo(HaveOccurred())
	event := func(revision int64, key string, change func(*backup.Event)) error {
		e := backup.Event{EtcdEvent: backup.EtcdEvent{Kv: backup.KeyValue{Key: []byte(key), Value: []byte("2"), ModRevision: revision, CreateRevision: revision, Version: 1}}}
		if change != nil {
			change(&e)
		}
		return db.apply(e)
	}
	r.Expect(event(2, "a", nil)).To(Succeed(), "it is there")
	r.Expect(event(1, "a", nil)).To(Succeed(), "so is this")
	r.Expect(event(3, "b", func(e *backup.Event) { e.EtcdEvent.Kv.Lease, e.LeaseTTL = 7, 60 })).To(Succeed())
	r.Expect(event(3, "c", func(e *backup.Event) { e.EtcdEvent.Kv.Lease, e.LeaseTTL = 7, 30 })).To(Succeed(), "one more of the same revision")
	r.Expect(event(4, "d", func(e *backup.Event) { e.EtcdEvent.Kv.Lease = 8 })).To(Succeed(), "its TTL is not known")
	r.Expect(event(3, "b", nil)).To(Succeed(), "it is there by now")
	r.Expect(event(6, "e", nil)).To(MatchError(&backup.GapError{After: 4, Next: 6}))
	r.Expect(event(5, "f", func(e *backup.Event) { e.EtcdEvent.Type = 9 })).To(MatchError("event at revision 5 has an unknown type 9"))
	r.Expect(db.close()).To(Succeed())
	keys, revision := r.keys(path)
	r.Expect(revision).To(BeEquivalentTo(4))
	r.Expect(keys).To(Equal(map[string]string{"a": "1 2 2 1", "b": "2 3 3 1", "c": "2 3 3 1", "d": "2 4 4 1"}))
	in(r.WithT, path, func(tx *bolt.Tx) {
		leases := bucket(r.WithT, tx, schema.Lease.Name())
		r.Expect(leases.Stats().KeyN).To(Equal(1))
		l := &leasepb.Lease{}
		r.Expect(proto.Unmarshal(leases.Get(binary.BigEndian.AppendUint64(nil, 7)), l)).To(Succeed())
		r.Expect(l.TTL).To(BeEquivalentTo(60))
	})
}

// The revision of a database is that of its last change, or of a compaction that has removed it; of an empty one, 1.
func TestFindRevision(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	revision := func(change func(tx *bolt.Tx)) (int64, error) {
		in(g, path, change)
		db, err := openDatabase(path)
		if err != nil {
			return 0, err
		}
		defer func() { g.Expect(db.close()).To(Succeed()) }()
		return db.revision, nil
	}
	at := func(main int64) []byte { return mvcc.RevToBytes(mvcc.Revision{Main: main}, mvcc.NewRevBytes()) }
	_, err := revision(func(*bolt.Tx) {})
	g.Expect(err).To(MatchError(errNotEtcd))
	_, err = revision(func(tx *bolt.Tx) { bucket(g, tx, schema.Key.Name()) })
	g.Expect(err).To(MatchError(errNotEtcd))
	g.Expect(revision(func(tx *bolt.Tx) { bucket(g, tx, schema.Meta.Name()) })).To(BeEquivalentTo(1))
	g.Expect(revision(func(tx *bolt.Tx) { g.Expect(bucket(g, tx, schema.Key.Name()).Put(at(5), nil)).To(Succeed()) })).To(BeEquivalentTo(5))
	for key, main := range map[string]int64{string(schema.FinishedCompactKeyName): 7, string(schema.ScheduledCompactKeyName): 9} {
		g.Expect(revision(func(tx *bolt.Tx) {
			g.Expect(bucket(g, tx, schema.Meta.Name()).Put([]byte(key), at(main))).To(Succeed())
		})).To(BeEquivalentTo(main))
		g.Expect(revision(func(tx *bolt.Tx) { g.Expect(bucket(g, tx, schema.Meta.Name()).Delete([]byte(key))).To(Succeed()) })).To(BeEquivalentTo(5))
	}
	_, err = openDatabase(filepath.Join(t.TempDir(), "none", "db"))
	g.Expect(err).To(MatchError(HavePrefix("opening the database: ")))
}
