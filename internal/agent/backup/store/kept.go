// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"gocloud.dev/blob"
)

// A snapshot that retention must not remove has a marker: an object beside the folder of the snapshots, as signatures are, whose name
// etcd-backup-restore takes neither for that of a snapshot nor of a chunk. The snapshot keeps its name, so every tool reads it as before.
// A person releases the snapshot by removing the marker.
//
// A hold is such a marker as well. It keeps a chain, for a while: its name has the rest.
const (
	keptFolder = "kept"
	keptPrefix = "keep."
	holdPrefix = "hold."
)

// Keep marks a snapshot, so that retention never removes it. It may be called again, also where the bucket locks the marker.
func (s *Store) Keep(ctx context.Context, name string) (backup.Snapshot, error) {
	list, err := s.List(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	i := slices.IndexFunc(list, func(s backup.Snapshot) bool { return s.Name() == name })
	if i < 0 {
		return backup.Snapshot{}, fmt.Errorf("%s has no snapshot %s, so it is not marked as kept", s, name)
	}
	if list[i].Marked {
		return list[i], nil
	}
	if err := s.objects.writeSmall(ctx, path.Join(s.keptFolder(), keptPrefix+name), "text/plain", []byte(name+"\n")); err != nil {
		return backup.Snapshot{}, fmt.Errorf("marking snapshot %s as kept: %w", name, err)
	}
	list[i].Kept, list[i].Marked = true, true
	return list[i], nil
}

// ErrGone is returned by Hold if the store does not lead to what is to be held: asking again does not help.
var ErrGone = errors.New("does not have what is to be restored any more")

// Hold keeps what leads from a full snapshot to a revision from retention, from now on and until Sweep removes the hold; revision 0 is the
// full snapshot alone. It returns the full snapshot, and an error if the store does not lead to the revision.
func (s *Store) Hold(ctx context.Context, base string, revision int64, now time.Time) (backup.Snapshot, error) {
	list, err := s.List(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	target := backup.Target{Revision: revision, Base: base}
	if revision == 0 {
		target.Snapshot = base
	}
	choices, err := target.Choose(list)
	if err != nil && s.Trust() != backup.TrustAll {
		// An untrusted snapshot may split the history. A restore leaves it out.
		trusted, failed := s.Trusted(ctx, time.Time{})
		if _, untrusted := errors.AsType[*backup.UntrustedError](failed); failed != nil && !untrusted {
			return backup.Snapshot{}, failed
		}
		choices, err = target.Choose(trusted)
	}
	if err != nil {
		return backup.Snapshot{}, fmt.Errorf("%s %w: %w", s, ErrGone, err)
	}
	held := *choices[0].Full
	hold := backup.Hold{Since: now, Revision: revision, Base: held}
	if err := s.objects.writeSmall(ctx, path.Join(s.keptFolder(), holdPrefix+hold.String()), "text/plain", []byte(hold.String()+"\n")); err != nil {
		return backup.Snapshot{}, fmt.Errorf("holding snapshot %s: %w", base, err)
	}
	held.Kept = true
	return held, nil
}

func (s *Store) keptFolder() string { return path.Join(s.objects.config.Prefix, keptFolder) }

// Kept reports whether a snapshot is kept from retention by now: a mark or a hold may be newer than a list.
func (s *Store) Kept(ctx context.Context, snapshot backup.Snapshot) (bool, error) {
	list := []backup.Snapshot{snapshot}
	err := s.markKept(ctx, list)
	return list[0].Kept, err
}

// markKept notes which snapshots are marked, and which of the others are held.
func (s *Store) markKept(ctx context.Context, snapshots []backup.Snapshot) error {
	marked, held := map[string]bool{}, map[string]backup.Hold{}
	err := s.objects.in(ctx, s.keptFolder(), func(name string, _ *blob.ListObject) {
		if snapshot, ok := strings.CutPrefix(name, keptPrefix); ok {
			marked[snapshot] = true
		}
		if hold, ok := holdOf(name); ok {
			// Of one full snapshot, the hold that leads furthest keeps what the others do.
			base := hold.Base.Name()
			hold.Revision = max(hold.Revision, held[base].Revision)
			held[base] = hold
		}
	})
	holds := newest(held)
	for i, snapshot := range snapshots {
		keeps := func(h backup.Hold) bool { return h.Keeps(snapshot) }
		snapshots[i].Marked = marked[snapshot.Name()]
		snapshots[i].Kept = snapshots[i].Marked || slices.ContainsFunc(holds, keeps)
	}
	return err
}

// maxHolds bounds of how many full snapshots holds count: each is compared with each snapshot.
const maxHolds = 100

// newest returns the holds that were made last.
func newest(held map[string]backup.Hold) []backup.Hold {
	all := slices.SortedFunc(maps.Values(held), func(a, b backup.Hold) int { return b.Since.Compare(a.Since) })
	return all[:min(len(all), maxHolds)]
}

// holdOf returns the hold of a marker; false if it is that of another kind.
func holdOf(name string) (backup.Hold, bool) {
	text, ok := strings.CutPrefix(name, holdPrefix)
	if !ok {
		return backup.Hold{}, false
	}
	hold, err := backup.ParseHold(text)
	return hold, err == nil
}
