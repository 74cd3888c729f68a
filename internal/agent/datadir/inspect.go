// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package datadir reads the data directories of stopped members, with etcd's own code, and rebuilds a cluster of one member
// from one. It links etcd's server, so only the agent imports it.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/boltfile"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Inspect describes a data directory, by etcd's own criteria: a member has data if it has a write-ahead log, and it can start
// if the log can be read, and the pages of the database are consistent. The directory of snapshots and database is made
// before the log, so a log without it has lost it. If the content cannot be read for other reasons, Inspect returns an error.
func Inspect(dir string) (member.Data, error) {
	log := filepath.Join(dir, "member", "wal")
	files, err := logFiles(log)
	if err != nil {
		return member.Data{}, fmt.Errorf("reading the write-ahead log: %w", err)
	}
	if len(files) == 0 {
		return member.Data{}, nil
	}
	data := member.Data{State: member.DataPresent}
	damage := func(what string, err error) (member.Data, error) {
		data.State, data.Damage = member.DataDamaged, fmt.Sprintf("%s: %v", what, err)
		return data, nil
	}
	clusterID, memberID, err := identity(filepath.Join(log, files[len(files)-1]))
	if isIOError(err) {
		return member.Data{}, fmt.Errorf("reading the write-ahead log: %w", err)
	} else if err != nil {
		return damage("the write-ahead log does not name its cluster", err)
	}
	data.ClusterID, data.MemberID = strconv.FormatUint(clusterID, 16), strconv.FormatUint(memberID, 16)
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), log)
	if isIOError(err) {
		return member.Data{}, fmt.Errorf("reading the write-ahead log: %w", err)
	} else if err != nil {
		return damage("the write-ahead log", err)
	}
	data.Removed, err = inspectDatabase(filepath.Join(dir, "member", "snap"), snapshots, data.MemberID)
	if isIOError(err) {
		return member.Data{}, fmt.Errorf("reading the database: %w", err)
	} else if err != nil {
		return damage("the database", err)
	}
	return data, nil
}

// Writer returns the IDs of the member that wrote the data, and of its cluster; zeroes if there is none. It reads the beginning of the
// log alone, so the member may be running.
func Writer(dir string) (clusterID, memberID uint64, err error) {
	log := filepath.Join(dir, "member", "wal")
	files, err := logFiles(log)
	if err != nil || len(files) == 0 {
		return 0, 0, err
	}
	return identity(filepath.Join(log, files[len(files)-1]))
}

// identity reads the IDs of cluster and member from the metadata at the beginning of a file of a write-ahead log.
func identity(path string) (clusterID, memberID uint64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	record := &walpb.Record{}
	for record.GetType() != wal.MetadataType {
		if err := decoder.Decode(record); err != nil {
			return 0, 0, fmt.Errorf("decoding %s: %w", filepath.Base(path), err)
		}
		if record.GetType() == wal.CrcType {
			// The checksum continues from the previous file.
			decoder.UpdateCRC(record.GetCrc())
		}
	}
	metadata := &etcdserverpb.Metadata{}
	if err := proto.Unmarshal(record.Data, metadata); err != nil {
		return 0, 0, fmt.Errorf("decoding the metadata of %s: %w", filepath.Base(path), err)
	}
	return metadata.GetClusterID(), metadata.GetNodeID(), nil
}

// inspectDatabase opens the database, and reports whether it says that a member was removed. It may be missing, or empty, as long as
// the log has everything.
func inspectDatabase(dir string, snapshots []*walpb.Snapshot, memberID string) (removed bool, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, errNoDatabase
	}
	path := filepath.Join(dir, "db")
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err != nil || info.Size() == 0 {
		if slices.ContainsFunc(snapshots, func(s *walpb.Snapshot) bool { return s.GetIndex() > 0 }) {
			return false, errNoDatabase
		}
		return false, nil
	}
	unlock, err := lock(path)
	if err != nil {
		return false, err
	}
	defer unlock()
	// This comes first: bbolt trusts the pages, and etcd would panic over an inconsistent one, or read beyond the file.
	if err := boltfile.Check(path); err != nil {
		return false, err
	}
	err = view(path, func(tx *bolt.Tx) error {
		removed = wasRemoved(tx, memberID)
		return nil
	})
	return removed, err
}

// lock takes the shared lock that bbolt takes to read: the pages of a database that is being written are inconsistent.
func lock(path string) (unlock func(), err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockTimeout); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil:
			// Closing the file releases the lock.
			return func() { _ = file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(&fs.PathError{Op: "flock", Path: path, Err: err}, file.Close())
		case time.Now().After(deadline):
			return nil, errors.Join(bolterrors.ErrTimeout, file.Close())
		}
		<-time.After(lockRetry)
	}
}

// isIOError reports whether an error says nothing about the content of a file.
func isIOError(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*os.SyscallError](err); ok {
		return true
	}
	return errors.Is(err, bolterrors.ErrTimeout)
}
