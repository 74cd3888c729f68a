// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// folders returns two folders to work in: the leftovers in one cannot be removed, and the other cannot be made.
func folders(g *WithT, t *testing.T) (locked, unmade string) {
	locked, unmade = filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "link")
	g.Expect(os.WriteFile(locked, nil, 0o600)).To(Succeed())
	g.Expect(os.Symlink(filepath.Join(t.TempDir(), "none"), unmade)).To(Succeed())
	return locked, unmade
}

// Without a folder to work in, nothing begins, and the error says what is missing.
func TestWithoutAFolder(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	r.full()
	locked, unmade := folders(r.WithT, t)
	for folder, says := range map[string]string{locked: "removing leftovers of an interrupted ", unmade: "making a folder for the "} {
		config := r.into()
		config.WorkDir = filepath.Join(folder, "restoring")
		result, err := Restore(t.Context(), config)
		r.Expect(err).To(MatchError(HavePrefix(says + "restore: ")))
		r.Expect(result).To(BeZero())
		compacted, err := Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: folder})
		r.Expect(err).To(MatchError(HavePrefix(says + "compaction: ")))
		r.Expect(compacted).To(BeZero())
		preview, err := Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: folder, Target: backup.Target{Latest: true}})
		r.Expect(err).To(MatchError(HavePrefix(says + "preview: ")))
		r.Expect(preview).To(BeZero())
	}
	s := &source{store: r.store, work: locked}
	_, err := s.restoreTo(t.Context(), filepath.Join(locked, "db"), backup.Choice{})
	r.Expect(err).To(MatchError(HavePrefix("removing another database: ")))
	r.Expect(s.fetch(t.Context(), r.last, filepath.Join(locked, "db"))).To(MatchError(HavePrefix("making a file for snapshot " + r.last.Name())))
}

// What etcd refuses, or cannot be put in its place, is an error, and there is no data directory.
func TestRestoreThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Config)
		says   string
	}{
		"a bump that is too large":    {func(c *Config) { c.Bump = math.MaxInt64 }, "cannot be added to revision 2"},
		"a wrong peer URL":            {func(c *Config) { c.PeerURL = "m" }, "making a data directory from Full-00000000-00000002-"},
		"no folder for the directory": {func(c *Config) { c.DataDir, c.WorkDir = c.DataDir+"/none/new.etcd", c.DataDir+".work" }, "giving the data directory its name: "},
	} {
		for _, compression := range []backup.Compression{backup.None, backup.Gzip} {
			t.Run(name+", compressed: "+string(compression), func(t *testing.T) {
				r := newTrial(t, false)
				r.put("a=1")
				_, err := r.store.WriteDatabase(t.Context(), r.oldDatabase(), backup.Snapshot{Kind: backup.Full, LastRevision: 2, Created: r.now(), Compression: compression})
				r.Expect(err).NotTo(HaveOccurred())
				config := r.into()
				folder := filepath.Dir(config.DataDir)
				c.change(&config)
				result, err := Restore(t.Context(), config)
				r.Expect(err).To(MatchError(ContainSubstring(c.says)))
				r.Expect(result).To(BeZero())
				r.Expect(os.ReadDir(folder)).To(BeEmpty())
			})
		}
	}
}

