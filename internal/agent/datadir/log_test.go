// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// testLog writes a log as etcd does.
type testLog struct {
	Gomega
	dir string
	wal *wal.WAL
}

func newLog(t *testing.T, dir string) *testLog {
	l := &testLog{Gomega: NewWithT(t), dir: dir}
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: proto.Uint64(7), ClusterID: proto.Uint64(0xcafe)})
	l.Expect(err).NotTo(HaveOccurred())
	l.wal, err = wal.Create(zap.NewNop(), l.dir, metadata)
	l.Expect(err).NotTo(HaveOccurred())
	l.wal.SetUnsafeNoFsync()
	return l
}

// smallSegments makes the files of a log small.
func smallSegments(t *testing.T) {
	before := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 4096
	t.Cleanup(func() { wal.SegmentSizeBytes = before })
}

// write writes entries of a term up to an index, and the commit index.
func (l *testLog) write(term, from, to, commit uint64) {
	var entries []*raftpb.Entry
	for i := from; i <= to; i++ {
		entries = append(entries, &raftpb.Entry{Index: proto.Uint64(i), Term: proto.Uint64(term), Data: []byte{byte(term), byte(i)}})
	}
	l.Expect(l.wal.Save(&raftpb.HardState{Term: proto.Uint64(term), Commit: proto.Uint64(commit)}, entries)).To(Succeed())
}

func (l *testLog) snapshot(term, index uint64) {
	l.Expect(l.wal.SaveSnapshot(&walpb.Snapshot{Index: proto.Uint64(index), Term: proto.Uint64(term), ConfState: &raftpb.ConfState{}})).To(Succeed())
}

func (l *testLog) close() { l.Expect(l.wal.Close()).To(Succeed()) }

// read returns the log, and the data of its entries after an index and the snapshot.
func (l *testLog) read(after uint64) (*writeAheadLog, [][]byte) {
	log, err := readLog(l.dir)
	l.Expect(err).NotTo(HaveOccurred())
	var data [][]byte
	l.Expect(log.entries(max(after, log.snapshot.index), func(e *raftpb.Entry) error {
		data = append(data, e.Data)
		return nil
	})).To(Succeed())
	return log, data
}

func TestLog(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(*testLog)
		last  position
		// entries are the data of the entries after the snapshot.
		entries [][]byte
	}{
		{"nothing", func(*testLog) {}, position{}, nil},
		{"entries", func(l *testLog) { l.write(1, 1, 3, 1) }, position{1, 3}, [][]byte{{1, 1}, {1, 2}, {1, 3}}},
		{
			"overwritten entries", func(l *testLog) { l.write(1, 1, 4, 1); l.write(2, 2, 3, 3) },
			position{2, 3},
			[][]byte{{1, 1}, {2, 2}, {2, 3}},
		},
		{
			"a snapshot of its own", func(l *testLog) { l.write(1, 1, 4, 3); l.snapshot(1, 2); l.write(1, 5, 5, 4) },
			position{1, 5},
			[][]byte{{1, 3}, {1, 4}, {1, 5}},
		},
		{
			"two snapshots", func(l *testLog) { l.write(1, 1, 4, 4); l.snapshot(1, 2); l.snapshot(1, 4); l.write(1, 5, 5, 4) },
			position{1, 5},
			[][]byte{{1, 5}},
		},
		{
			"the snapshot of a leader", func(l *testLog) { l.write(1, 1, 4, 1); l.snapshot(3, 9); l.write(3, 10, 10, 9) },
			position{3, 10},
			[][]byte{{3, 10}},
		},
		{
			"the snapshot of a leader, before uncommitted entries", func(l *testLog) { l.write(1, 1, 9, 1); l.snapshot(3, 6); l.write(3, 7, 7, 6) },
			position{3, 7},
			[][]byte{{3, 7}},
		},
		{
			"the snapshot of a leader, without entries", func(l *testLog) { l.write(1, 1, 9, 1); l.snapshot(3, 6); l.write(3, 1, 0, 6) },
			position{3, 6}, nil,
		},
		{
			"a snapshot beyond the commit index", func(l *testLog) { l.write(1, 1, 4, 1); l.snapshot(3, 9) },
			position{1, 4},
			[][]byte{{1, 1}, {1, 2}, {1, 3}, {1, 4}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			smallSegments(t)
			l := newLog(t, filepath.Join(t.TempDir(), "wal"))
			tc.write(l)
			l.close()
			log, entries := l.read(0)
			l.Expect(log.clusterID).To(Equal(uint64(0xcafe)))
			l.Expect(log.memberID).To(Equal(uint64(7)))
			l.Expect(log.last()).To(Equal(tc.last))
			l.Expect(entries).To(Equal(tc.entries))
		})
	}
}

// A log of several files.
func TestLogFiles(t *testing.T) {
	smallSegments(t)
	g := NewWithT(t)
	l := newLog(t, filepath.Join(t.TempDir(), "wal"))
	for i := uint64(1); i <= 250; i++ {
		l.write(1, i, i, i-1)
	}
	l.close()
	files, err := logFiles(l.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(files)).To(BeNumerically(">", 3))
	clusterID, memberID, err := identity(filepath.Join(l.dir, files[len(files)-1]))
	g.Expect([]uint64{clusterID, memberID}, err).To(Equal([]uint64{0xcafe, 7}), "each file names the member, after the checksum of those before")
	log, entries := l.read(240)
	g.Expect(log.last()).To(Equal(position{1, 250}))
	g.Expect(log.commit).To(Equal(uint64(249)))
	g.Expect(entries).To(HaveLen(10))

	path := func(i int) string { return filepath.Join(l.dir, files[(i+len(files))%len(files)]) }
	size := func(i int) int64 {
		info, err := os.Stat(path(i))
		g.Expect(err).NotTo(HaveOccurred())
		return info.Size()
	}
	for name, tc := range map[string]struct {
		harm func()
		says string
	}{
		"a file in the middle ends in an entry": {func() { g.Expect(os.Truncate(path(1), size(1)-5)).To(Succeed()) }, "files are complete"},
		"a file in the middle is gone":          {func() { g.Expect(os.Remove(path(1))).To(Succeed()) }, "crc mismatch"},
		"the last file is empty":                {func() { g.Expect(os.Truncate(path(-1), 0)).To(Succeed()) }, "files are complete"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			copied := filepath.Join(t.TempDir(), "wal")
			g.Expect(os.CopyFS(copied, os.DirFS(l.dir))).To(Succeed())
			original := l.dir
			l.dir = copied
			defer func() { l.dir = original }()
			tc.harm()
			_, err := readLog(copied)
			g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
			g.Expect(isIOError(err)).To(BeFalse())
		})
	}
}

// The entry that was being written when the machine stopped does not count; those before it do.
func TestLogWithATornTail(t *testing.T) {
	smallSegments(t)
	for cut := int64(1); cut < 40; cut++ {
		l := newLog(t, filepath.Join(t.TempDir(), "wal"))
		l.write(1, 1, 9, 8)
		end, err := os.ReadFile(filepath.Join(l.dir, "0000000000000000-0000000000000000.wal"))
		l.Expect(err).NotTo(HaveOccurred())
		l.close()
		n := int64(len(end))
		for end[n-1] == 0 {
			n--
		}
		l.Expect(os.Truncate(filepath.Join(l.dir, "0000000000000000-0000000000000000.wal"), n-cut)).To(Succeed())
		log, entries := l.read(0)
		l.Expect(log.last().index).To(BeNumerically(">=", 8))
		l.Expect(entries).To(HaveLen(int(log.last().index)))
	}
}
