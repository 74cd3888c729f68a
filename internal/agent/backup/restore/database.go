// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// database is etcd's database while no etcd uses it.
//
// Events are written as etcd stores them, with key, revisions and version. Replaying them through a server would have to
// reproduce the revisions, which is impossible if one revision has more changes than a transaction may have, such as the
// end of a lease with many keys.
type database struct {
	bolt *bolt.DB
	// revision of the last change in the database, and the number of changes at that revision.
	revision, changes int64
	// began: an event of this delta was applied at revision, so another one at it is one more change. A later delta that overlaps repeats all
	// events of a revision.
	began bool

	tx *bolt.Tx
	// pending changes of the transaction, and their size in bytes.
	pending      int
	pendingBytes int64
}

// batch is the number of changes in one transaction.
const batch = 10_000

// batchBytes bounds the keys and values in one transaction, whose pages are in memory until it is committed.
const batchBytes = 64 << 20

func openDatabase(path string) (*database, error) {
	// It is synced once at the end; nothing uses it before.
	b, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	db := &database{bolt: b}
	if err := b.View(db.findRevision); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

var errNotEtcd = errors.New("this is not a database of etcd")

// findRevision finds the revision of the database as etcd does at its start: the last change, or the last compaction, which
// may have removed that.
func (db *database) findRevision(tx *bolt.Tx) error {
	keys, meta := tx.Bucket(schema.Key.Name()), tx.Bucket(schema.Meta.Name())
	if keys == nil || meta == nil {
		return fmt.Errorf("%w: a bucket is missing", errNotEtcd)
	}
	found := [][]byte{meta.Get(schema.FinishedCompactKeyName), meta.Get(schema.ScheduledCompactKeyName)}
	last, _ := keys.Cursor().Last()
	db.revision = 1 // of an empty database
	for _, key := range append(found, last) {
		if len(key) > 0 {
			db.revision = max(db.revision, mvcc.BytesToRev(key).Main)
		}
	}
	return nil
}

// apply writes an event. It skips an event at a revision that is already there.
func (db *database) apply(e backup.Event) error {
	kv := e.EtcdEvent.Kv
	switch {
	case kv.ModRevision == db.revision && db.began:
		db.changes++
	case kv.ModRevision <= db.revision:
		return nil
	case kv.ModRevision == db.revision+1:
		db.revision, db.changes, db.began = kv.ModRevision, 0, true
	default:
		return &backup.GapError{After: db.revision, Next: kv.ModRevision}
	}
	tx, err := db.transaction(int64(len(kv.Key) + len(kv.Value)))
	if err != nil {
		return err
	}
	key := mvcc.RevToBytes(mvcc.Revision{Main: db.revision, Sub: db.changes}, mvcc.NewRevBytes())
	stored := &mvccpb.KeyValue{Key: kv.Key}
	switch e.EtcdEvent.Type {
	case backup.Put:
		if err := grant(tx, kv.Lease, e.LeaseTTL); err != nil {
			return err
		}
		stored.Value, stored.Lease = kv.Value, kv.Lease
		stored.CreateRevision, stored.ModRevision, stored.Version = kv.CreateRevision, kv.ModRevision, kv.Version
	case backup.DeletedKey:
		key = append(key, tombstone)
	default:
		return fmt.Errorf("event at revision %d has an unknown type %d", kv.ModRevision, e.EtcdEvent.Type)
	}
	value, err := proto.Marshal(stored)
	if err != nil {
		return fmt.Errorf("encoding a change: %w", err)
	}
	return tx.Bucket(schema.Key.Name()).Put(key, value)
}

// grant makes the lease of a key, unless it exists. Its TTL starts when etcd starts, as for all leases. Without a known TTL
// there is no lease, and etcd keeps the key rather than remove it too early.
func grant(tx *bolt.Tx, id, ttl int64) error {
	if id == 0 || ttl == 0 {
		return nil
	}
	leases, err := tx.CreateBucketIfNotExists(schema.Lease.Name())
	if err != nil {
		return fmt.Errorf("writing into the database: %w", err)
	}
	key := binary.BigEndian.AppendUint64(nil, uint64(id))
	if leases.Get(key) != nil {
		return nil
	}
	value, err := proto.Marshal(&leasepb.Lease{ID: id, TTL: ttl})
	if err != nil {
		return fmt.Errorf("encoding a lease: %w", err)
	}
	return leases.Put(key, value)
}

// tombstone ends the key of a deletion.
const tombstone = 't'

// transaction returns a transaction for one more change of a size in bytes.
func (db *database) transaction(bytes int64) (*bolt.Tx, error) {
	if db.tx != nil && db.pending < batch && db.pendingBytes+bytes <= batchBytes {
		db.pending, db.pendingBytes = db.pending+1, db.pendingBytes+bytes
		return db.tx, nil
	}
	if err := db.commit(); err != nil {
		return nil, err
	}
	tx, err := db.bolt.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("writing into the database: %w", err)
	}
	tx.Bucket(schema.Key.Name()).FillPercent = 0.9 // keys are only appended
	db.tx, db.pending, db.pendingBytes = tx, 1, bytes
	return tx, nil
}

func (db *database) commit() error {
	if db.tx == nil {
		return nil
	}
	tx := db.tx
	db.tx = nil
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("writing into the database: %w", err)
	}
	return nil
}

func (db *database) close() error {
	return errors.Join(db.commit(), db.bolt.Sync(), db.bolt.Close())
}
