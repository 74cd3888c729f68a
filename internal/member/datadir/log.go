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

// position is that of an entry. No two entries of a cluster have the same.
type position struct{ term, index uint64 }

// compare tells which of two logs is more advanced by their last entries, as raft does in an election.
func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.term, q.term), cmp.Compare(p.index, q.index))
}

// writeAheadLog is what a member has written to its log, without the content of the entries: that is read again when
// it is needed, so that memory does not grow with it.
type writeAheadLog struct {
	dir                 string
	clusterID, memberID uint64
	// commit is the index up to which entries were known to be committed. The member learns that with a later message,
	// and writes it with a later entry: entries after it may be committed, and acknowledged.
	commit uint64
	// snapshot is the position up to which the log does not matter any more: all of it is in the database.
	snapshot position
	// terms of the entries after the snapshot, one by one.
	terms []uint64
	// bytes of data in these entries, at most.
	bytes int64

	// atSnapshot is the term of the entry that the log has at the index of the snapshot; 0 when it has none.
	atSnapshot uint64
}

// last is the position of the last entry.
func (l *writeAheadLog) last() position {
	if n := len(l.terms); n > 0 {
		return position{l.terms[n-1], l.snapshot.index + uint64(n)}
	}
	return l.snapshot
}

// has tells whether an entry is part of the log. One that was written may have been overwritten later.
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

// take takes a record into account.
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
		// One that does not continue the log came from a leader, and took the place of all of it.
		if at := (position{snapshot.GetTerm(), snapshot.GetIndex()}); at.index > 0 && at == l.snapshot && l.atSnapshot != at.term {
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

// append appends an entry. It takes the place of one with the same index and of all that follow that.
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

// records calls visit with every record, in the order in which they were written. A record at the very end that was
// half written is none: nobody was told that it was there, and etcd cuts it off, too.
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
			// Each file begins with the checksum of what came before.
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

// logFiles are the names of the files of a write-ahead log, the oldest first; none when there is no log.
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
	slices.Sort(names) // they are named so that the newest comes last
	return names, nil
}
