// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// InspectData tells what a data directory holds. The criterion is etcd's own: a member has data when it has
// a write-ahead log. The directory of snapshots and database is made before the log, so a log without it
// has lost it. A directory that cannot be read is an error and never an empty one.
func InspectData(dir string) (Data, error) {
	hasLog, err := hasLog(filepath.Join(dir, "member", "wal"))
	if err != nil || !hasLog {
		return DataNone, err
	}
	_, err = os.Stat(filepath.Join(dir, "member", "snap"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return DataDamaged, nil
	case err != nil:
		return DataNone, fmt.Errorf("looking up the snapshot directory: %w", err)
	}
	return DataPresent, nil
}

func hasLog(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the write-ahead log: %w", err)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" }), nil
}
