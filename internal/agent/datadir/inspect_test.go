// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// dataDir is a data directory of cluster cafe, as etcd creates it.
type dataDir struct {
	Gomega
	path string
}

func (d dataDir) log() string { return filepath.Join(d.path, "member", "wal") }
func (d dataDir) db() string  { return filepath.Join(d.path, "member", "snap", "db") }

// logFile returns the first file of the log.
func (d dataDir) logFile() string {
	return filepath.Join(d.log(), "0000000000000000-0000000000000000.wal")
}

func newDataDir(t *testing.T) dataDir {
	d := dataDir{NewWithT(t), filepath.Join(t.TempDir(), "new.etcd")}
	segment := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 1 << 20
	t.Cleanup(func() { wal.SegmentSizeBytes = segment })
	d.Expect(os.MkdirAll(filepath.Dir(d.db()), 0o700)).To(Succeed())
	db, err := bolt.Open(d.db(), 0o600, nil)
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(db.Close()).To(Succeed())
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: proto.Uint64(0x7a), ClusterID: proto.Uint64(0xcafe)})
	d.Expect(err).NotTo(HaveOccurred())
	log, err := wal.Create(zap.NewNop(), d.log(), metadata)
	d.Expect(err).NotTo(HaveOccurred())
	var entries []*raftpb.Entry
	for i := range uint64(100) {
		entries = append(entries, &raftpb.Entry{Index: proto.Uint64(i + 1), Term: proto.Uint64(1), Data: bytes.Repeat([]byte{7}, 1000)})
	}
	d.Expect(log.Save(&raftpb.HardState{Term: proto.Uint64(1), Commit: proto.Uint64(100)}, entries)).To(Succeed())
	d.Expect(log.Close()).To(Succeed())
	return d
}

// compacted adds a snapshot to the log: earlier entries are only in the database.
func (d dataDir) compacted() {
	log, err := wal.Open(zap.NewNop(), d.log(), &walpb.Snapshot{})
	d.Expect(err).NotTo(HaveOccurred())
	_, _, _, err = log.ReadAll()
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(log.SaveSnapshot(&walpb.Snapshot{Index: proto.Uint64(50), Term: proto.Uint64(1), ConfState: &raftpb.ConfState{}})).To(Succeed())
	d.Expect(log.Close()).To(Succeed())
}

// overwrite writes into the middle of a file.
func (d dataDir) overwrite(path string, offset int64) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	d.Expect(err).NotTo(HaveOccurred())
	_, err = file.WriteAt([]byte("this was not written by etcd, but by another program"), offset)
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(file.Close()).To(Succeed())
}

// misdirect makes the first leaf of the database claim more elements than fit: bbolt opens such a file, and panics or reads
// elsewhere when it reaches that page.
func (d dataDir) misdirect() {
	db, err := bolt.Open(d.db(), 0o600, &bolt.Options{PageSize: 4096})
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(db.Update(func(tx *bolt.Tx) error {
		keys, err := tx.CreateBucketIfNotExists([]byte("key"))
		for i := range 1000 {
			err = errors.Join(err, keys.Put(fmt.Appendf(nil, "%08d", i), make([]byte, 100)))
		}
		return err
	})).To(Succeed())
	var root uint64
	d.Expect(db.View(func(tx *bolt.Tx) error { root = uint64(tx.Bucket([]byte("key")).Root()); return nil })).To(Succeed())
	d.Expect(db.Close()).To(Succeed())
	file, err := os.OpenFile(d.db(), os.O_RDWR, 0)
	d.Expect(err).NotTo(HaveOccurred())
	_, err = file.WriteAt([]byte{0xff, 0x7f}, int64(root)*4096+10)
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(file.Close()).To(Succeed())
}

// Another process may write to a database in use: inconsistent pages are then no sign of damage.
func TestInspectWaitsForTheLock(t *testing.T) {
	d := newDataDir(t)
	db, err := bolt.Open(d.db(), 0o600, nil)
	d.Expect(err).NotTo(HaveOccurred())
	begun := time.Now()
	_, err = Survey(d.path)
	d.Expect(err).To(MatchError(bolterrors.ErrTimeout))
	d.Expect(time.Since(begun)).To(BeNumerically(">=", lockTimeout))
	d.Expect(db.Close()).To(Succeed())
	_, err = Survey(d.path)
	d.Expect(err).NotTo(HaveOccurred())
}

