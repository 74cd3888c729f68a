// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/boltfile"
	"github.com/go-logr/logr"
)

// source fetches snapshots into a folder.
type source struct {
	store *store.Store
	work  string
	log   logr.Logger
	// accept is what a restore may use although it is not signed, or older than recorded.
	accept Acceptance
	record backup.Record
	// highest is the highest revision among the snapshots that choose has seen.
	highest int64
	// missing is why no deltas lead to the Point that is restored; nil if they do, or need not.
	missing error
}

// choose returns the newest chain whose full snapshot is intact. It calls take with each candidate until take returns no
// error.
func (s *source) choose(ctx context.Context, take func(full backup.Snapshot) error) (backup.Chain, error) {
	list, err := s.store.Trusted(ctx, s.accept.UnsignedUntil)
	if err != nil {
		return backup.Chain{}, err
	}
	for _, snapshot := range list {
		s.highest = max(s.highest, snapshot.LastRevision)
	}
	chains, err := backup.Chains(list)
	if err != nil {
		return backup.Chain{}, fmt.Errorf("looking for a backup in %s: %w", s.store, err)
	}
	if err := s.reaches(chains[0]); err != nil {
		return backup.Chain{}, fmt.Errorf("looking for a backup in %s: %w", s.store, err)
	}
	var failures []error
	for _, chain := range chains {
		err := take(*chain.Full)
		if err == nil {
			return chain, nil
		}
		failures = append(failures, err)
		if corrupt := (*backup.CorruptError)(nil); !errors.As(err, &corrupt) {
			break
		}
		s.log.Error(err, "A full snapshot cannot be used", "snapshot", chain.Full.Name())
	}
	return backup.Chain{}, errors.Join(failures...)
}

// reaches returns an error if the snapshots end before the record, unless a user has accepted that. Of unsigned ones only the revision counts:
// etcd-druid renews its Leases later than it takes snapshots.
func (s *source) reaches(chain backup.Chain) error {
	last, accepted := chain.LastRevision(), s.accept.Revision
	if !s.store.Signed() {
		if last >= s.record.Revision {
			return nil
		}
		accepted = cmp.Or(accepted, s.record.Accepted)
	}
	if accepted != 0 && accepted == last {
		return nil
	}
	return s.record.Check(chain)
}

// fetch writes the verified content of a snapshot into a file.
func (s *source) fetch(ctx context.Context, snapshot backup.Snapshot, name string) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("making a file for snapshot %s: %w", snapshot.Name(), err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return s.read(ctx, snapshot, file)
}

// file returns a file with the verified content of a full snapshot: the object itself if it is an uncompressed plain file, with
// its checksum at the end; otherwise, and if it is signed, a file in the work folder that was fetched: a writer of the store could alter
// the object after it was verified.
func (s *source) file(ctx context.Context, snapshot backup.Snapshot) (name string, fetched bool, err error) {
	name, isFile := s.store.File(snapshot)
	if !isFile || snapshot.Compression != backup.None || snapshot.Encrypted || snapshot.Proof != nil {
		name = filepath.Join(s.work, "snapshot.db")
		return name, true, s.fetchDatabase(ctx, snapshot, name)
	}
	if err := s.read(ctx, snapshot, io.Discard); err != nil {
		return "", false, err
	}
	return name, false, checkPages(snapshot, name)
}

// fetchDatabase writes the verified content of a full snapshot into a file that bbolt can open.
func (s *source) fetchDatabase(ctx context.Context, snapshot backup.Snapshot, name string) error {
	if err := s.fetch(ctx, snapshot, name); err != nil {
		return err
	}
	return checkPages(snapshot, name)
}

// database writes a full snapshot into a file that etcd could start with.
func (s *source) database(ctx context.Context, full backup.Snapshot, name string) error {
	if err := s.fetchDatabase(ctx, full, name); err != nil {
		return err
	}
	return usable(full, func() error { return opens(name) })
}

// checkPages checks the pages of a database. A matching checksum does not help here: a writer of the bucket can
// write the checksum, too.
func checkPages(snapshot backup.Snapshot, name string) error {
	err := boltfile.Check(name)
	if failed := (*fs.PathError)(nil); err == nil || errors.As(err, &failed) {
		return err
	}
	return &backup.CorruptError{Name: snapshot.Name(), Reason: "its database: " + err.Error()}
}

func (s *source) read(ctx context.Context, snapshot backup.Snapshot, to io.Writer) error {
	object, err := s.store.Reader(ctx, snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = object.Close() }()
	content, err := backup.NewReader(snapshot, object)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, content); err != nil {
		return err
	}
	// Only the end of the object confirms what was signed.
	_, err = io.Copy(io.Discard, object)
	return err
}

// applied is how far a database is.
type applied struct {
	revision int64
	// seen is when the last event was seen, or when the full snapshot was taken.
	seen time.Time
	// deltas is how many deltas of the chain have it.
	deltas int
}

// errCut ends the reading of a delta where the restore ends.
var errCut = errors.New("the restore ends here")

// applyAll applies the deltas of a chain to a database, up to where it is cut.
func (s *source) applyAll(ctx context.Context, path string, choice backup.Choice) (at applied, err error) {
	db, err := openDatabase(path)
	if err != nil {
		return applied{}, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	last, cut := choice.LastRevision(), choice.Cut
	if cut.Revision > 0 {
		last = cut.Revision
	}
	if cut.Revision > 0 && db.revision > cut.Revision {
		return applied{}, fmt.Errorf("snapshot %s: %w: it ends at %d", choice.Full.Name(), errBeyond, db.revision)
	}
	at.seen = choice.Full.Created
	for n, delta := range choice.Deltas {
		db.began = false
		err := s.applyDelta(ctx, delta, func(e backup.Event) error {
			if first := e.EtcdEvent.Kv.ModRevision > db.revision; first && cut.Excludes(e) {
				return errCut
			} else if first {
				at.seen, at.deltas = e.Time, n+1
			}
			return db.apply(e)
		})
		if errors.Is(err, errCut) {
			if cut.Revision == 0 {
				last = db.revision
			}
			break
		}
		if err != nil {
			return applied{}, err
		}
		s.log.Info("Applied a delta snapshot", "snapshot", delta.Name(), "revision", db.revision)
	}
	if db.revision < last {
		return applied{}, fmt.Errorf("restored revision %d, but the newest snapshot ends at %d", db.revision, last)
	}
	at.revision = db.revision
	return at, nil
}

// applyDelta applies one delta. It goes through a file, so that nothing is applied before all of it is verified, and memory
// use does not depend on its size.
func (s *source) applyDelta(ctx context.Context, delta backup.Snapshot, apply func(backup.Event) error) error {
	name := filepath.Join(s.work, "delta.json")
	if err := s.fetch(ctx, delta, name); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading snapshot %s: %w", delta.Name(), err)
	}
	defer func() { _ = file.Close() }()
	if err := backup.ReadDelta(file, apply); err != nil {
		return fmt.Errorf("applying snapshot %s: %w", delta.Name(), err)
	}
	return nil
}