// A database that etcd cannot start with is a corrupt snapshot, although its checksum is right: an older one is used, if there is one.
func TestADatabaseThatEtcdCannotUse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *WithT, tx *bolt.Tx)
		says   string
	}{
		"without keys": {func(g *WithT, tx *bolt.Tx) { g.Expect(tx.DeleteBucket(schema.Key.Name())).To(Succeed()) }, "a bucket is missing"},
		"a revision that is malformed": {func(g *WithT, tx *bolt.Tx) {
			short := mvcc.RevToBytes(mvcc.Revision{Main: 2}, mvcc.NewRevBytes())[:9]
			g.Expect(tx.Bucket(schema.Key.Name()).Put(short, []byte{})).To(Succeed(), "before the last one, which is read first")
		}, "etcd cannot use it: invalid revision length: 9"},
		"a compaction that is malformed": {func(g *WithT, tx *bolt.Tx) {
			g.Expect(tx.Bucket(schema.Meta.Name()).Put(schema.FinishedCompactKeyName, []byte{1})).To(Succeed())
		}, "etcd cannot use it: invalid revision length: 1"},
		"a revision that is there twice": {func(g *WithT, tx *bolt.Tx) {
			twice := append(mvcc.RevToBytes(mvcc.Revision{Main: 2}, mvcc.NewRevBytes()), tombstone)
			value := tx.Bucket(schema.Key.Name()).Get(twice[:len(twice)-1])
			g.Expect(tx.Bucket(schema.Key.Name()).Put(twice, value)).To(Succeed(), "etcd panics over it in a goroutine of its own")
		}, "it has revision 2 twice"},
	} {
		for _, signed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", signed: ", signed), func(t *testing.T) {
				r := newTrial(t, signed)
				change := func(path string) { in(r.WithT, path, func(tx *bolt.Tx) { c.change(r.WithT, tx) }) }
				r.put("a=1")
				r.fullOf(2, change)
				_, err := Restore(t.Context(), r.into())
				r.Expect(err).To(MatchError(And(ContainSubstring("is corrupt: "), ContainSubstring(c.says))))
				_, err = Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir()})
				r.Expect(err).To(MatchError(And(ContainSubstring("is corrupt: "), ContainSubstring(c.says))))
				_, err = ReadAtRest(t.Context(), AtRestConfig{Store: r.store, WorkDir: t.TempDir()})
				r.Expect(err).To(MatchError(And(ContainSubstring("is corrupt: "), ContainSubstring(c.says))))
				preview, err := Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: backup.Target{Latest: true}})
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(preview.Refused).To(HaveField("Code", backup.SnapshotCorrupt))
				r.Expect(preview.Refused.Message).To(ContainSubstring(c.says))

				if signed {
					return // no signature says that two full snapshots are of one history
				}
				r = newTrial(t, signed)
				r.put("a=1")
				older := r.full()
				r.put("a=2")
				r.delta()
				r.fullOf(3, change)
				result, err := Restore(t.Context(), r.into())
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(result.Chain.Full.Name()).To(Equal(older.Name()))
				r.Expect(result.Revision).To(BeEquivalentTo(3))
			})
		}
	}
}

// malformed gives a key a value that is none.
func (r *trial) malformed(path string) {
	in(r.WithT, path, func(tx *bolt.Tx) {
		key := mvcc.RevToBytes(mvcc.Revision{Main: 2}, mvcc.NewRevBytes())
		r.Expect(tx.Bucket(schema.Key.Name()).Put(key, []byte("\xffno value"))).To(Succeed())
	})
}

// What etcd panics over later is an error, too.
func TestAPanicIsAnError(t *testing.T) {
	const says = "etcd cannot use the content of the snapshots: "
	r := newTrial(t, false)
	r.put("a=1", "a=2")
	r.fullOf(3, r.malformed)
	config := r.into()
	config.Point = &Point{Base: r.last.Name(), Revision: 3}
	_, err := Restore(t.Context(), config)
	r.Expect(err).To(MatchError(HavePrefix(says)))
	_, err = Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir()})
	r.Expect(err).To(MatchError(HavePrefix(says)))
	_, err = Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: backup.Target{Latest: true}})
	r.Expect(err).To(MatchError(HavePrefix(says)))
	_, err = ReadAtRest(t.Context(), AtRestConfig{Store: r.store, WorkDir: t.TempDir()})
	r.Expect(err).To(MatchError(And(HavePrefix("reading snapshot "+r.last.Name()+": "), ContainSubstring("reading revision 2: "))))
}

// after calls a function once something is logged.
func after(message string, do func()) logr.Logger {
	return funcr.New(func(_, args string) {
		if strings.Contains(args, message) {
			do()
		}
	}, funcr.Options{})
}

