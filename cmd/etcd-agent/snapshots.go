// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// healthInterval is how often a changed health of snapshots is reported.
const healthInterval = 10 * time.Second

// repeatInterval is how often an unchanged health is reported again: later than with a delta each five minutes, the default, which changes it.
const repeatInterval = 6 * time.Minute

// leaseTimeout bounds the renewal of a snapshot lease.
const leaseTimeout = 10 * time.Second

// maxFailure bounds a reported failure, in bytes.
const maxFailure = 1 << 10

// openInterval is how often opening a store is retried.
const openInterval = 30 * time.Second

// snapshots takes snapshots while this member leads, and reports them by leases. A store that cannot be opened, because of
// wrong credentials for example, does not stop the agent.
type snapshots struct {
	open        func(context.Context) (*snapshotter.Snapshotter, error)
	opened      atomic.Pointer[snapshotter.Snapshotter]
	failed      atomic.Pointer[error]
	making      sync.Mutex
	full, delta serve.SnapshotLease
	// newest are the newest snapshots of this term, by kind, and unrecorded those of them that their leases do not record yet.
	newest, unrecorded map[backup.Kind]backup.Snapshot
	recording          sync.Mutex
	restored           serve.AfterRestore
	// seen is when this agent saw which revisions.
	seen snapshotter.Seen
	log  logr.Logger
}

func newSnapshots(log logr.Logger, o serveOptions, config *rest.Config, local *clientv3.Client, registry prometheus.Registerer) (*snapshots, error) {
	s := &snapshots{log: log}
	var err error
	if s.full, err = serve.NewSnapshotLease(config, o.leases.namespace, o.leases.full); err != nil {
		return nil, err
	}
	if s.delta, err = serve.NewSnapshotLease(config, o.leases.namespace, o.leases.delta); err != nil {
		return nil, err
	}
	recorded, err := serve.Recorded(config, o.leases.namespace, o.leases.full, o.leases.delta)
	if err != nil {
		return nil, err
	}
	etcd, err := snapshotter.Member(local)
	if err != nil {
		return nil, err
	}
	s.restored = serve.AfterRestore{
		Log: log, Shared: serve.SharedIn(o.sharedDir, member.ConfigFile),
		Record: func(ctx context.Context, clusterID string) error {
			_, err := s.full.Report(ctx, map[string]string{v1alpha1.AnnotationBackupOfRecovered: clusterID})
			return err
		},
	}
	if s.restored.Recorded, err = serve.RecoveredCluster(config, o.leases.namespace, o.leases.full); err != nil {
		return nil, err
	}
	s.open = func(ctx context.Context) (*snapshotter.Snapshotter, error) {
		to, err := store.Open(ctx, o.store)
		if err != nil {
			return nil, err
		}
		return snapshotter.New(s.config(snapshotter.Config{
			Options: o.snapshots, Etcd: etcd, Store: to, Recorded: recorded,
			Clock: clock.RealClock{}, Log: log, Metrics: registry,
		}))
	}
	return s, nil
}

// config adds the callbacks to the configuration of a snapshotter.
func (s *snapshots) config(c snapshotter.Config) snapshotter.Config {
	c.FullFirst, c.OnSnapshot, c.Seen = s.restored.NeedsFull, s.report, &s.seen
	return c
}

// HotPrefixes implements server.Snapshots.
func (s *snapshots) HotPrefixes(withKeys bool) hotprefix.Report {
	if taker := s.opened.Load(); taker != nil {
		return taker.HotPrefixes(withKeys)
	}
	return hotprefix.Report{Prefixes: []hotprefix.Prefix{}}
}

func (s *snapshots) Full(ctx context.Context, final bool) (backup.Snapshot, error) {
	if taker := s.opened.Load(); taker != nil {
		return taker.Full(ctx, final)
	}
	return backup.Snapshot{}, snapshotter.ErrNotRunning
}

func (s *snapshots) Delta(ctx context.Context) (*backup.Snapshot, error) {
	if taker := s.opened.Load(); taker != nil {
		return taker.Delta(ctx)
	}
	return nil, snapshotter.ErrNotRunning
}

func (s *snapshots) Latest(ctx context.Context) (backup.Chain, error) {
	taker, err := s.taker(ctx)
	if err != nil {
		return backup.Chain{}, err
	}
	return taker.Latest(ctx)
}

