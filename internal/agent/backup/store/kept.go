// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"gocloud.dev/blob"
)

// A snapshot that retention must not remove has a marker: an object beside the folder of the snapshots, as signatures are, whose name
// etcd-backup-restore takes neither for that of a snapshot nor of a chunk. The snapshot keeps its name, so every tool reads it as before.
// A person releases the snapshot by removing the marker.
const (
	keptFolder = "kept"
	keptPrefix = "keep."
)

// Keep marks a snapshot, so that retention never removes it. It may be called again.
func (s *Store) Keep(ctx context.Context, name string) (backup.Snapshot, error) {
	list, err := s.List(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	i := slices.IndexFunc(list, func(s backup.Snapshot) bool { return s.Name() == name })
	if i < 0 {
		return backup.Snapshot{}, fmt.Errorf("%s has no such snapshot, so it is not marked as kept", s)
	}
	if err := s.objects.writeSmall(ctx, path.Join(s.keptFolder(), keptPrefix+name), "text/plain", []byte(name+"\n")); err != nil {
		return backup.Snapshot{}, fmt.Errorf("marking snapshot %s as kept: %w", name, err)
	}
	list[i].Kept = true
	return list[i], nil
}

func (s *Store) keptFolder() string { return path.Join(s.objects.config.Prefix, keptFolder) }

// markKept notes which snapshots are marked.
func (s *Store) markKept(ctx context.Context, snapshots []backup.Snapshot) error {
	marked := map[string]bool{}
	err := s.objects.in(ctx, s.keptFolder(), func(name string, _ *blob.ListObject) {
		if snapshot, ok := strings.CutPrefix(name, keptPrefix); ok {
			marked[snapshot] = true
		}
	})
	for i := range snapshots {
		snapshots[i].Kept = marked[snapshots[i].Name()]
	}
	return err
}