// A volume that ends beneath a file that is mapped is an error, not the end of the process.
func TestAVolumeThatFails(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	r.full()
	r.put("a=2")
	r.delta()
	r.put("a=3")
	// The grant of a lease reads a page that no other change has read.
	r.events[len(r.events)-1].LeaseTTL, r.events[len(r.events)-1].EtcdEvent.Kv.Lease = 60, 7
	r.delta()
	ends := func(path string) logr.Logger {
		return after("Applied a delta snapshot", func() { r.Expect(os.Truncate(path, 0)).To(Succeed()) })
	}
	config := r.into()
	config.Log = ends(databaseIn(filepath.Join(datadir.RestoringDir(config.DataDir), "data")))
	_, err := Restore(t.Context(), config)
	r.Expect(err).To(MatchError(ContainSubstring("etcd cannot use the content of the snapshots: ")))
	work := t.TempDir()
	_, err = Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: work, Target: backup.Target{Latest: true}, Log: ends(filepath.Join(work, "preview", "db"))})
	r.Expect(err).To(MatchError(ContainSubstring("etcd cannot use the content of the snapshots: ")))
}

// breakable has the store be one that can be broken: each request to it fails then.
func (r *trial) breakable() (breaks func()) {
	config := r.config
	config.Credentials = r.t.TempDir()
	r.store = r.open(config)
	return func() { r.Expect(os.Remove(config.Credentials)).To(Succeed()) }
}

// A store that cannot be read is an error, which is none that refuses a target, and one that cannot be written leaves what was there.
func TestAStoreThatFails(t *testing.T) {
	const says = "reading the credentials of the store: "
	r := newTrial(t, false)
	r.put("a=1")
	base := r.full()
	r.put("a=2")
	r.delta()
	healthy := r.store
	breaks := r.breakable()
	work := t.TempDir()
	compacted, err := Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: work, Log: after("Applied a delta snapshot", breaks)})
	r.Expect(err).To(MatchError(ContainSubstring(says)))
	r.Expect(compacted).To(BeZero())
	r.Expect(os.ReadDir(work)).To(BeEmpty())
	r.Expect(healthy.List(t.Context())).To(HaveLen(2))
	config := r.into()
	for _, point := range []*Point{nil, {Base: base.Name(), Revision: 2}} {
		config.Point = point
		_, err = Restore(t.Context(), config)
		r.Expect(err).To(MatchError(ContainSubstring(says)))
	}
	for _, c := range []PreviewConfig{{Store: r.store}, {Store: healthy, From: r.store}} {
		c.WorkDir, c.Target = work, backup.Target{Latest: true}
		preview, err := Preview(t.Context(), c)
		r.Expect(err).To(MatchError(ContainSubstring(says)))
		r.Expect(preview).To(BeZero())
	}
}

// A compaction makes nothing of a full snapshot that is corrupt.
func TestACompactionOfWhatIsCorrupt(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	r.corrupt(r.full())
	_, err := Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir()})
	_, corrupt := errors.AsType[*backup.CorruptError](err)
	r.Expect(corrupt).To(BeTrue(), "%v", err)
	r.Expect(r.store.List(t.Context())).To(HaveLen(1))
}

// Only a corrupt full snapshot has an older one tried: one that cannot be read now may be read later.
func TestWhatIsTriedNext(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	older := r.full()
	r.put("a=2")
	r.delta()
	newest := r.full()
	unread := errors.New("unread")
	for _, c := range []struct {
		err   error
		tried []string
	}{{unread, []string{newest.Name()}}, {&backup.CorruptError{}, []string{newest.Name(), older.Name()}}} {
		var tried []string
		chain, err := (&source{store: r.store}).choose(t.Context(), func(full backup.Snapshot) error { tried = append(tried, full.Name()); return c.err })
		r.Expect(err).To(MatchError(c.err))
		r.Expect(chain).To(BeZero())
		r.Expect(tried).To(Equal(c.tried))
	}
}

