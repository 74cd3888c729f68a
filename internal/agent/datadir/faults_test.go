// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// withDatabase returns the data directory of a member whose log has some requests, and whose database has all up to an entry.
func withDatabase(t *testing.T, applied uint64, requests ...[]byte) (dir string) {
	t.Helper()
	g := NewWithT(t)
	base, err := Copy(t.Context(), CopyConfig{DataDir: newMember(t, 3, requests[:applied-2]...), ClusterID: "cafe", WorkDir: t.TempDir(), Log: testr.New(t)})
	g.Expect(err).NotTo(HaveOccurred())
	setAppliedIn(g, base.File, position{2, applied})
	dir = newMember(t, 3, requests...)
	g.Expect(os.Rename(base.File, filepath.Join(dir, "member", "snap", "db"))).To(Succeed())
	return dir
}

func setAppliedIn(g Gomega, path string, p position) {
	update(g, path, func(tx *bolt.Tx) error {
		meta := tx.Bucket(schema.Meta.Name())
		return errors.Join(
			meta.Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, p.index)),
			meta.Put(schema.MetaTermKeyName, binary.BigEndian.AppendUint64(nil, p.term)))
	})
}

func update(g Gomega, path string, change func(*bolt.Tx) error) {
	db, err := bolt.Open(path, 0o600, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.Update(change)).To(Succeed())
	g.Expect(db.Close()).To(Succeed())
}

// Of a member that has a database, only the entries that it lacks are applied, to a copy.
func TestCopyAppliesWhatTheDatabaseLacks(t *testing.T) {
	for applied, lacks := range map[uint64]uint64{3: 2, 5: 0} {
		g := NewWithT(t)
		dir := withDatabase(t, applied, datadirtest.Put("a", "1", 0), datadirtest.Put("b", "2", 0), datadirtest.Put("a", "3", 0))
		before := content(g, dir)
		got, err := Copy(t.Context(), CopyConfig{DataDir: dir, ClusterID: "cafe", WorkDir: t.TempDir(), Log: testr.New(t)})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Replayed).To(Equal(lacks), "after entry %d", applied)
		g.Expect(got.Revision).To(Equal(int64(4)))
		g.Expect(valueIn(g, got.File, "a")).To(Equal("3"))
		g.Expect(valueIn(g, got.File, "b")).To(Equal("2"))
		g.Expect(content(g, dir)).To(Equal(before))
	}
}

// A copy that cannot be made says why, and is no result.
func TestCopyThatFails(t *testing.T) {
	blocked := func(work string) error { return os.Mkdir(filepath.Join(work, "database.db"), 0o700) }
	for name, tc := range map[string]struct {
		requests [][]byte
		harm     func(work string) error
		says     string
	}{
		"no folder":                    {nil, os.Remove, "looking up the space on the volume of"},
		"a folder in place of the new": {nil, blocked, "making a database: "},
		"an entry that cannot be read": {[][]byte{[]byte("this is no request")}, func(string) error { return nil }, "applying entry 3 of term 2"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			work := t.TempDir()
			g.Expect(tc.harm(work)).To(Succeed())
			got, err := Copy(t.Context(), CopyConfig{DataDir: newMember(t, 3, tc.requests...), ClusterID: "cafe", WorkDir: work, Log: testr.New(t)})
			g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
			g.Expect(got).To(BeZero())
		})
	}
	g := NewWithT(t)
	work := t.TempDir()
	g.Expect(blocked(work)).To(Succeed())
	dir := withDatabase(t, 3, datadirtest.Put("a", "1", 0))
	_, err := Copy(t.Context(), CopyConfig{DataDir: dir, ClusterID: "cafe", WorkDir: work, Log: testr.New(t)})
	g.Expect(err).To(MatchError(HavePrefix("making a file for the database: ")))
	db := filepath.Join(dir, "member", "snap", "db")
	g.Expect(copyDatabase(testr.New(t), database{path: db + "2"}, filepath.Join(t.TempDir(), "db"))).To(MatchError(HavePrefix("opening the database: ")))
	g.Expect(copyDatabase(testr.New(t), database{path: db}, "/dev/full")).To(MatchError(unix.ENOSPC))
}

