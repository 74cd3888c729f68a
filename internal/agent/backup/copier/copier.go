// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package copier copies snapshots from one store to another.
package copier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
)

// Config of a copy.
type Config struct {
	Source, Target *store.Store
	Selection
	// WaitForFinal is how long the copy waits for a final snapshot in the source before it starts without one; 0: it does not wait.
	WaitForFinal time.Duration
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
	// MaxBackups is the number of full snapshots that are copied, the newest ones, and as many of the schedule, with the deltas that
	// were taken since the first of them; 0 for all. Requested snapshots do not displace scheduled ones (ADR 47).
	MaxBackups int
	// Due returns the first time of the schedule of full snapshots after a time. If it is nil, all full snapshots are of the schedule.
	Due func(after time.Time) time.Time
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
	// FinalSnapshot reports whether the source had a final snapshot, if the copy was to wait for one.
	FinalSnapshot *bool `json:"finalSnapshot,omitempty"`
}

// Copy copies snapshots, oldest first, so that the target can be restored at any time. It skips what the target already has,
// so an interrupted copy continues where it stopped. Every snapshot is verified while it is copied (an encrypted one only by its
// signature), and read back from a bucket after it was written. Where snapshots are signed, only those with a valid signature are
// copied, and signed for the target.
func Copy(ctx context.Context, config Config) (Result, error) {
	var result Result
	if config.Target.Signed() && !config.Source.Signed() {
		return Result{}, errors.New("copies cannot be signed without keys to verify the source with")
	}
	if config.WaitForFinal > 0 {
		final, err := config.awaitFinal(ctx)
		if err != nil {
			return Result{}, err
		}
		result.FinalSnapshot = &final
	}
	snapshots, unsigned, err := config.usable(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("source: %w", err)
	}
	result.Unsigned = unsigned
	present, err := config.Target.List(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("target: %w", err)
	}
	copies := map[string]backup.Snapshot{}
	for _, p := range present {
		copies[p.Name()] = p
	}
	for _, s := range config.Select(snapshots, config.Now) {
		if config.isIn(copies, s) {
			result.Skipped++
			continue
		}
		if err := config.copy(ctx, s); err != nil {
			return Result{}, err
		}
		result.Copied++
		result.Bytes += s.Size
		config.Log.Info("Copied a snapshot", "snapshot", s.Name(), "bytes", s.Size)
	}
	if present, err = config.Target.Trusted(ctx, time.Time{}); err != nil {
		return Result{}, fmt.Errorf("target: %w", err)
	}
	chain, err := backup.Newest(present)
	if err != nil {
		return Result{}, fmt.Errorf("target: %w", err)
	}
	result.LastRevision = chain.LastRevision()
	return result, nil
}

// usable returns the snapshots of the source that may be copied, and how many may not, since they are not signed.
func (c Config) usable(ctx context.Context) (snapshots []backup.Snapshot, unsigned int, err error) {
	all, err := c.Source.List(ctx)
	if err != nil {
		return nil, 0, err
	}
	if snapshots, err = c.Source.Trusted(ctx, time.Time{}); err != nil {
		return nil, 0, err
	}
	if c.Source.Signed() {
		err = c.check(snapshots)
	}
	return snapshots, max(len(all)-len(snapshots), 0), err
}

const (
	// finalInterval is how often the source is checked for a final snapshot.
	finalInterval = 5 * time.Second
	// finalAge is how long before the copy a final snapshot may have been taken if something was written since: keys expire with their
	// leases although clients have stopped. An older one belongs to an earlier move, or to a hibernation.
	finalAge = 24 * time.Hour
)

// awaitFinal waits for a final snapshot in the source, and reports whether there is one. It retries a
// source that cannot be read until the time is over.
func (c Config) awaitFinal(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.WaitForFinal)
	defer cancel()
	c.Log.Info("Waiting for a final snapshot in the source", "timeout", c.WaitForFinal)
	for {
		snapshots, err := c.Source.Trusted(ctx, time.Time{})
		if err == nil && hasFinal(snapshots, c.Now) {
			return true, nil
		}
		select {
		case <-time.After(finalInterval):
		case <-ctx.Done():
			if err != nil {
				return false, fmt.Errorf("source: %w", err)
			}
			c.Log.Info("There is no final snapshot in the source; copying what there is")
			return false, nil
		}
	}
}

