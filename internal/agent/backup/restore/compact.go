// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// CompactConfig of a compaction.
type CompactConfig struct {
	// Store whose newest snapshots become one.
	Store *store.Store
	// WorkDir has space for the database twice.
	WorkDir string
	// Compression of the new snapshot.
	Compression backup.Compression
	// Record is the newest snapshot that was recorded outside of the store. A store of signed ones that ends before it is refused.
	Record backup.Record
	Log    logr.Logger
}

// CompactResult is what a compaction did.
type CompactResult struct {
	// Snapshot that was written, also if the backup was already compacted.
	Snapshot backup.Snapshot
	// BytesBefore and BytesAfter are the sizes of the database.
	BytesBefore int64
	BytesAfter  int64
}

// Compact makes one full snapshot of the newest one and its deltas, without older revisions of keys and free space. It needs
// no etcd, and may run while snapshots are taken.
func Compact(ctx context.Context, config CompactConfig) (result CompactResult, err error) {
	work := filepath.Join(config.WorkDir, "compaction")
	err = inFolder(work, "compaction", func() (err error) {
		result, err = config.compact(ctx, work)
		return err
	})
	return result, err
}

func (c CompactConfig) compact(ctx context.Context, work string) (result CompactResult, err error) {
	defer guard(&err)()
	source := &source{store: c.Store, work: work, log: c.Log}
	if c.Store.Signed() {
		// It restores nothing. Where an attacker may have removed snapshots, it makes no signed one of what is left.
		source.record = c.Record
	}
	path := filepath.Join(work, "snapshot.db")
	chain, err := source.choose(ctx, func(full backup.Snapshot) error { return source.database(ctx, full, path) })
	if err != nil {
		return CompactResult{}, err
	}
	applied, err := source.applyAll(ctx, path, backup.Choice{Chain: chain})
	if err != nil {
		return CompactResult{}, err
	}
	revision := applied.revision
	before, err := size(path)
	if err != nil {
		return CompactResult{}, err
	}
	if err := compactTo(ctx, path, revision); err != nil {
		return CompactResult{}, err
	}
	compacted := filepath.Join(work, "compacted.db")
	if err := defragment(path, compacted); err != nil {
		return CompactResult{}, err
	}
	after, err := size(compacted)
	if err != nil {
		return CompactResult{}, err
	}
	snapshot := compactedName(chain, revision, c.Compression)
	if snapshot, err = c.Store.WriteDatabase(ctx, compacted, snapshot); err != nil {
		return CompactResult{}, err
	}
	c.Log.Info("Compacted the backup", "snapshot", snapshot.Name(), "bytesBefore", before, "bytesAfter", after)
	return CompactResult{Snapshot: snapshot, BytesBefore: before, BytesAfter: after}, nil
}

// compactedName dates the snapshot back to the last one that it contains: deltas that are taken during the compaction must
// be newer than the compacted snapshot, or they would not be applied to it. At equal times, a full snapshot comes before a
// delta.
func compactedName(chain backup.Chain, revision int64, compression backup.Compression) backup.Snapshot {
	s := backup.Snapshot{Kind: backup.Full, LastRevision: revision, Compression: compression, Prefix: chain.Full.Prefix}
	if p := chain.Full.Proof; p != nil {
		s.Proof = &backup.Proof{History: p.History}
	}
	if n := len(chain.Deltas); n > 0 {
		s.Created = chain.Deltas[n-1].Created
	} else {
		s.Created = chain.Full.Created.Add(time.Second)
		// Deltas must not continue this one, either. A marked one is a Restore's: it was taken of a cluster that went on.
		s.Final = chain.Full.Final && !chain.Full.Marked
	}
	return s
}

// compactTo removes all revisions of keys before one.
func compactTo(ctx context.Context, path string, revision int64) error {
	b := backend.NewDefaultBackend(quiet, path)
	s := mvcc.NewStore(quiet, b, &lease.FakeLessor{}, mvcc.StoreConfig{
		CompactionBatchLimit: batch, CompactionSleepInterval: time.Microsecond, // there is no other work to yield to
	})
	done, err := s.Compact(traceutil.TODO(), revision)
	switch {
	case errors.Is(err, mvcc.ErrCompacted): // already compacted at this revision
		err = nil
	case err == nil:
		select {
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err = errors.Join(err, s.Close(), b.Close()); err != nil {
		return fmt.Errorf("compacting to revision %d: %w", revision, err)
	}
	return nil
}

// defragment copies a database without free space.
func defragment(from, to string) (err error) {
	source, err := bolt.Open(from, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := bolt.Open(to, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		return fmt.Errorf("making a database: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := bolt.Compact(target, source, 1<<20); err != nil {
		return fmt.Errorf("defragmenting: %w", err)
	}
	return nil
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("looking up the size of the database: %w", err)
	}
	return info.Size(), nil
}