// While something takes long, its progress is logged; no longer than it takes.
func TestProgressIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var logged []string
		n := 0
		stop := tell(logr.New(funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}).GetSink()), "Copying", func() []any {
			n++
			return []any{"bytes", n}
		})
		<-time.After(2*tellInterval + time.Second)
		stop()
		<-time.After(2 * tellInterval)
		g.Expect(logged).To(HaveExactElements(
			And(ContainSubstring(`"Copying"`), ContainSubstring(`"bytes"=1`)), ContainSubstring(`"bytes"=2`)))
	})
}

func TestSizes(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "file")
	g.Expect(size(file)).To(BeZero())
	g.Expect(os.WriteFile(file, make([]byte, 7), 0o600)).To(Succeed())
	g.Expect(size(file)).To(Equal(int64(7)))
	free, err := freeSpace(filepath.Dir(file))
	g.Expect(err).NotTo(HaveOccurred())
	var volume unix.Statfs_t
	g.Expect(unix.Statfs(file, &volume)).To(Succeed())
	g.Expect(free).To(And(BeNumerically(">", volume.Bsize), BeNumerically("<=", int64(volume.Blocks)*volume.Bsize)))
	s := stopped{database: database{bytes: 100}, log: &writeAheadLog{bytes: 10}}
	g.Expect(s.needs()).To(Equal(120 + 2*wal.SegmentSizeBytes))
}

// A rebuild that fails leaves the data under its name, and nothing beside it. What is set aside never replaces what was set aside before.
func TestRebuildThatFails(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx    context.Context
		change func(g Gomega, c *RebuildConfig)
		says   string
	}{
		"canceled":                     {canceled, func(Gomega, *RebuildConfig) {}, "context canceled"},
		"without data":                 {t.Context(), func(_ Gomega, c *RebuildConfig) { c.From = c.DataDir + "-none" }, "the write-ahead log"},
		"a revision that is too large": {t.Context(), func(_ Gomega, c *RebuildConfig) { c.Known = 1<<63 - 1 }, "cannot be added to revision 2"},
		"a wrong peer URL":             {t.Context(), func(_ Gomega, c *RebuildConfig) { c.PeerURL = "m" }, "making a data directory from"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := newMember(t, 3, datadirtest.Put("a", "1", 0))
			before := content(g, dir)
			config := configFor(t, dir)
			tc.change(g, &config)
			got, err := Rebuild(tc.ctx, config)
			g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
			g.Expect(got).To(BeZero())
			g.Expect(content(g, dir)).To(Equal(before))
			g.Expect(filepath.Glob(dir + "*")).To(ConsistOf(dir))
		})
	}
}

func TestRebuildReplacesNothingThatWasSetAside(t *testing.T) {
	g := NewWithT(t)
	dir := newMember(t, 3, datadirtest.Put("a", "1", 0))
	aside := dir + member.BeforeSuffix + "task-1234"
	g.Expect(os.Mkdir(aside, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(aside, "kept"), []byte("kept"), 0o600)).To(Succeed())
	before := content(g, dir)
	_, err := Rebuild(t.Context(), configFor(t, dir))
	g.Expect(err).To(MatchError(HavePrefix("setting the previous data aside: ")))
	g.Expect(content(g, dir)).To(Equal(before))
	g.Expect(os.ReadFile(filepath.Join(aside, "kept"))).To(BeEquivalentTo("kept"))
	g.Expect(os.RemoveAll(aside)).To(Succeed())
	_, err = Rebuild(t.Context(), configFor(t, dir))
	g.Expect(err).NotTo(HaveOccurred(), "it was rebuilt, and only the renames were left")
	g.Expect(value(g, dir, "a")).To(Equal("1"))
	g.Expect(content(g, aside)).To(Equal(before))
}

