// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package finalsnapshot takes the final full snapshot of a stopped cluster, from the data of one of its members. It links
// etcd's server, so only the agent imports it.
package finalsnapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Config of a final snapshot.
type Config struct {
	// Store of the snapshot.
	Store *store.Store
	// DataDir is the data directory of the most advanced member. It is only read.
	DataDir string
	// ClusterID is the ID, in hex, of the cluster that the data must belong to.
	ClusterID string
	// WorkDir has space for the database.
	WorkDir string
	// Compression of the snapshot.
	Compression backup.Compression
	Clock       clock.PassiveClock
	Log         logr.Logger
}

// Take writes all data of a stopped member into one full snapshot: its database, and the log entries that it lacks. It returns
// after it has read the snapshot back and a restore would start with it. It may be called again after an interruption.
func Take(ctx context.Context, config Config) (backup.Snapshot, error) {
	work := filepath.Join(config.WorkDir, "final-snapshot")
	if err := os.RemoveAll(work); err != nil {
		return backup.Snapshot{}, fmt.Errorf("removing leftovers of an interrupted snapshot: %w", err)
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return backup.Snapshot{}, fmt.Errorf("making a folder for the snapshot: %w", err)
	}
	snapshot, err := config.take(ctx, work)
	return snapshot, errors.Join(err, os.RemoveAll(work))
}

func (c Config) take(ctx context.Context, work string) (backup.Snapshot, error) {
	if c.Store.PeopleOnly() {
		return backup.Snapshot{}, errors.New("the snapshot would be encrypted, and could be neither read back nor restored here: set spec.backup.encryption.identitySecretRef, or keep the volumes")
	}
	newest, created, err := c.newest(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	database, err := datadir.Copy(ctx, datadir.CopyConfig{DataDir: c.DataDir, ClusterID: c.ClusterID, WorkDir: work, Log: c.Log})
	if err != nil {
		return backup.Snapshot{}, fmt.Errorf("copying the data of the member: %w", err)
	}
	if database.Revision < newest {
		return backup.Snapshot{}, fmt.Errorf("the data of the member ends at revision %d, but the snapshots in %s end at revision %d: the member lacks data of the cluster", database.Revision, c.Store, newest)
	}
	snapshot, err := c.Store.WriteDatabase(ctx, database.File, backup.Snapshot{
		Kind: backup.Full, LastRevision: database.Revision, Created: created, Compression: c.Compression, Final: true,
	})
	if err != nil {
		return backup.Snapshot{}, err
	}
	if err := c.verify(ctx, snapshot); err != nil {
		return backup.Snapshot{}, errors.Join(fmt.Errorf("verifying the snapshot: %w", err), c.remove(ctx, snapshot))
	}
	c.Log.Info("Took the final snapshot", "snapshot", snapshot.Name(), "bytes", snapshot.Size, "replayed", database.Replayed)
	return snapshot, nil
}

// remove removes a snapshot that could not be verified, also when the Job is being stopped.
func (c Config) remove(ctx context.Context, snapshot backup.Snapshot) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removing)
	defer cancel()
	return c.Store.Delete(ctx, snapshot)
}

// removing is less than the grace period of a Job's pod.
const removing = 20 * time.Second

// newest returns the revision that a restore reaches now, and a time that makes a snapshot the newest, even if the clock is wrong.
func (c Config) newest(ctx context.Context) (revision int64, created time.Time, err error) {
	list, err := c.Store.List(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	now := c.Clock.Now()
	created = now.UTC().Truncate(time.Second)
	if last := backup.LastTaken(list, c.Store.Trust(), now); !created.After(last) {
		created = last.Add(time.Second)
	}
	// This snapshot is newer than one that may not be used, so that no restore needs that.
	list, _ = backup.Trusted(list, c.Store.Trust(), time.Time{})
	// This snapshot makes up for a gap, or for a missing full snapshot.
	chain, err := backup.Newest(list)
	if lost := (*backup.LostError)(nil); errors.As(err, &lost) {
		err = nil
	}
	if gap := (*backup.GapError)(nil); err != nil && !errors.Is(err, backup.ErrNoFull) && !errors.As(err, &gap) {
		return 0, time.Time{}, fmt.Errorf("reading the snapshots in %s: %w", c.Store, err)
	}
	return chain.LastRevision(), created, nil
}

// verify reads the snapshot back, and checks that a restore would use it and nothing else.
func (c Config) verify(ctx context.Context, snapshot backup.Snapshot) error {
	if err := c.Store.Verify(ctx, snapshot); err != nil {
		return err
	}
	list, err := c.Store.Trusted(ctx, time.Time{})
	if err != nil {
		return err
	}
	chain, err := backup.Newest(list)
	if err != nil {
		return err
	}
	if chain.Full.Name() != snapshot.Name() || len(chain.Deltas) > 0 {
		return fmt.Errorf("a restore would start with %s and %d deltas, not with %s: another writer uses %s", chain.Full.Name(), len(chain.Deltas), snapshot.Name(), c.Store)
	}
	return nil
}
