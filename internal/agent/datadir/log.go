// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// position of an entry. It is unique in a cluster.
type position struct{ term, index uint64 }

// compare compares two logs by their last entries, as raft does in an election.
func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.term, q.term), cmp.Compare(p.index, q.index))
}

// writeAheadLog is the log of a member without the content of its entries, which is read again when needed, to bound memory.
type writeAheadLog struct {
	dir                 string
	clusterID, memberID uint64
	// commit is the last commit index that was written. Entries after it may be committed and acknowledged, because the member
	// learns and writes that later.
	commit uint64
	// snapshot is the position up to which everything is in the database.
	snapshot position
	// configuration has the voters at the snapshot; nil if the log does not have them.
	configuration *raftpb.ConfState
	// terms of the entries after the snapshot, one by one.
	terms []uint64
	// bytes of data in these entries, at most.
	bytes int64

	// atSnapshot is the term of the log's entry at the index of the snapshot; 0 if it has none.
	atSnapshot uint64
}

// last returns the position of the last entry.
func (l *writeAheadLog) last() position {
	if n := len(l.terms); n > 0 {
		return position{l.terms[n-1], l.snapshot.index + uint64(n)}
	}
	return l.snapshot
}

// has reports whether an entry is part of the log: it may have been overwritten.
func (l *writeAheadLog) has(p position) bool {
	return p.index > l.snapshot.index && p.index <= l.last().index && l.terms[p.index-l.snapshot.index-1] == p.term
}

// readLog reads a whole write-ahead log, with its checksums.
func readLog(dir string) (*writeAheadLog, error) {
	// etcd starts from the newest snapshot that is known to be committed.
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return nil, err
	}
	l := &writeAheadLog{dir: dir}
	if n := len(snapshots); n > 0 {
		l.snapshot = position{snapshots[n-1].GetTerm(), snapshots[n-1].GetIndex()}
	}
	return l, l.records(l.take)
}

// take processes a record.
func (l *writeAheadLog) take(record *walpb.Record) error {
	switch record.GetType() {
	case wal.MetadataType:
		metadata := &etcdserverpb.Metadata{}
		if err := proto.Unmarshal(record.Data, metadata); err != nil {
			return fmt.Errorf("decoding the metadata: %w", err)
		}
		l.clusterID, l.memberID = metadata.GetClusterID(), metadata.GetNodeID()
	case wal.StateType:
		state := &raftpb.HardState{}
		if err := proto.Unmarshal(record.Data, state); err != nil {
			return fmt.Errorf("decoding the state: %w", err)
		}
		l.commit = state.GetCommit()
	case wal.SnapshotType:
		snapshot := &walpb.Snapshot{}
		if err := proto.Unmarshal(record.Data, snapshot); err != nil {
			return fmt.Errorf("decoding a snapshot: %w", err)
		}
		at := position{snapshot.GetTerm(), snapshot.GetIndex()}
		if at.index == 0 || at != l.snapshot {
			return nil
		}
		l.configuration = snapshot.GetConfState()
		// A snapshot that does not continue the log came from a leader, and replaces the log.
		if l.atSnapshot != at.term {
			l.terms = l.terms[:0]
		}
	case wal.EntryType:
		entry := &raftpb.Entry{}
		if err := proto.Unmarshal(record.Data, entry); err != nil {
			return fmt.Errorf("decoding an entry: %w", err)
		}
		return l.append(position{entry.GetTerm(), entry.GetIndex()}, len(entry.Data))
	}
	return nil
}

// append appends an entry. It replaces an entry with the same index, and all that follow.
func (l *writeAheadLog) append(p position, bytes int) error {
	if p.index <= l.snapshot.index {
		l.terms, l.atSnapshot = l.terms[:0], 0
		if p.index == l.snapshot.index {
			l.atSnapshot = p.term
		}
		return nil
	}
	before := p.index - l.snapshot.index - 1
	if before > uint64(len(l.terms)) {
		return fmt.Errorf("entries %d to %d are missing", l.last().index+1, p.index-1)
	}
	l.terms = append(l.terms[:before], p.term)
	l.bytes += int64(bytes)
	return nil
}

// entries calls visit with the entries after an index, in order, each once.
func (l *writeAheadLog) entries(after uint64, visit func(*raftpb.Entry) error) error {
	next := after + 1
	err := l.records(func(record *walpb.Record) error {
		if record.GetType() != wal.EntryType {
			return nil
		}
		entry := &raftpb.Entry{}
		if err := proto.Unmarshal(record.Data, entry); err != nil {
			return fmt.Errorf("decoding an entry: %w", err)
		}
		if entry.GetIndex() != next || !l.has(position{entry.GetTerm(), next}) {
			return nil
		}
		next++
		return visit(entry)
	})
	if err == nil && next <= l.last().index {
		err = fmt.Errorf("the log has changed: entry %d has disappeared", next)
	}
	return err
}

// records calls visit with every record, in the order in which they were written. It ignores a partial record at the very end,
// which was never acknowledged; etcd truncates it, too.
func (l *writeAheadLog) records(visit func(*walpb.Record) error) (err error) {
	readers, closeAll, err := openLog(l.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	decoder, record, begun := wal.NewDecoder(readers...), &walpb.Record{}, 0
	for {
		err := decoder.Decode(record)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case ended && begun == len(readers):
			return nil
		case ended:
			return fmt.Errorf("only %d of its %d files are complete", max(begun-1, 0), len(readers))
		case err != nil:
			return err
		}
		if record.GetType() == wal.CrcType {
			// Each file starts with the checksum of the previous ones.
			if crc := decoder.LastCRC(); crc != 0 && record.Validate(crc) != nil {
				return wal.ErrCRCMismatch
			}
			decoder.UpdateCRC(record.GetCrc())
			begun++
		}
		if err := visit(record); err != nil {
			return err
		}
	}
}

// openLog opens the files of a log, the oldest first.
func openLog(dir string) (readers []fileutil.FileReader, closeAll func() error, err error) {
	var files []*os.File
	closeAll = func() (err error) {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	names, err := logFiles(dir)
	for _, name := range names {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		files, readers = append(files, file), append(readers, fileutil.NewFileReader(file))
	}
	return readers, closeAll, err
}

// logFiles returns the names of the files of a write-ahead log, oldest first; none if there is no log.
func logFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".wal" {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names) // names sort by age
	return names, nil
}