// Without the volume of the data directory there is neither a rebuild nor a result.
func TestRebuildWithoutAVolume(t *testing.T) {
	g := NewWithT(t)
	config := configFor(t, filepath.Join(t.TempDir(), "none", "new.etcd"))
	config.From = newMember(t, 3, datadirtest.Put("a", "1", 0))
	_, err := Rebuild(t.Context(), config)
	g.Expect(err).To(MatchError(And(HavePrefix("checking for free space: looking up the space on the volume of "), HaveSuffix(": grow the volume"))))
	g.Expect(Swap(config.DataDir, config.Task, config.Clock)).To(MatchError(HavePrefix("giving the rebuilt data its name: ")))
	file := filepath.Join(t.TempDir(), "file")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	rebuilt, err := Rebuilt(filepath.Join(file, "new.etcd"), "task")
	g.Expect(err).To(MatchError(HavePrefix("looking for an interrupted rebuild: ")))
	g.Expect(rebuilt).To(BeFalse())
	g.Expect(Leftovers("/data/new.etcd")).To(Equal([]string{"/data/new.etcd.rebuilding", "/data/new.etcd.rebuilt-*", "/data/new.etcd.copy-*", "/data/new.etcd.restoring"}))
}

// What members publish of themselves is not that of the new cluster; the revision is raised as asked; data that was kept stays.
func TestRebuildFromKeptData(t *testing.T) {
	g := NewWithT(t)
	kept := newMember(t, 3, datadirtest.Put("a", "1", 0), datadirtest.Encode(&etcdserverpb.InternalRaftRequest{
		Header:               &etcdserverpb.RequestHeader{ID: 2},
		ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{Member_ID: 7, MemberAttributes: &membershippb.Attributes{Name: "old"}},
	}))
	before := content(g, kept)
	config := configFor(t, filepath.Join(t.TempDir(), "new.etcd"))
	config.From, config.Known = kept, 10
	g.Expect(os.Mkdir(config.DataDir, 0o700)).To(Succeed())
	got, err := Rebuild(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(RebuildResult{Revision: 2, Replayed: 4, Uncommitted: 1}))
	g.Expect(content(g, kept)).To(Equal(before))
	g.Expect(value(g, config.DataDir, "a")).To(Equal("1"))
	survey, err := Survey(config.DataDir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(survey.Revision).To(Equal(int64(10 + Margin)))
}

// A rebuilt cluster continues above the highest revision that is known of the one before, and above its own.
func TestRebuildContinuesAboveWhatIsKnown(t *testing.T) {
	for known, want := range map[int64]int64{0: 2, 1: 2 + Margin, 9: 9 + Margin} {
		g := NewWithT(t)
		config := configFor(t, newMember(t, 3, datadirtest.Put("a", "1", 0)))
		config.Known = known
		got, err := Rebuild(t.Context(), config)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Revision).To(Equal(int64(2)))
		survey, err := Survey(config.DataDir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(survey.Revision).To(Equal(want))
	}
}

// A database tells its voters, not its learners, and its revision by the last change or the last compaction.
func TestWhatADatabaseSays(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	g.Expect(makeDatabase(path)).To(Succeed())
	revision := func() (revision int64) {
		g.Expect(view(path, func(tx *bolt.Tx) error { revision = revisionOf(tx); return nil })).To(Succeed())
		return revision
	}
	g.Expect(revision()).To(Equal(int64(1)))
	for _, c := range []struct {
		key []byte
		at  int64
	}{{schema.FinishedCompactKeyName, 4}, {schema.ScheduledCompactKeyName, 9}} {
		update(g, path, func(tx *bolt.Tx) error {
			return tx.Bucket(schema.Meta.Name()).Put(c.key, mvcc.RevToBytes(mvcc.Revision{Main: c.at}, mvcc.NewRevBytes()))
		})
		g.Expect(revision()).To(Equal(c.at))
	}
	update(g, path, func(tx *bolt.Tx) error {
		return errors.Join(
			tx.Bucket(schema.Members.Name()).Put([]byte("0a"), []byte(`{"id":10}`)),
			tx.Bucket(schema.Members.Name()).Put([]byte("0b"), []byte(`{"id":11,"isLearner":true}`)))
	})
	db, err := describe(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(db.voters).To(Equal(map[uint64]bool{10: true}))
	update(g, path, func(tx *bolt.Tx) error { return tx.Bucket(schema.Members.Name()).Put([]byte("0c"), []byte(`{`)) })
	_, err = describe(path)
	g.Expect(err).To(MatchError(HavePrefix("reading a member: ")))
}

// The hash of a database is what "etcdutl snapshot status" says, and changes with every part of it.
func TestHashIsThatOfEtcdutl(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	g.Expect(makeDatabase(path)).To(Succeed())
	seen := map[uint32]bool{}
	for _, change := range []func(*bolt.Tx) error{
		func(*bolt.Tx) error { return nil },
		func(tx *bolt.Tx) error {
			return tx.Bucket(schema.Members.Name()).Put([]byte("0a"), []byte(`{"id":10}`))
		},
		func(tx *bolt.Tx) error {
			return tx.Bucket(schema.Members.Name()).Put([]byte("0a"), []byte(`{"id":11}`))
		},
		func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("empty")); return err },
	} {
		update(g, path, change)
		db := database{path: path}
		g.Expect(db.check()).To(Succeed())
		status, err := snapshot.NewV3(quiet).Status(path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(db.hash).To(Equal(status.Hash))
		g.Expect(seen[db.hash]).To(BeFalse())
		seen[db.hash] = true
	}
}

// A disk that fails while a database is read, and a page that bbolt stumbles over, are errors, and do not end the agent.
func TestReadingFails(t *testing.T) {
	g := NewWithT(t)
	none := filepath.Join(t.TempDir(), "none")
	g.Expect(read(none)).To(MatchError(os.ErrNotExist))
	g.Expect(read(t.TempDir())).To(MatchError(unix.EISDIR))
	g.Expect((&database{path: none}).check()).To(MatchError(os.ErrNotExist))
	g.Expect((&database{}).check()).To(Succeed(), "there is none")
	g.Expect(view(none, func(*bolt.Tx) error { return nil })).NotTo(Succeed())
	path := filepath.Join(t.TempDir(), "db")
	g.Expect(makeDatabase(path)).To(Succeed())
	g.Expect(view(path, func(*bolt.Tx) error { panic("a loop") })).To(MatchError("reading a page: a loop"))
	update(g, path, func(tx *bolt.Tx) error {
		for i := range 100 {
			if err := tx.Bucket(schema.Meta.Name()).Put(fmt.Append(nil, i), make([]byte, 1000)); err != nil {
				return err
			}
		}
		return nil
	})
	g.Expect(view(path, func(tx *bolt.Tx) error {
		g.Expect(os.Truncate(path, 0)).To(Succeed())
		return tx.Bucket(schema.Meta.Name()).ForEach(func(_, _ []byte) error { return nil })
	})).To(MatchError(HavePrefix("reading a page: ")), "a page that is not in the file any more")
}

// A database without its log is described as far as it can be.
func TestSurveyOfADatabaseThatIsDamagedAndHasNoLog(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	g.Expect(os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "member", "snap", "db"), make([]byte, 65536), 0o600)).To(Succeed())
	got, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.State).To(Equal(member.SurveyDamaged))
	g.Expect(got.Bytes).To(Equal(int64(65536)))
}

