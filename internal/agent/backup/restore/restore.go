// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package restore makes a data directory, or a compacted snapshot, from the snapshots of a store. It links etcd's
// server, so only the agent imports it.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/go-logr/logr"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Config of a restore.
type Config struct {
	// Store to restore from.
	Store *store.Store
	// DataDir is etcd's data directory. It must not exist, or be empty.
	DataDir string
	// WorkDir is where it is made, on the same volume; by default beside it.
	WorkDir string
	// Member, its peer URL, and the initial cluster with its token, as in etcd's configuration.
	Member, PeerURL, InitialCluster, Token string
	// Point is an earlier state to restore in place of the newest one; nil for none.
	Point *Point
	// Bump is added to the revision, and what was before is marked compacted: see datadir.Renew. Behind does so by a margin above all
	// revisions that are known, because the snapshots may lack what clients have seen. With neither, revisions continue.
	Bump   int64
	Behind bool
	// Known is the highest revision that is known apart from the snapshots; 0 for none.
	Known int64
	// AtLeast is the revision that the snapshots must reach; 0 for any.
	AtLeast int64
	// Begins records at which revision the cluster begins, and has it begin above where an earlier one has.
	Begins datadir.Recorder
	// Record is the newest snapshot that was recorded outside of the store. A store that ends before it is refused.
	Record backup.Record
	// Accept is what may be used although it is unsigned, or older than recorded.
	Accept Acceptance
	Log    logr.Logger
}

// Acceptance is what a user has accepted where snapshots are signed. Its zero value is nothing.
type Acceptance struct {
	// UnsignedUntil is the time until which snapshots need no signature.
	UnsignedUntil time.Time
	// Revision at which the snapshots may end although a later one is recorded; 0 for none.
	Revision int64
}

// Result of a restore.
type Result struct {
	// Chain of the snapshots that were used.
	Chain backup.Chain
	// Revision of the restored state, that of the newest snapshot or of the Point, and what was added to it.
	Revision, Bump int64
}

// Restore makes a data directory from the newest full snapshot and the deltas that follow it. Every object is verified before
// it is used; where snapshots are signed, only signed ones are. It returns a *backup.CorruptError for a corrupt object, unless it is the
// newest full snapshot and an older one reaches the same revision, which is used instead; backup.ErrNoFull for a store without a full
// snapshot; and a *backup.GapError for a store that lacks a delta.
//
// The directory gets its name once it is complete. Restore may be called again after an interruption.
func Restore(ctx context.Context, config Config) (result Result, err error) {
	if err := os.Remove(config.DataDir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Result{}, fmt.Errorf("restoring into %s: it must be empty: %w", config.DataDir, err)
	}
	work := cmp.Or(config.WorkDir, datadir.RestoringDir(config.DataDir))
	err = inFolder(work, "restore", func() (err error) {
		result, err = config.restore(ctx, work)
		return err
	})
	return result, err
}

// inFolder runs what needs a folder of its own, which is removed afterwards.
func inFolder(path, what string, run func() error) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing leftovers of an interrupted %s: %w", what, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making a folder for the %s: %w", what, err)
	}
	return errors.Join(run(), os.RemoveAll(path))
}

// margin is how many revisions may be lost with what the snapshots lack.
const margin = datadir.Margin

// maxRevision bounds what the name of a snapshot is believed, so that no sum overflows.
const maxRevision = math.MaxInt64 / 4

// quiet logs nothing, and panics where etcd would end the process, so that it becomes an error.
var quiet = zap.NewNop().WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic))

// guard has a panic of etcd or bbolt over the content of a snapshot, also one over a page that cannot be read, become an error. Defer what it
// returns.
func guard(err *error) (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = errors.Join(*err, fmt.Errorf("etcd cannot use the content of the snapshots: %s", sanitize.Text(fmt.Sprint(r), maxReason)))
		}
	}
}

// maxReason bounds what is kept of a panic, in bytes.
const maxReason = 1 << 10