// hasFinal reports whether the cluster has ended with a final snapshot: it is recent, or nothing was written after it. Snapshots that
// the agent took after it, by its schedule, on request, or when it stopped, do not hide it. A Restore marks its final snapshot, after
// which the cluster went on. A hold says nothing: a preview may hold any snapshot.
func hasFinal(list []backup.Snapshot, now time.Time) bool {
	sorted := backup.Sorted(list)
	written := false
	for _, s := range slices.Backward(sorted) {
		written = written || s.LastRevision != sorted[len(sorted)-1].LastRevision
		if s.Final && !s.Marked {
			return !written || now.Sub(s.Created) <= finalAge
		}
	}
	return false
}

// check returns an error if the newest snapshots cannot be restored, or end before the record: a copy would sign them.
func (c Config) check(snapshots []backup.Snapshot) error {
	chain, err := backup.Newest(snapshots)
	if err != nil {
		return err
	}
	return c.Record.Check(chain)
}

// isIn reports whether a snapshot was copied before. A copy that must be signed has the signature of the same content.
func (c Config) isIn(copies map[string]backup.Snapshot, s backup.Snapshot) bool {
	s = inTarget(s)
	copy, ok := copies[s.Name()]
	return ok && copy.Size == s.Size && (!c.Target.Signed() || copy.Proof != nil && s.Proof != nil && *copy.Proof == *s.Proof)
}

// Select returns the snapshots to copy, in the order in which they were taken. It always includes the newest full snapshot
// and its deltas, however old, because a copy without them cannot be restored. It omits deltas before the first full
// snapshot, which are useless.
func (s Selection) Select(list []backup.Snapshot, now time.Time) []backup.Snapshot {
	sorted := backup.Sorted(list)
	ofSchedule := backup.OfSchedule(sorted, s.Due)
	first, fulls, scheduled := len(sorted), 0, 0
	copied := map[int]bool{}
	for i, full := range slices.Backward(sorted) {
		if full.Kind != backup.Full {
			continue
		}
		if fulls > 0 && s.MaxAge > 0 && now.Sub(full.Created) > s.MaxAge {
			break
		}
		if s.MaxBackups == 0 || fulls < s.MaxBackups || ofSchedule[i] && scheduled < s.MaxBackups {
			copied[i], first = true, i
		}
		fulls++
		if ofSchedule[i] {
			scheduled++
		}
	}
	var selected []backup.Snapshot
	for i, snapshot := range sorted {
		if copied[i] || i > first && snapshot.Kind == backup.Delta {
			selected = append(selected, snapshot)
		}
	}
	return selected
}

// inTarget returns a snapshot as the target keeps it, without the mark of a final one: with it, a later copy out of the target would
// not wait for the final snapshot of the cluster that runs there now.
func inTarget(s backup.Snapshot) backup.Snapshot {
	s.Final = false
	return s
}

// copy copies one object as it is: an encrypted one stays encrypted for its recipients, and no key is needed. What can be verified is
// verified before the object gets its name in the target: the content of a plain one, and the signature of any.
func (c Config) copy(ctx context.Context, s backup.Snapshot) error {
	object, err := c.Source.Object(ctx, s)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	// It was only read.
	defer func() { _ = object.Close() }()
	// A file was verified and synced; reading it back would only read the page cache.
	_, isFile := c.Target.File(inTarget(s))
	sum := sha256.New()
	written, err := c.Target.Write(ctx, inTarget(s), func(w io.Writer) error {
		if !isFile {
			w = io.MultiWriter(w, sum)
		}
		return verify(s, io.TeeReader(object, w))
	})
	if err != nil {
		return fmt.Errorf("copying to the target: %w", err)
	}
	if isFile {
		return nil
	}
	if err := c.readBack(ctx, written, sum.Sum(nil)); err != nil {
		return errors.Join(fmt.Errorf("reading back what was written to the target: %w", err), c.Target.Delete(ctx, inTarget(s)))
	}
	return nil
}

// verify reads an object to its end.
func verify(s backup.Snapshot, object io.Reader) error {
	if s.Encrypted {
		_, err := io.Copy(io.Discard, object)
		return err
	}
	return backup.Verify(s, object)
}

// readBack returns an error unless the target has what was written.
func (c Config) readBack(ctx context.Context, written backup.Snapshot, sum []byte) error {
	object, err := c.Target.Object(ctx, written)
	if err != nil {
		return err
	}
	// It was only read.
	defer func() { _ = object.Close() }()
	read := sha256.New()
	if _, err := io.Copy(read, object); err != nil {
		return err
	}
	if !bytes.Equal(read.Sum(nil), sum) {
		return &backup.CorruptError{Name: written.Name(), Reason: "it is not what was written"}
	}
	return nil
}