// The part of a log that a snapshot of the leader replaces is in the database that came with it. Where that is unreadable, there is none.
func TestReceivedDatabaseThatIsDamaged(t *testing.T) {
	g := NewWithT(t)
	snap := t.TempDir()
	_, err := findDatabase(snap, position{1, 16})
	g.Expect(err).To(MatchError(errNoDatabase))
	g.Expect(os.WriteFile(filepath.Join(snap, "0000000000000010.snap.db"), make([]byte, 65536), 0o600)).To(Succeed())
	_, err = findDatabase(snap, position{1, 16})
	g.Expect(err).To(MatchError(ContainSubstring("invalid database")))
	g.Expect(os.WriteFile(filepath.Join(snap, "db"), make([]byte, 65536), 0o600)).To(Succeed())
	_, err = findDatabase(snap, position{})
	g.Expect(err).To(MatchError(ContainSubstring("invalid database")))
}

// Pages that are neither used nor free are damage, too, and counted.
func TestSurveyFindsLostPages(t *testing.T) {
	for lost, says := range map[int]string{1: "unreachable unfreed$", 2: "unreachable unfreed, and 1 more flaws$"} {
		g := NewWithT(t)
		dir := withDatabase(t, 3, datadirtest.Put("a", "1", 0))
		db := filepath.Join(dir, "member", "snap", "db")
		for i := range 20 {
			update(g, db, func(tx *bolt.Tx) error {
				return tx.Bucket(schema.Meta.Name()).Put([]byte(fmt.Sprint(i)), make([]byte, 3000))
			})
		}
		shortenFreelist(g, db, lost)
		got, err := Survey(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.State).To(Equal(member.SurveyDamaged))
		g.Expect(got.Damage).To(And(HavePrefix("the database: page "), MatchRegexp(says)))
	}
}