func (c Config) restore(ctx context.Context, work string) (result Result, err error) {
	defer guard(&err)()
	if err := c.Begins.Check(ctx); err != nil {
		return Result{}, err
	}
	source := &source{store: c.Store, work: work, log: c.Log, accept: c.Accept, record: c.Record}
	data := filepath.Join(work, "data")
	choice, err := c.choose(ctx, source, data)
	if err != nil {
		return Result{}, err
	}
	applied, err := source.applyAll(ctx, databaseIn(data), choice)
	if err != nil {
		return Result{}, err
	}
	result = Result{Chain: choice.Chain, Revision: applied.revision, Bump: c.Bump}
	if c.Point != nil {
		if err := c.Point.verify(databaseIn(data), result.Revision, source.missing); err != nil {
			return Result{}, err
		}
	}
	if c.Behind {
		result.Bump = min(max(source.highest, c.Record.Revision, c.Known, result.Revision)-result.Revision, maxRevision) + margin
	}
	// Last of all: it changes HashKV.
	start := datadir.Start{Token: c.Token, Begins: c.Begins, Log: c.Log}
	if result.Bump, err = start.Begin(ctx, databaseIn(data), result.Revision, result.Bump); err != nil {
		return Result{}, err
	}
	if err := crashsafe.Publish(data, c.DataDir); err != nil {
		return Result{}, fmt.Errorf("giving the data directory its name: %w", err)
	}
	return result, nil
}

// choose makes a data directory of the full snapshot to begin with, and returns the chain that leads on.
func (c Config) choose(ctx context.Context, source *source, data string) (backup.Choice, error) {
	take := func(full backup.Snapshot) error { return c.dataDir(ctx, source, full, data) }
	if c.Point != nil {
		return source.exactly(ctx, *c.Point, c.DataDir, take)
	}
	chain, err := source.choose(ctx, take)
	if err != nil {
		return backup.Choice{}, err
	}
	if last := chain.LastRevision(); last < c.AtLeast {
		return backup.Choice{}, fmt.Errorf("the snapshots in %s end at revision %d, and must reach revision %d: restore those that are missing, or the store that holds them", c.Store, last, c.AtLeast)
	}
	return backup.Choice{Chain: chain}, nil
}

// dataDir makes a data directory from a full snapshot. If etcd's code panics over its content, the snapshot is corrupt.
func (c Config) dataDir(ctx context.Context, source *source, full backup.Snapshot, data string) error {
	file, fetched, err := source.file(ctx, full)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("removing what was made of another snapshot: %w", err)
	}
	return usable(full, func() error {
		config := snapshot.RestoreConfig{
			SnapshotPath: file, OutputDataDir: data,
			Name: c.Member, PeerURLs: []string{c.PeerURL}, InitialCluster: c.InitialCluster, InitialClusterToken: c.Token,
		}
		restore := snapshot.NewV3(quiet).Restore
		if fetched {
			restore = func(config snapshot.RestoreConfig) error { return datadir.Found(file, config) }
		}
		if err := restore(config); err != nil {
			return fmt.Errorf("making a data directory from %s: %w", full.Name(), err)
		}
		return opens(databaseIn(data))
	})
}

func databaseIn(data string) string { return filepath.Join(data, "member", "snap", "db") }

// usable uses a full snapshot. A panic of etcd or bbolt over its content, and a database that is not etcd's, is returned as a
// *backup.CorruptError.
func usable(full backup.Snapshot, use func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &backup.CorruptError{Name: full.Name(), Reason: "etcd cannot use it: " + sanitize.Text(fmt.Sprint(r), maxReason)}
		}
	}()
	if err = use(); errors.Is(err, errNotEtcd) {
		return &backup.CorruptError{Name: full.Name(), Reason: err.Error()}
	}
	return err
}

// opens returns an error if a database cannot be opened, or is not etcd's. It panics over what etcd could not start with.
func opens(path string) error {
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	return errors.Join(db.close(), revisions(path))
}
