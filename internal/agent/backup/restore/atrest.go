// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
)

// AtRestConfig says which store is read, and where there is space for the database.
type AtRestConfig struct {
	Store   *store.Store
	WorkDir string
	Log     logr.Logger
}

// ReadAtRest reports what the newest intact full snapshot has, by prefix. The store is only read.
func ReadAtRest(ctx context.Context, c AtRestConfig) (found backup.AtRest, err error) {
	defer guard(&err)()
	source, path := &source{store: c.Store, work: c.WorkDir, log: c.Log}, filepath.Join(c.WorkDir, "at-rest.db")
	defer func() {
		if removed := os.Remove(path); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	chain, err := source.choose(ctx, func(full backup.Snapshot) error { return source.database(ctx, full, path) })
	if err != nil {
		return found, err
	}
	found.Snapshot, found.Created = chain.Full.Name(), chain.Full.Created
	err = look(path, func(tx *bolt.Tx) error {
		found.Database = tx.Size()
		keys, err := readKeys(tx)
		if err == nil {
			found.Sizes, found.Prefixes = keys.sizes()
		}
		return err
	})
	if err != nil {
		return found, fmt.Errorf("reading snapshot %s: %w", found.Snapshot, err)
	}
	return fitting(found), nil
}

// sizes returns how much there is in total, and by prefix, where most is stored first. A prefix is shown only if enough keys share it, as
// elsewhere, whether they are present or deleted: a database may be full of what is deleted.
func (s *keySpace) sizes() (total backup.Sizes, prefixes []backup.PrefixSizes) {
	by := make([]backup.Sizes, len(s.prefixes))
	for i, w := range s.stored {
		by[i] = backup.Sizes{Revisions: w.revisions, Deletions: w.deletions, Stored: w.bytes}
	}
	for _, k := range s.keys {
		by[k.prefix].Add(backup.Sizes{Keys: 1, Bytes: int64(k.size), Largest: int64(k.size)})
	}
	var other backup.Sizes
	for i, prefix := range s.prefixes {
		total.Add(by[i])
		if name := hotprefix.Name(prefix, len(s.stored[i].keys)); name != hotprefix.Other {
			prefixes = append(prefixes, backup.PrefixSizes{Prefix: name, Sizes: by[i]})
		} else {
			other.Add(by[i])
		}
	}
	slices.SortFunc(prefixes, func(a, b backup.PrefixSizes) int {
		return cmp.Or(cmp.Compare(b.Stored, a.Stored), strings.Compare(a.Prefix, b.Prefix))
	})
	if other != (backup.Sizes{}) {
		prefixes = append(prefixes, backup.PrefixSizes{Prefix: hotprefix.Other, Sizes: other})
	}
	return total, prefixes
}

// fitting returns what fits into a termination message: the smallest prefixes are added to those that are not shown.
func fitting(found backup.AtRest) backup.AtRest {
	// In one pass, since there may be many thousands.
	kept := slices.Clone(found.Prefixes[:min(len(found.Prefixes), maxPrefixes)])
	for _, p := range found.Prefixes[len(kept):] {
		kept[len(kept)-1].Add(p.Sizes)
		kept[len(kept)-1].Prefix = hotprefix.Other
	}
	found.Prefixes = kept
	for {
		text, err := json.Marshal(found)
		last := len(found.Prefixes) - 1
		if err != nil || last < 1 || len(text) <= maxPreview {
			return found
		}
		if kept[last].Prefix != hotprefix.Other {
			kept[last].Prefix = hotprefix.Other
		} else {
			kept[last-1].Add(kept[last].Sizes)
			kept[last-1].Prefix, kept = hotprefix.Other, kept[:last]
		}
		found.Prefixes = kept
	}
}