// shortenFreelist removes pages from the end of a database's list of free pages.
func shortenFreelist(g Gomega, path string, n int) {
	data, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	u64, page := binary.LittleEndian.Uint64, os.Getpagesize()
	meta := data[16:]
	if other := data[page+16:]; u64(other[48:]) > u64(meta[48:]) {
		meta = other
	}
	count := data[int(u64(meta[32:]))*page+10:]
	g.Expect(binary.LittleEndian.Uint16(count)).To(BeNumerically(">=", n))
	binary.LittleEndian.PutUint16(count, binary.LittleEndian.Uint16(count)-uint16(n))
	g.Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
}

// A database that is ahead of its log has entries that the log lost: the later one counts, as in an election.
func TestSurveyOfADatabaseAheadOfItsLog(t *testing.T) {
	for applied, last := range map[position]position{{3, 3}: {3, 3}, {2, 9}: {2, 9}, {1, 9}: {2, 4}} {
		g := NewWithT(t)
		dir := withDatabase(t, 3, datadirtest.Put("a", "1", 0), datadirtest.Put("b", "2", 0))
		setAppliedIn(g, filepath.Join(dir, "member", "snap", "db"), applied)
		got, err := Survey(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(position{got.LastTerm, got.LastIndex}).To(Equal(last), got.Damage)
		g.Expect([]uint64{got.AppliedIndex, got.CommitIndex}).To(Equal([]uint64{applied.index, 3}))
		g.Expect(got.MemberID).To(Equal("7"))
	}
}

// What cannot be read for reasons of the disk is not called damage: a member whose data is damaged is replaced.
func TestErrorsOfTheDiskAreNoDamage(t *testing.T) {
	for name, harm := range map[string]func(g Gomega, dir string) error{
		"a file of the log": func(g Gomega, dir string) error {
			return os.Mkdir(filepath.Join(dir, "member", "wal", "ffffffffffffffff-ffffffffffffffff.wal"), 0o700)
		},
		"an older file of the log": func(g Gomega, dir string) error {
			name := filepath.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal")
			return errors.Join(os.Rename(name, filepath.Join(filepath.Dir(name), "0000000000000001-0000000000000001.wal")), os.Mkdir(name, 0o700))
		},
		"the name of the database": func(g Gomega, dir string) error {
			return os.Symlink("db", filepath.Join(dir, "member", "snap", "db"))
		},
		"the name of the database, without a log": func(g Gomega, dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "member", "wal")), os.Symlink("db", filepath.Join(dir, "member", "snap", "db")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := newMember(t, 3, datadirtest.Put("a", "1", 0))
			g.Expect(harm(g, dir)).To(Succeed())
			got, err := Survey(dir)
			g.Expect(err).To(MatchError(ContainSubstring("reading ")))
			g.Expect(isIOError(err)).To(BeTrue())
			g.Expect(got).To(BeZero())
			if !strings.HasSuffix(name, "without a log") {
				data, err := Inspect(dir)
				g.Expect(isIOError(err)).To(BeTrue(), "%v", err)
				g.Expect(data).To(BeZero())
			}
		})
	}
	g := NewWithT(t)
	g.Expect(isIOError(nil)).To(BeFalse())
	g.Expect(isIOError(errors.New("a page"))).To(BeFalse())
	g.Expect(isIOError(fmt.Errorf("reading: %w", os.NewSyscallError("read", unix.EIO)))).To(BeTrue())
	file := filepath.Join(t.TempDir(), "file")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	_, _, err := Writer(file)
	g.Expect(err).To(HaveOccurred())
	_, err = Survey(filepath.Join(t.TempDir(), "none", "new.etcd"))
	g.Expect(err).To(MatchError(HavePrefix("looking up the space on the volume of ")))
	_, err = Survey(filepath.Join(t.TempDir(), "[", "new.etcd"))
	g.Expect(err).To(MatchError(HavePrefix("looking for data beside ")))
}

