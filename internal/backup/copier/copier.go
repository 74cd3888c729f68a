// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package copier copies snapshots from one store to another.
package copier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/store"
	"github.com/go-logr/logr"
)

// Config of a copy.
type Config struct {
	Source, Target *store.Store
	Selection
	// Now is when the copy begins; ages count from there.
	Now time.Time
	// Record is the newest snapshot that was recorded outside of the source. Where snapshots are signed, a source that ends before
	// it is refused.
	Record backup.Record
	Log    logr.Logger
}

// Selection is what to copy.
type Selection struct {
	// MaxAge of a snapshot that is copied; 0 for any.
	MaxAge time.Duration
	// MaxBackups is the number of full snapshots that are copied, the newest ones, with the deltas that were
	// taken since the first of them; 0 for all.
	MaxBackups int
}

// Result is what a copy did.
type Result struct {
	// Copied snapshots, and Skipped ones that the target already has.
	Copied  int `json:"copied"`
	Skipped int `json:"skipped"`
	// Bytes that were copied.
	Bytes int64 `json:"bytes"`
	// Unsigned snapshots of the source, which are not copied where snapshots are signed.
	Unsigned int `json:"unsigned,omitempty"`
	// LastRevision that a restore from the target reaches.
	LastRevision int64 `json:"lastRevision"`
}

// Copy copies snapshots, oldest first, so that the target can be restored at any time. It skips what the target already has,
// so an interrupted copy continues where it stopped. Every snapshot is verified while it is copied, and read back from a
// bucket after it was written. Where snapshots are signed, only those with a valid signature are copied, and signed for the target.
func Copy(ctx context.Context, config Config) (Result, error) {
	var result Result
	if config.Target.Signed() && !config.Source.Signed() {
		return result, errors.New("copies cannot be signed without keys to verify the source with")
	}
	all, err := config.Source.List(ctx)
	if err != nil {
		return result, fmt.Errorf("source: %w", err)
	}
	snapshots, err := config.Source.Trusted(ctx, time.Time{})
	if err != nil {
		return result, fmt.Errorf("source: %w", err)
	}
	if config.Source.Signed() {
		if err := config.check(snapshots); err != nil {
			return result, fmt.Errorf("source: %w", err)
		}
	}
	result.Unsigned = max(len(all)-len(snapshots), 0)
	present, err := config.Target.List(ctx)
	if err != nil {
		return result, fmt.Errorf("target: %w", err)
	}
	copies := map[string]backup.Snapshot{}
	for _, p := range present {
		copies[p.Name()] = p
	}
	for _, s := range config.Select(snapshots, config.Now) {
		if copy, ok := copies[s.Name()]; ok && config.same(s, copy) {
			result.Skipped++
			continue
		}
		if err := config.copy(ctx, s); err != nil {
			return result, err
		}
		result.Copied++
		result.Bytes += s.Size
		config.Log.Info("Copied a snapshot", "snapshot", s.Name(), "bytes", s.Size)
	}
	if present, err = config.Target.Trusted(ctx, time.Time{}); err != nil {
		return result, fmt.Errorf("target: %w", err)
	}
	chain, err := backup.Newest(present)
	result.LastRevision = chain.LastRevision()
	if err != nil {
		return result, fmt.Errorf("target: %w", err)
	}
	return result, nil
}

// check returns an error if the newest snapshots cannot be restored, or end before the record: a copy would vouch for them.
func (c Config) check(snapshots []backup.Snapshot) error {
	chain, err := backup.Newest(snapshots)
	if err != nil {
		return err
	}
	return c.Record.Check(chain)
}

// same reports whether a snapshot was copied before. A copy that must be signed has the signature of the same content.
func (c Config) same(s, copy backup.Snapshot) bool {
	return copy.Size == s.Size && (!c.Target.Signed() || copy.Proof != nil && s.Proof != nil && *copy.Proof == *s.Proof)
}

// Select returns the snapshots to copy, in the order in which they were taken. It always includes the newest full snapshot
// and its deltas, however old, because a copy without them cannot be restored. It omits deltas before the first full
// snapshot, which are useless.
func (s Selection) Select(list []backup.Snapshot, now time.Time) []backup.Snapshot {
	sorted := backup.Sorted(list)
	first := len(sorted)
	fulls := 0
	for i := len(sorted) - 1; i >= 0; i-- {
		if sorted[i].Kind != backup.Full {
			continue
		}
		tooOld := s.MaxAge > 0 && now.Sub(sorted[i].Created) > s.MaxAge
		tooMany := s.MaxBackups > 0 && fulls >= s.MaxBackups
		if fulls > 0 && (tooOld || tooMany) {
			break
		}
		fulls++
		first = i
	}
	return sorted[first:]
}

// copy copies one object. It is verified before it gets its name in the target.
func (c Config) copy(ctx context.Context, s backup.Snapshot) error {
	object, err := c.Source.Reader(ctx, s)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	// It was only read.
	defer func() { _ = object.Close() }()
	written, err := c.Target.Write(ctx, s, func(w io.Writer) error { return backup.Verify(s, io.TeeReader(object, w)) })
	if err != nil {
		return fmt.Errorf("copying to the target: %w", err)
	}
	if _, isFile := c.Target.File(s); isFile {
		// It was verified and synced; reading it back would only read the page cache.
		return nil
	}
	if err := c.Target.Verify(ctx, written); err != nil {
		return errors.Join(fmt.Errorf("reading back what was written to the target: %w", err), c.Target.Delete(ctx, s))
	}
	return nil
}