func TestInspect(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(dataDir)
		want   member.Data
	}{
		{"good", func(dataDir) {}, member.Data{State: member.DataPresent, ClusterID: "cafe"}},
		{"good, with a snapshot", dataDir.compacted, member.Data{State: member.DataPresent, ClusterID: "cafe"}},
		{"no directory", func(d dataDir) { d.Expect(os.RemoveAll(d.path)).To(Succeed()) }, member.Data{}},
		{"no log", func(d dataDir) { d.Expect(os.RemoveAll(d.log())).To(Succeed()) }, member.Data{}},
		{"an empty log", func(d dataDir) { d.Expect(os.Remove(d.logFile())).To(Succeed()) }, member.Data{}},
		{"interrupted before the first entry", func(d dataDir) { d.Expect(os.Rename(d.log(), d.log()+".tmp")).To(Succeed()) }, member.Data{}},
		{
			"log alone", func(d dataDir) { d.Expect(os.RemoveAll(filepath.Dir(d.db()))).To(Succeed()) },
			member.Data{State: member.DataDamaged, ClusterID: "cafe", Damage: "the database: it is missing"},
		},
		{
			"no database, everything in the log", func(d dataDir) { d.Expect(os.Remove(d.db())).To(Succeed()) },
			member.Data{State: member.DataPresent, ClusterID: "cafe"},
		},
		{
			"no database, not everything in the log", func(d dataDir) { d.compacted(); d.Expect(os.Remove(d.db())).To(Succeed()) },
			member.Data{State: member.DataDamaged, ClusterID: "cafe", Damage: "the database: it is missing"},
		},
		{
			"an empty database, not everything in the log", func(d dataDir) { d.compacted(); d.Expect(os.Truncate(d.db(), 0)).To(Succeed()) },
			member.Data{State: member.DataDamaged, ClusterID: "cafe", Damage: "the database: it is missing"},
		},
		{
			"a corrupt log", func(d dataDir) { d.overwrite(d.logFile(), 20000) },
			member.Data{State: member.DataDamaged, ClusterID: "cafe", Damage: "the write-ahead log: "},
		},
		{
			"a log with a corrupt beginning", func(d dataDir) { d.overwrite(d.logFile(), 0) },
			member.Data{State: member.DataDamaged, Damage: "the write-ahead log does not name its cluster: "},
		},
		{
			"a partially written last entry", func(d dataDir) { d.Expect(os.Truncate(d.logFile(), 100000)).To(Succeed()) },
			member.Data{State: member.DataPresent, ClusterID: "cafe"},
		},
		{
			"a database with a page that points out of itself", dataDir.misdirect,
			member.Data{State: member.DataDamaged, ClusterID: "cafe", Damage: "the database: page "},
		},
		{
			"no bbolt database", func(d dataDir) { d.Expect(os.WriteFile(d.db(), make([]byte, 65536), 0o600)).To(Succeed()) },
			member.Data{State: member.DataDamaged, ClusterID: "cafe", Damage: "the database: invalid database"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDataDir(t)
			tc.change(d)
			got, err := Inspect(d.path)
			d.Expect(err).NotTo(HaveOccurred())
			d.Expect(got.State).To(Equal(tc.want.State), got.Damage)
			d.Expect(got.ClusterID).To(Equal(tc.want.ClusterID))
			d.Expect(got.Damage).To(HavePrefix(tc.want.Damage))
			d.Expect(got.Removed).To(BeFalse())
			if tc.want.Damage == "" {
				d.Expect(got.Damage).To(BeEmpty())
			}
		})
	}
}

// A member is known by the ID in its log, and as removed only if its own database says so of itself.
func TestInspectKnowsARemovedMember(t *testing.T) {
	for id, want := range map[string]bool{"7a": true, "8": false, "7": false} {
		d := newDataDir(t)
		db, err := bolt.Open(d.db(), 0o600, nil)
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(db.Update(func(tx *bolt.Tx) error {
			removed, err := tx.CreateBucket([]byte("members_removed"))
			return errors.Join(err, removed.Put([]byte(id), []byte("removed")))
		})).To(Succeed())
		d.Expect(db.Close()).To(Succeed())
		got, err := Inspect(d.path)
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(got).To(Equal(member.Data{State: member.DataPresent, ClusterID: "cafe", MemberID: "7a", Removed: want}), id)
	}
}

// The log says who wrote it, also while the database is in use.
func TestWriter(t *testing.T) {
	d := newDataDir(t)
	db, err := bolt.Open(d.db(), 0o600, nil)
	d.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = db.Close() }()
	clusterID, memberID, err := Writer(d.path)
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect([]uint64{clusterID, memberID}).To(Equal([]uint64{0xcafe, 0x7a}))
	d.overwrite(d.logFile(), 0)
	_, _, err = Writer(d.path)
	d.Expect(err).To(HaveOccurred())
	d.Expect(os.RemoveAll(d.log())).To(Succeed())
	clusterID, memberID, err = Writer(d.path)
	d.Expect([]uint64{clusterID, memberID}, err).To(Equal([]uint64{0, 0}))
}

// An inspection does not change the data.
func TestInspectChangesNothing(t *testing.T) {
	d := newDataDir(t)
	before, err := os.ReadFile(d.logFile())
	d.Expect(err).NotTo(HaveOccurred())
	_, err = Inspect(d.path)
	d.Expect(err).NotTo(HaveOccurred())
	db, err := bolt.Open(d.db(), 0o600, &bolt.Options{Timeout: time.Nanosecond})
	d.Expect(err).NotTo(HaveOccurred(), "it is not locked any more")
	d.Expect(db.Close()).To(Succeed())
	after, err := os.ReadFile(d.logFile())
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(string(after) == string(before)).To(BeTrue())
}

func TestInspectDoesNotTreatUnreadableAsEmpty(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "member"), nil, 0o600)).To(Succeed())
	_, err := Inspect(dir)
	g.Expect(err).To(MatchError(ContainSubstring("reading the write-ahead log")))
}
