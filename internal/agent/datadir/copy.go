// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"golang.org/x/sys/unix"
)

// CopyConfig of a copy.
type CopyConfig struct {
	// DataDir is etcd's data directory. It is only read.
	DataDir string
	// ClusterID is the ID, in hex, of the cluster that the data must belong to.
	ClusterID string
	// WorkDir has space for the database, and for what the log adds to it.
	WorkDir string
	Log     logr.Logger
}

// Copied is the result of a copy.
type Copied struct {
	// File is the database.
	File string
	// Revision of the database.
	Revision int64
	// Replayed is the number of log entries that the member's own database lacked.
	Replayed uint64
}

// Copy makes a database, as in a snapshot, from all data of a stopped member: its database, and the log entries that it
// lacks. As in a rebuild, all entries count.
func Copy(ctx context.Context, c CopyConfig) (copied Copied, err error) {
	defer recovered(&err)
	source, err := open(c.DataDir)
	if err != nil {
		return Copied{}, err
	}
	if id := strconv.FormatUint(source.log.clusterID, 16); id != c.ClusterID {
		return Copied{}, fmt.Errorf("%s holds data of cluster %s, not of cluster %s", c.DataDir, id, c.ClusterID)
	}
	if err := checkSpace(c.WorkDir, source.needs()); err != nil {
		return Copied{}, err
	}
	file := filepath.Join(c.WorkDir, "database.db")
	if err := copyDatabase(c.Log, source.database, file); err != nil {
		return Copied{}, err
	}
	result, err := replay(ctx, c.Log, source, file)
	if err != nil {
		return Copied{}, err
	}
	return Copied{File: file, Revision: result.Revision, Replayed: result.Replayed}, nil
}

// copyDatabase copies a database; if there is none, it makes an empty one.
func copyDatabase(log logr.Logger, from database, to string) (err error) {
	if from.path == "" {
		return makeDatabase(to)
	}
	source, err := os.Open(from.path)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making a file for the database: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	defer tell(log, "Copying the database", func() []any { return []any{"bytes", size(to), "of", from.bytes} })()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return nil
}

// makeDatabase makes an empty database. It uses bbolt alone: on a full volume, the backend of etcd ends the process, in a goroutine whose
// panics cannot be recovered.
func makeDatabase(path string) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout})
	if err != nil {
		return fmt.Errorf("making a database: %w", err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, bucket := range []backend.Bucket{schema.Meta, schema.Members, schema.MembersRemoved, schema.Cluster} {
			if _, err := tx.CreateBucketIfNotExists(bucket.Name()); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("making a database: %w", err)
	}
	return nil
}

// tellInterval is how often progress is logged.
const tellInterval = 5 * time.Second

// tell logs progress until it is stopped.
func tell(log logr.Logger, what string, progress func() []any) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tellInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				log.Info(what, progress()...)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// size returns the size of a file; 0 if there is none.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// checkSpace returns an error if the volume of a folder has less free space than needed.
func checkSpace(dir string, needs int64) error {
	free, err := freeSpace(dir)
	if err != nil {
		return err
	}
	if free < needs {
		return fmt.Errorf("%d bytes are needed on the volume of %s, but only %d are free", needs, dir, free)
	}
	return nil
}

// CheckSpaceOfRestore returns an error if the volume of a folder has less free space than a restore takes (member.NeedsOfRestore).
func CheckSpaceOfRestore(dir string, database int64) error {
	return checkSpace(dir, member.NeedsOfRestore(database))
}

// freeSpace returns how many bytes are free on the volume of a folder.
func freeSpace(dir string) (int64, error) {
	var volume unix.Statfs_t
	if err := unix.Statfs(dir, &volume); err != nil {
		return 0, fmt.Errorf("looking up the space on the volume of %s: %w", dir, err)
	}
	return int64(volume.Bavail) * volume.Bsize, nil
}