// The object itself is used only where it cannot change between its check and its use, and nothing has to be decompressed or decrypted.
func TestWhichFileIsUsed(t *testing.T) {
	identity, recipient := encryptiontest.Identity(t)
	for name, c := range map[string]struct {
		signed, encrypted bool
		compression       backup.Compression
		fetched           bool
	}{
		"plain":      {false, false, backup.None, false},
		"compressed": {false, false, backup.Gzip, true},
		"encrypted":  {false, true, backup.None, true},
		"signed":     {true, false, backup.None, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, c.signed)
			if c.encrypted {
				r.config.Recipients, r.config.Identities = []string{recipient}, encryptiontest.Folder(t, identity)
				r.store = r.open(r.config)
			}
			r.put("a=1")
			full, err := r.store.WriteDatabase(t.Context(), r.oldDatabase(), backup.Snapshot{Kind: backup.Full, LastRevision: 2, Created: r.now(), Compression: c.compression})
			r.Expect(err).NotTo(HaveOccurred())
			before, err := os.ReadFile(r.path(full))
			r.Expect(err).NotTo(HaveOccurred())
			s := &source{store: r.store, work: t.TempDir()}
			file, fetched, err := s.file(t.Context(), full)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(fetched).To(Equal(c.fetched))
			r.Expect(file == r.path(full)).To(Equal(!c.fetched))
			r.Expect(r.into().dataDir(t.Context(), s, full, filepath.Join(s.work, "data"))).To(Succeed())
			left, err := filepath.Glob(filepath.Join(s.work, "*"))
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(left).To(ConsistOf(filepath.Join(s.work, "data")), "what was fetched is moved: there may be no room for it twice")
			r.Expect(os.ReadFile(r.path(full))).To(Equal(before), "it is left in the store")
		})
	}
}

// What cannot be read is an error: without an identity, if it is not compressed as its name says, and if its file is gone.
func TestWhatCannotBeRead(t *testing.T) {
	r := newTrial(t, false)
	s := &source{store: r.store}
	var content bytes.Buffer
	locked := r.full()
	locked.Encrypted = true
	_, ok := errors.AsType[*backup.LockedError](s.read(t.Context(), locked, &content))
	r.Expect(ok).To(BeTrue())
	compressed := r.last
	compressed.Compression = backup.Gzip
	r.Expect(os.WriteFile(r.path(compressed), []byte("no gzip"), 0o600)).To(Succeed())
	_, ok = errors.AsType[*backup.CorruptError](s.read(t.Context(), compressed, &content))
	r.Expect(ok).To(BeTrue())
	r.Expect(content.Len()).To(BeZero())
	r.Expect(os.Remove(r.path(r.last))).To(Succeed())
	name, fetched, err := s.file(t.Context(), r.last)
	r.Expect(err).To(HaveOccurred())
	r.Expect(name).To(BeEmpty())
	r.Expect(fetched).To(BeFalse())
	r.Expect(checkPages(r.last, filepath.Join(t.TempDir(), "none"))).To(MatchError(fs.ErrNotExist))
	_, ok = errors.AsType[*backup.CorruptError](checkPages(r.last, filepath.Join(t.TempDir(), "none")))
	r.Expect(ok).To(BeFalse(), "that says nothing about the snapshot")
	_, err = s.applyAll(t.Context(), filepath.Join(t.TempDir(), "none", "db"), backup.Choice{Chain: backup.Chain{Full: &r.last}})
	r.Expect(err).To(MatchError(HavePrefix("opening the database: ")))
}

// A signature is of the whole object, also of what follows the compressed content.
func TestOnlyTheEndConfirmsASignature(t *testing.T) {
	r := newTrial(t, true)
	s := backup.Snapshot{Kind: backup.Full, LastRevision: 2, Created: r.now(), Compression: backup.Zlib}
	stream := func(content []byte) io.Reader {
		sum := sha256.Sum256(content)
		return bytes.NewReader(append(content, sum[:]...))
	}
	long := make([]byte, 1<<10)
	for i := range long {
		long[i] = byte(rand.Uint32())
	}
	s, err := r.store.Write(t.Context(), s, func(w io.Writer) error { return backup.WriteFull(w, s, stream(long)) })
	r.Expect(err).NotTo(HaveOccurred())
	var forged, read bytes.Buffer
	r.Expect(backup.WriteFull(&forged, s, stream([]byte("forged")))).To(Succeed())
	forged.Write(make([]byte, s.Size-int64(forged.Len())))
	r.Expect((&source{store: r.store}).read(t.Context(), s, &read)).To(Succeed())
	r.Expect(read.Bytes()).To(Equal(long))
	r.Expect(os.WriteFile(r.path(s), forged.Bytes(), 0o600)).To(Succeed())
	r.Expect((&source{store: r.store}).read(t.Context(), s, io.Discard)).To(MatchError(ContainSubstring("is not what was signed")))
}