// appendRecord appends a record with a correct checksum to a log.
func appendRecord(g Gomega, path string, kind int64, data []byte) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(file.Close()).To(Succeed()) }()
	decoder, record := wal.NewDecoder(fileutil.NewFileReader(file)), &walpb.Record{}
	for decoder.Decode(record) == nil {
		if record.GetType() == wal.CrcType {
			decoder.UpdateCRC(record.GetCrc())
		}
	}
	encoded, err := proto.Marshal(&walpb.Record{
		Type: proto.Int64(kind), Data: data, Crc: proto.Uint32(crc32.Update(decoder.LastCRC(), crc32.MakeTable(crc32.Castagnoli), data)),
	})
	g.Expect(err).NotTo(HaveOccurred())
	length, padding := uint64(len(encoded)), (8-len(encoded)%8)%8
	if padding > 0 {
		length |= uint64(0x80|padding) << 56
	}
	frame := append(binary.LittleEndian.AppendUint64(nil, length), encoded...)
	_, err = file.WriteAt(append(frame, make([]byte, padding)...), decoder.LastOffset())
	g.Expect(err).NotTo(HaveOccurred())
}

// A log with correct checksums may have content that cannot be understood, or entries that are missing: it is damaged, and not cut there.
func TestLogThatCannotBeUnderstood(t *testing.T) {
	for name, tc := range map[string]struct {
		kind int64
		data []byte
		says string
	}{
		"metadata":      {wal.MetadataType, []byte{0xff}, "decoding the metadata"},
		"an entry":      {wal.EntryType, []byte{0xff}, "decoding an entry"},
		"a gap":         {wal.EntryType, datadirtest.Encode(&raftpb.Entry{Index: proto.Uint64(9), Term: proto.Uint64(2)}), "entries 4 to 8 are missing"},
		"a conf change": {wal.EntryType, datadirtest.Encode(&raftpb.Entry{Index: proto.Uint64(4), Term: proto.Uint64(2), Type: raftpb.EntryConfChange.Enum(), Data: []byte{0xff}}), "decoding a change of members"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := newMember(t, 3, datadirtest.Put("a", "1", 0))
			appendRecord(g, filepath.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal"), tc.kind, tc.data)
			got, err := Survey(dir)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.State).To(Equal(member.SurveyDamaged))
			g.Expect(got.Damage).To(And(HavePrefix("the write-ahead log: "), ContainSubstring(tc.says)))
		})
	}
	g := NewWithT(t)
	l := &writeAheadLog{}
	g.Expect(l.take(&walpb.Record{Type: proto.Int64(wal.StateType), Data: []byte{0xff}})).To(MatchError(HavePrefix("decoding the state: ")))
	g.Expect(l.take(&walpb.Record{Type: proto.Int64(wal.SnapshotType), Data: []byte{0xff}})).To(MatchError(HavePrefix("decoding a snapshot: ")))
}

