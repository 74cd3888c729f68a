// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// Point is an earlier state, as a preview has found it.
type Point struct {
	// Base is the name of the full snapshot to begin with, Revision the one to end at, and Hash is HashKV there.
	Base     string
	Revision int64
	Hash     uint32
	// Bytes of the database; 0 if it is not known.
	Bytes int64
}

// errBeyond is returned for a full snapshot that has more than what is to be restored.
var errBeyond = errors.New("the full snapshot has later revisions")

// exactly returns the chain that leads to a point. Only the full snapshot that it names is used.
func (s *source) exactly(ctx context.Context, p Point, dataDir string, take func(full backup.Snapshot) error) (backup.Choice, error) {
	list, err := s.store.Trusted(ctx, s.accept.UnsignedUntil)
	if err != nil {
		return backup.Choice{}, err
	}
	choice, missing, err := p.choose(list)
	if err != nil {
		return backup.Choice{}, fmt.Errorf("looking for revision %d in %s: %w", p.Revision, s.store, err)
	}
	s.missing = missing
	// An object may be compressed, so it takes its size at least.
	if err := datadir.CheckSpaceOfRestore(filepath.Dir(dataDir), max(p.Bytes, choice.Full.Size)); err != nil {
		return backup.Choice{}, fmt.Errorf("checking for free space: %w: grow the volume", err)
	}
	return choice, take(*choice.Full)
}

// choose returns the chain from the base to the revision. The state of a full snapshot may have a few revisions more than its name says, to
// which no delta need lead: then it is the full snapshot alone, missing is what keeps deltas from leading there, and verify says whether the
// snapshot has the revision.
func (p Point) choose(list []backup.Snapshot) (_ backup.Choice, missing, err error) {
	choices, err := backup.Target{Revision: p.Revision, Base: p.Base}.Choose(list)
	if base, named := backup.ParseName(p.Base); err != nil && named == nil && base.LastRevision < p.Revision {
		if alone, gone := (backup.Target{Snapshot: p.Base, Base: p.Base}).Choose(list); gone == nil {
			choices, missing, err = alone, err, nil
		}
	}
	if err != nil {
		return backup.Choice{}, nil, err
	}
	return choices[0], missing, nil
}

// verify returns an error unless a database is what was previewed. missing is why no deltas lead there; nil if they do.
func (p Point) verify(path string, revision int64, missing error) error {
	if revision != p.Revision {
		err := fmt.Errorf("revision %d cannot be restored: the snapshots lead to revision %d", p.Revision, revision)
		if missing != nil {
			err = fmt.Errorf("%w (%w)", err, missing)
		}
		return err
	}
	hash, err := hashKV(path, revision)
	switch {
	case err != nil:
		return err
	case hash != p.Hash:
		return fmt.Errorf("HashKV at revision %d is %d, and %d was previewed: the snapshots are not those that were previewed, which have to be put back", revision, hash, p.Hash)
	}
	return nil
}

// hashKV returns etcd's HashKV of a database at its last revision.
func hashKV(path string, revision int64) (uint32, error) {
	b := backend.NewDefaultBackend(quiet, path)
	s := mvcc.NewStore(quiet, b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	hash, _, err := s.HashStorage().HashByRev(revision)
	if err = errors.Join(err, s.Close(), b.Close()); err != nil {
		return 0, fmt.Errorf("computing HashKV at revision %d: %w", revision, err)
	}
	return hash.Hash, nil
}