func (s *snapshots) Keep(ctx context.Context, name string) (backup.Snapshot, error) {
	taker, err := s.taker(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	return taker.Keep(ctx, name)
}

func (s *snapshots) Hold(ctx context.Context, base string, revision int64) (backup.Snapshot, error) {
	taker, err := s.taker(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	return taker.Hold(ctx, base, revision)
}

// Healthy returns why the last snapshot failed, or why none can be taken; nil otherwise.
func (s *snapshots) Healthy() error {
	if taker := s.opened.Load(); taker != nil {
		return taker.Healthy()
	}
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// taker returns the snapshotter, which is made once the store opens.
func (s *snapshots) taker(ctx context.Context) (*snapshotter.Snapshotter, error) {
	s.making.Lock()
	defer s.making.Unlock()
	if taker := s.opened.Load(); taker != nil {
		return taker, nil
	}
	taker, err := s.open(ctx)
	if err != nil {
		s.failed.Store(&err)
		return nil, err
	}
	s.opened.Store(taker)
	return taker, nil
}

// lead takes snapshots while this member leads.
func (s *snapshots) lead(ctx context.Context) {
	s.recording.Lock()
	s.newest, s.unrecorded = nil, nil // another member may have led since
	s.recording.Unlock()
	var reporting sync.WaitGroup
	reporting.Go(func() { s.reportHealth(ctx) })
	defer reporting.Wait()
	for ctx.Err() == nil {
		taker, err := s.taker(ctx)
		if err == nil {
			err = taker.Run(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error(err, "Taking snapshots failed")
		}
		select {
		case <-ctx.Done():
		case <-time.After(openInterval):
		}
	}
}

// report renews the lease of a snapshot's kind, and notes that a full one was taken.
func (s *snapshots) report(snapshot backup.Snapshot) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
	defer cancel()
	if snapshot.Kind == backup.Full {
		s.restored.Took(ctx)
	}
	s.recording.Lock()
	defer s.recording.Unlock()
	s.newest, s.unrecorded = memory.With(s.newest, snapshot.Kind, snapshot), memory.With(s.unrecorded, snapshot.Kind, snapshot)
	s.record(ctx)
}

// record renews the leases that do not record the newest snapshots yet. What fails is repeated until it succeeds: a recovery compares what the
// leases record with what volumes have. The caller holds the lock.
func (s *snapshots) record(ctx context.Context) {
	for kind, lease := range map[backup.Kind]serve.SnapshotLease{backup.Full: s.full, backup.Delta: s.delta} {
		snapshot, is := s.unrecorded[kind]
		if !is {
			continue
		}
		if err := lease.Record(ctx, snapshot, time.Now()); err != nil {
			s.log.Error(err, "Renewing the lease of snapshots failed", "snapshot", snapshot.Name())
			continue
		}
		delete(s.unrecorded, kind)
	}
}

// recordAgain repeats what has failed.
func (s *snapshots) recordAgain(ctx context.Context) {
	s.recording.Lock()
	defer s.recording.Unlock()
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	s.record(ctx)
}

// current returns when the store was last found to be up to date; zero if that is not known.
func (s *snapshots) current() time.Time {
	if taker := s.opened.Load(); taker != nil {
		return taker.Current()
	}
	return time.Time{}
}

// maxIntervals is how many intervals are reported.
const maxIntervals = 32

// restorable returns the values of the annotations with what can be restored, which is empty if that is not known, and with what cannot be
// decrypted.
func (s *snapshots) restorable() (states, locked string) {
	taker := s.opened.Load()
	if taker == nil {
		return "", ""
	}
	intervals, locked := taker.Restorable()
	if intervals == nil {
		return "", ""
	}
	intervals = slices.Clone(intervals)
	slices.Reverse(intervals)
	text, err := json.Marshal(intervals[:min(len(intervals), maxIntervals)])
	if err != nil {
		return "", ""
	}
	return string(text), locked
}

// health returns what is reported by annotations of the lease of full snapshots: the failure of the last snapshot, when the store was last found to be
// up to date, and what can be restored from it.
func (s *snapshots) health() map[string]string {
	all := map[string]string{v1alpha1.AnnotationBackupError: ""}
	if err := s.Healthy(); err != nil {
		all[v1alpha1.AnnotationBackupError] = sanitize.Text(err.Error(), maxFailure)
	}
	if states, locked := s.restorable(); states != "" {
		all[v1alpha1.AnnotationRestorable], all[v1alpha1.AnnotationUndecryptable] = states, locked
	}
	if current := s.current(); !current.IsZero() {
		all[v1alpha1.AnnotationBackupsCurrent] = current.UTC().Format(time.RFC3339)
	}
	return all
}

// reportHealth reports the health at the start, on changes, and again after a while, also without deltas and while snapshots fail. All of it is written
// each time: a late write of an agent that led before, and a lease that was made again, do not last.
func (s *snapshots) reportHealth(ctx context.Context) {
	var reported map[string]string
	var last time.Time
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		s.recordAgain(ctx)
		due := time.Since(last) >= repeatInterval
		if health := s.health(); (due || !maps.Equal(health, reported)) && s.reports(ctx, health) {
			reported, last = health, time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reports writes the health, and reports whether it could. If the lease records no snapshot, as one that was made again, the newest are to be recorded.
func (s *snapshots) reports(ctx context.Context, health map[string]string) bool {
	limited, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	records, err := s.full.Report(limited, health)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error(err, "Reporting the health of snapshots failed")
		}
		return false
	}
	if !records {
		s.recording.Lock()
		defer s.recording.Unlock()
		s.unrecorded = maps.Clone(s.newest)
	}
	return true
}