// A log is read twice. What is different the second time is found.
func TestLogThatChangesWhileItIsRead(t *testing.T) {
	smallSegments(t)
	visit := func(*raftpb.Entry) error { return nil }
	for name, tc := range map[string]struct {
		change func(g Gomega, file string)
		says   string
	}{
		"truncated": {func(g Gomega, file string) { g.Expect(os.Truncate(file, 300)).To(Succeed()) }, "the log has changed: entry "},
		"appended":  {func(g Gomega, file string) { appendRecord(g, file, wal.EntryType, []byte{0xff}) }, "decoding an entry: "},
		"a file that is gone": {func(g Gomega, file string) {
			g.Expect(os.Symlink("nowhere", filepath.Join(filepath.Dir(file), "ffffffffffffffff-ffffffffffffffff.wal"))).To(Succeed())
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, filepath.Join(t.TempDir(), "wal"))
			l.write(1, 1, 9, 8)
			l.close()
			log, err := readLog(l.dir)
			l.Expect(err).NotTo(HaveOccurred())
			l.Expect(log.bytes).To(Equal(int64(9 * 2)))
			l.Expect(log.entries(0, visit)).To(Succeed())
			stop := errors.New("stop")
			l.Expect(log.entries(0, func(*raftpb.Entry) error { return stop })).To(MatchError(stop))
			tc.change(l, filepath.Join(l.dir, "0000000000000000-0000000000000000.wal"))
			l.Expect(log.entries(0, visit)).To(MatchError(ContainSubstring(tc.says)))
		})
	}
}

// A restore that fails says so, and does not leave what it has made on the way.
func TestFoundThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(g Gomega, file string, config *snapshot.RestoreConfig)
		says string
	}{
		"a folder that has data": {func(g Gomega, _ string, c *snapshot.RestoreConfig) {
			g.Expect(os.MkdirAll(filepath.Join(c.OutputDataDir, "member"), 0o700)).To(Succeed())
		}, "data-dir"},
		"no snapshot": {func(g Gomega, file string, _ *snapshot.RestoreConfig) { g.Expect(os.Remove(file)).To(Succeed()) }, "moving the database: "},
		"no database": {func(g Gomega, file string, _ *snapshot.RestoreConfig) {
			g.Expect(os.WriteFile(file, make([]byte, 65536), 0o600)).To(Succeed())
		}, "opening the database: "},
	} {
		t.Run(name, func(t *testing.T) {
			g, dir := NewWithT(t), t.TempDir()
			file := filepath.Join(dir, "snapshot.db")
			g.Expect(makeDatabase(file)).To(Succeed())
			config := snapshot.RestoreConfig{
				SkipHashCheck: true, OutputDataDir: filepath.Join(dir, "moved"),
				Name: "m", PeerURLs: []string{"http://127.0.0.1:2380"}, InitialCluster: "m=http://127.0.0.1:2380", InitialClusterToken: "token",
			}
			tc.harm(g, file, &config)
			g.Expect(Found(file, config)).To(MatchError(ContainSubstring(tc.says)))
			g.Expect(file + ".empty").NotTo(BeAnExistingFile())
		})
	}
}

// An empty database that cannot be made, since the volume is full, is an error: a panic would be taken for a corrupt snapshot.
func TestADatabaseThatCannotBeMade(t *testing.T) {
	g := NewWithT(t)
	g.Expect(makeDatabase("/dev/full")).To(MatchError(unix.ENOSPC))
	file := filepath.Join(t.TempDir(), "snapshot.db")
	g.Expect(os.Mkdir(file+".empty", 0o700)).To(Succeed())
	g.Expect(Found(file, snapshot.RestoreConfig{})).To(MatchError(HavePrefix("making a database: ")))
}

// What a survey says of damage has a limit, and ends where a character does.
func TestShorten(t *testing.T) {
	g := NewWithT(t)
	fits := strings.Repeat("x", maxDamage)
	g.Expect(shorten(fits)).To(Equal(fits))
	g.Expect(shorten(fits + "y")).To(Equal(fits + " ..."))
	long := shorten("x" + strings.Repeat("ä", maxDamage))
	g.Expect(utf8.ValidString(long)).To(BeTrue())
	g.Expect(long).To(HaveSuffix("ä ..."))
}