// A full snapshot may have a few revisions more than its name says. A point among these is restored from it alone.
func TestAPointBeyondTheNameOfItsBase(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1", "a=2")
	base := r.fullOf(2, nil)
	hash, err := hashKV(r.oldDatabase(), 3)
	r.Expect(err).NotTo(HaveOccurred())
	config := r.into()
	config.Point = &Point{Base: base.Name(), Revision: 3, Hash: hash}
	result, err := Restore(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(result.Revision).To(BeEquivalentTo(3))
	config = r.into()
	config.Point = &Point{Base: base.Name(), Revision: 4, Hash: hash}
	_, err = Restore(t.Context(), config)
	r.Expect(err).To(MatchError(ContainSubstring("revision 4 cannot be restored: the snapshots lead to revision 3 (")))
}

// What a preview cannot read besides the keys is an error, and at the end of the store, only the comparison is missing.
func TestPreviewOfAlarmsThatCannotBeRead(t *testing.T) {
	r := newTrial(t, false)
	alarmed := func(path string) {
		in(r.WithT, path, func(tx *bolt.Tx) {
			r.Expect(bucket(r.WithT, tx, schema.Alarm.Name()).Put([]byte("\xffno message"), nil)).To(Succeed())
		})
	}
	r.put("a=1")
	r.full()
	r.put("a=2")
	r.delta()
	newest := r.fullOf(3, alarmed)
	preview := func(target backup.Target) (backup.Preview, error) {
		return Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: target})
	}
	got, err := preview(backup.Target{Revision: 2})
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.Revision).To(BeEquivalentTo(2))
	r.Expect(got.NotCompared).To(HavePrefix("reading an alarm: "))
	r.Expect(got.End).To(BeNil())
	got, err = preview(backup.Target{Snapshot: newest.Name()})
	r.Expect(err).To(MatchError(HavePrefix("reading an alarm: ")))
	r.Expect(got).To(BeZero())
}

// Reading a database leaves its file as it is, also one whose free pages are not listed in it.
func TestReadingChangesNothing(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	path := r.oldDatabase()
	r.Expect(opens(path)).To(Succeed())
	db, err := openDatabase(path)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(db.apply(backup.Event{EtcdEvent: backup.EtcdEvent{Kv: backup.KeyValue{Key: []byte("abc"), Value: []byte("12345"), ModRevision: 3}}})).To(Succeed())
	r.Expect(db.pendingBytes).To(BeEquivalentTo(8))
	r.Expect(db.close()).To(Succeed())
	before, err := os.ReadFile(path)
	r.Expect(err).NotTo(HaveOccurred())
	_, err = describe(path, &backup.Preview{})
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(defragment(path, filepath.Join(t.TempDir(), "db"))).To(Succeed())
	r.Expect(os.ReadFile(path)).To(Equal(before))
}

// Errors of single steps with files come back.
func TestStepsThatFail(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1", "a=2", "a=3")
	none := filepath.Join(t.TempDir(), "none", "db")
	r.Expect(defragment(none, filepath.Join(t.TempDir(), "db"))).To(MatchError(HavePrefix("opening the database: ")))
	r.Expect(defragment(r.oldDatabase(), none)).To(MatchError(HavePrefix("making a database: ")))
	n, err := size(none)
	r.Expect(err).To(MatchError(HavePrefix("looking up the size of the database: ")))
	r.Expect(n).To(BeZero())
	r.Expect(compactTo(t.Context(), r.oldDatabase(), 5)).To(MatchError(And(HavePrefix("compacting to revision 5: "), ContainSubstring(mvcc.ErrFutureRev.Error()))))
	_, err = hashKV(r.oldDatabase(), 5)
	r.Expect(err).To(MatchError(HavePrefix("computing HashKV at revision 5: ")))
	r.Expect(Point{Revision: 5}.verify(r.oldDatabase(), 5, nil)).To(MatchError(err))

	db, err := openDatabase(r.oldDatabase())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(db.bolt.View(func(tx *bolt.Tx) error { return grant(tx, 7, 60) })).To(MatchError(HavePrefix("writing into the database: ")))
	event := backup.Event{EtcdEvent: backup.EtcdEvent{Kv: backup.KeyValue{Key: []byte("a"), ModRevision: 5}}}
	r.Expect(db.apply(event)).To(Succeed())
	r.Expect(db.tx.Rollback()).To(Succeed())
	db.pending = batch
	event.EtcdEvent.Kv.ModRevision = 6
	r.Expect(db.apply(event)).To(MatchError(And(HavePrefix("writing into the database: "), ContainSubstring("tx closed"))))
	r.Expect(db.apply(event)).To(Succeed(), "another transaction")
	r.Expect(db.tx.Rollback()).To(Succeed())
	r.Expect(db.close()).To(MatchError(HavePrefix("writing into the database: ")))
	event.EtcdEvent.Kv.ModRevision = 7
	r.Expect(db.apply(event)).To(MatchError(And(HavePrefix("writing into the database: "), ContainSubstring("database not open"))))
}

