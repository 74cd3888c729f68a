// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/boltfile"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// lockTimeout is how long to wait for a locked database.
const lockTimeout = time.Second

// lockRetry is how often a lock is retried.
const lockRetry = 50 * time.Millisecond

// errNoDatabase is returned if there should be a database.
var errNoDatabase = errors.New("it is missing")

// database describes a database.
type database struct {
	// path is empty if there is no database, and the log has everything.
	path  string
	bytes int64
	// applied is the last log entry that it contains.
	applied  position
	revision int64
	hash     uint32
	// voters are the members that vote.
	voters map[uint64]bool
}

// findDatabase finds the database that belongs to a log. It has another name than usual if the member was stopped between
// receiving a leader's snapshot and renaming it.
func findDatabase(dir string, snapshot position) (database, error) {
	usual := filepath.Join(dir, "db")
	db, err := describe(usual)
	if err != nil || db.applied.index >= snapshot.index {
		return db, err
	}
	received, err := describe(filepath.Join(dir, fmt.Sprintf("%016x.snap.db", snapshot.index)))
	switch {
	case err != nil:
		return database{}, err
	case received.path != "" && received.applied.index >= snapshot.index:
		return received, nil
	case db.path == "":
		return database{}, errNoDatabase
	}
	return database{}, fmt.Errorf("it ends at entry %d, and the log begins after entry %d", db.applied.index, snapshot.index)
}

// describe reads the metadata of a database. A missing or empty file is not a database.
func describe(path string) (database, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0:
		return database{}, nil
	case err != nil:
		return database{}, err
	}
	db := database{path: path, bytes: info.Size()}
	if err := boltfile.Check(path); err != nil {
		return db, err
	}
	err = view(path, func(tx *bolt.Tx) (err error) {
		if db.voters, err = votersOf(tx); err != nil {
			return err
		}
		meta := tx.Bucket(schema.Meta.Name())
		if meta == nil {
			return nil
		}
		db.applied = position{number(meta.Get(schema.MetaTermKeyName)), number(meta.Get(schema.MetaConsistentIndexKeyName))}
		return nil
	})
	return db, err
}

// votersOf returns the voters recorded in a database.
func votersOf(tx *bolt.Tx) (map[uint64]bool, error) {
	voters := map[uint64]bool{}
	members := tx.Bucket(schema.Members.Name())
	if members == nil {
		return voters, nil
	}
	return voters, members.ForEach(func(_, v []byte) error {
		m := &membership.Member{}
		if err := json.Unmarshal(v, m); err != nil {
			return fmt.Errorf("reading a member: %w", err)
		}
		if !m.IsLearner {
			voters[uint64(m.ID)] = true
		}
		return nil
	})
}

// wasRemoved reports whether a database says that a member, by its ID in hex, was removed from the cluster.
func wasRemoved(tx *bolt.Tx, memberID string) bool {
	removed := tx.Bucket(schema.MembersRemoved.Name())
	return removed != nil && removed.Get([]byte(memberID)) != nil
}

func number(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// check reads the whole database, and has bbolt check its pages.
func (d *database) check() error {
	if d.path == "" {
		return nil
	}
	// Read errors of the disk surface here; through the memory map they would look like damage.
	if err := read(d.path); err != nil {
		return err
	}
	return view(d.path, func(tx *bolt.Tx) error {
		// This comes first: on an invalid page, bbolt's own check would end the process.
		if err := d.readAll(tx); err != nil {
			return err
		}
		var flaws []error
		for flaw := range tx.Check() {
			flaws = append(flaws, flaw)
		}
		if n := len(flaws); n > 1 {
			return fmt.Errorf("%w, and %d more flaws", flaws[0], n-1)
		}
		return errors.Join(flaws...)
	})
}

func read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, file)
	return errors.Join(err, file.Close())
}

// readAll reads all keys and values, and computes the hash of "etcdutl snapshot status". Pages of bbolt have no checksums, so
// altered values may go unnoticed.
func (d *database) readAll(tx *bolt.Tx) error {
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	err := tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		changes := bytes.Equal(name, schema.Key.Name())
		// A hash never fails to write.
		_, _ = hash.Write(name)
		return bucket.ForEach(func(k, v []byte) error {
			_, _ = hash.Write(k)
			_, _ = hash.Write(v)
			if !changes {
				return nil
			}
			if err := proto.Unmarshal(v, &mvccpb.KeyValue{}); err != nil {
				revision := mvcc.BytesToRev(k)
				return fmt.Errorf("revision %d_%d cannot be read: %w", revision.Main, revision.Sub, err)
			}
			return nil
		})
	})
	d.hash, d.revision = hash.Sum32(), revisionOf(tx)
	return err
}

// revisionOf returns the revision of a database as etcd finds it: that of the last change, or of the last compaction, which
// may have removed the last change.
func revisionOf(tx *bolt.Tx) int64 {
	revision := int64(1) // of an empty database
	take := func(key []byte) {
		if len(key) > 0 {
			revision = max(revision, mvcc.BytesToRev(key).Main)
		}
	}
	if keys := tx.Bucket(schema.Key.Name()); keys != nil {
		last, _ := keys.Cursor().Last()
		take(last)
	}
	if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
		take(meta.Get(schema.FinishedCompactKeyName))
		take(meta.Get(schema.ScheduledCompactKeyName))
	}
	return revision
}

// view reads a database. Faults and panics over a damaged one are returned as errors.
func view(path string, look func(*bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading a page: %v", r)
		}
	}()
	b, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return b.View(look)
}