// A transaction has as many changes, and as many bytes, as it may have, and no more.
func TestTheBoundsOfATransaction(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	db, err := openDatabase(r.oldDatabase())
	r.Expect(err).NotTo(HaveOccurred())
	first, err := db.transaction(0)
	r.Expect(err).NotTo(HaveOccurred())
	again := func(bytes int64) bool {
		tx, err := db.transaction(bytes)
		r.Expect(err).NotTo(HaveOccurred())
		return tx == first
	}
	for range batch - 1 {
		r.Expect(again(0)).To(BeTrue())
	}
	r.Expect(again(0)).To(BeFalse(), "change %d", batch+1)
	first = db.tx
	r.Expect(again(batchBytes)).To(BeTrue())
	r.Expect(again(1)).To(BeFalse())
	r.Expect(db.close()).To(Succeed())
}

// A compaction that is canceled does not wait for its end.
func TestACompactionThatIsCanceled(t *testing.T) {
	r := newTrial(t, false)
	for i := range 200 {
		r.put(fmt.Sprint("a=", i))
	}
	path := r.oldDatabase()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	// Each may be faster than the select.
	for revision := int64(2); ; revision++ {
		if err := compactTo(canceled, path, revision); err != nil {
			r.Expect(err).To(MatchError(context.Canceled))
			return
		}
		r.Expect(revision).To(BeNumerically("<", r.revision()), "none was canceled")
	}
}

// What is at rest is removed whatever becomes of it, and what keeps that from happening is said.
func TestWhatIsLeftOfReadingAtRest(t *testing.T) {
	r := newTrial(t, false)
	config := AtRestConfig{Store: r.store, WorkDir: t.TempDir(), Log: logr.Discard()}
	_, err := ReadAtRest(t.Context(), config)
	r.Expect(err).To(And(MatchError(backup.ErrNoFull), Not(MatchError(fs.ErrNotExist))))
	r.put("a=1")
	r.full()
	path := filepath.Join(config.WorkDir, "at-rest.db")
	r.Expect(os.MkdirAll(filepath.Join(path, "other"), 0o700)).To(Succeed())
	_, err = ReadAtRest(t.Context(), config)
	r.Expect(err).To(MatchError(And(ContainSubstring("making a file for snapshot"), ContainSubstring("directory not empty"))))
}

// What fits exactly is left as it is, and two prefixes that are too long become one.
func TestWhatJustFits(t *testing.T) {
	g := NewWithT(t)
	pad := func(of any, with *string) {
		*with = "x"
		text, err := json.Marshal(of)
		g.Expect(err).NotTo(HaveOccurred())
		*with += strings.Repeat("x", maxPreview-len(text))
	}
	changes := func(prefix string) backup.PrefixChanges {
		return backup.PrefixChanges{Prefix: prefix, Changes: backup.Changes{Back: 1}}
	}
	preview := backup.Preview{Prefixes: []backup.PrefixChanges{changes("a"), changes("b"), changes("c")}}
	pad(&preview, &preview.NotCompared)
	g.Expect(bounded(preview)).To(Equal(preview))
	preview.NotCompared += "x"
	g.Expect(bounded(preview).Prefixes).To(HaveLen(2))
	preview.NotCompared += strings.Repeat("x", maxPreview)
	g.Expect(bounded(preview).Prefixes).To(HaveLen(1))

	sizes := func(prefix string) backup.PrefixSizes {
		return backup.PrefixSizes{Prefix: prefix, Sizes: backup.Sizes{Keys: 1}}
	}
	found := backup.AtRest{Prefixes: []backup.PrefixSizes{sizes("a"), sizes("b")}}
	pad(&found, &found.Snapshot)
	g.Expect(fitting(found)).To(Equal(found))
	found.Snapshot, found.Prefixes[1].Prefix = found.Snapshot[:200], strings.Repeat("b", maxPreview)
	kept := fitting(found).Prefixes
	g.Expect(kept).To(HaveLen(2))
	g.Expect(len(kept[1].Prefix)).To(BeNumerically("<", 10))
	found.Prefixes[0].Prefix = strings.Repeat("a", maxPreview)
	g.Expect(fitting(found).Prefixes).To(HaveExactElements(HaveField("Keys", int64(2))))
	found.Snapshot, found.Prefixes = strings.Repeat("x", 2*maxPreview), found.Prefixes[:1]
	g.Expect(fitting(found)).To(Equal(found), "there is nothing left to leave out")
}

// open returns what the process has open.
func open(t *testing.T) (names []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Whatever is read or made is closed again.
func TestNothingStaysOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it closes files
	r := newTrial(t, false)
	r.put("a=1")
	_, err := r.store.WriteDatabase(t.Context(), r.oldDatabase(), backup.Snapshot{Kind: backup.Full, LastRevision: 2, Created: r.now(), Compression: backup.Gzip})
	r.Expect(err).NotTo(HaveOccurred())
	r.taken = 1
	r.put("a=2")
	r.delta()
	before := open(t)
	for name, do := range map[string]func() error{
		"restore": func() error { _, err := Restore(t.Context(), r.into()); return err },
		"preview": func() error {
			_, err := Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: backup.Target{Latest: true}})
			return err
		},
		"at rest": func() error {
			_, err := ReadAtRest(t.Context(), AtRestConfig{Store: r.store, WorkDir: t.TempDir()})
			return err
		},
		"compact": func() error {
			_, err := Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir()})
			return err
		},
	} {
		r.Expect(do()).To(Succeed(), name)
		r.Expect(open(t)).To(ConsistOf(before), name)
	}
}

// Prefixes below which as much is stored are in the order of their names; nothing is said of others if there are none.
func TestTheOrderOfSizes(t *testing.T) {
	g := NewWithT(t)
	keys := newKeySpace()
	for i := range hotprefix.EnoughKeys {
		keys.put(fmt.Appendf(nil, "/b/0/%d", i), nil)
		keys.put(fmt.Appendf(nil, "/a/0/%d", i), nil)
		keys.put(fmt.Appendf(nil, "/c/0/%d", i), []byte("1"))
	}
	_, prefixes := keys.sizes()
	names := []string{}
	for _, p := range prefixes {
		names = append(names, p.Prefix[:3])
	}
	g.Expect(names).To(Equal([]string{"/c/", "/a/", "/b/"}))
}

// So are those with as many changes, behind those with more.
func TestTheOrderOfChanges(t *testing.T) {
	g := NewWithT(t)
	then := newKeySpace()
	for i := range 2 * hotprefix.EnoughKeys {
		for _, prefix := range []string{"d", "b", "c", "a", "e"} {
			if i < hotprefix.EnoughKeys || prefix == "e" {
				then.put(fmt.Appendf(nil, "/%s/0/%d", prefix, i), nil)
			}
		}
	}
	_, prefixes := then.changesFrom(newKeySpace())
	names := ""
	for _, p := range prefixes {
		names += p.Prefix[1:2]
	}
	g.Expect(names).To(Equal("eabcd"))
}

// The age of a snapshot is that of the newest that it has.
func TestTheDateOfACompaction(t *testing.T) {
	g := NewWithT(t)
	full := backup.Snapshot{Kind: backup.Full, Created: noon, Prefix: "p"}
	g.Expect(compactedName(backup.Chain{Full: &full}, 7, backup.Gzip)).To(Equal(backup.Snapshot{
		Kind: backup.Full, LastRevision: 7, Created: noon.Add(time.Second), Compression: backup.Gzip, Prefix: "p",
	}))
	deltas := []backup.Snapshot{{Created: noon.Add(time.Minute)}, {Created: noon.Add(time.Hour)}}
	g.Expect(compactedName(backup.Chain{Full: &full, Deltas: deltas}, 7, backup.None).Created).To(Equal(noon.Add(time.Hour)))
}
