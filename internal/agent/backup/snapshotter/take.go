// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// perform takes the requested snapshot and completes the request.
func (n *session) perform(ctx context.Context, r *request) error {
	start := n.config.Clock.Now()
	limited, cancel := context.WithTimeout(ctx, n.config.Timeout)
	defer cancel()
	var snapshot *backup.Snapshot
	var err error
	if r.kind == backup.Full {
		snapshot, err = n.full(limited, r.final)
	} else {
		snapshot, err = n.delta(limited)
	}
	if err != nil && ctx.Err() != nil {
		err = ErrNotRunning // callers retry with the next leader
	}
	n.metrics.taken(r.kind, n.config.Clock.Since(start), snapshot, err)
	if err == nil {
		n.metrics.require(backup.Delta, n.events.Len() > 0)
	}
	if err == nil && snapshot != nil && snapshot.Kind == backup.Full {
		n.metrics.require(backup.Full, false)
	}
	n.finish(r, snapshot, err)
	return err
}

// full takes a delta first, so that the deltas have every revision: a restore to any of them is possible, and the previous full snapshot
// leads to the present one if that turns out to be corrupt.
func (n *session) full(ctx context.Context, final bool) (*backup.Snapshot, error) {
	if n.stored > 0 {
		n.closeGap(ctx)
	}
	revision, err := n.config.Etcd.Revision(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := n.config.Etcd.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	// The stream was read to its end.
	defer func() { _ = stream.Close() }()
	snapshot := backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: n.config.Clock.Now(), Final: final}
	return n.write(ctx, snapshot, func(w io.Writer, s backup.Snapshot) error { return backup.WriteFull(w, s, stream) })
}

// closeGap takes a delta, for half of the time at most. Without it, the full snapshot is taken as well.
func (n *session) closeGap(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, n.config.Timeout/2)
	defer cancel()
	last, err := n.delta(limited)
	if last != nil {
		n.metrics.stored(*last)
	}
	if err != nil {
		n.config.Log.Info("There is no delta before the full snapshot, so the revisions in between cannot be restored", "reason", err.Error())
		n.forget()
	}
}

// delta takes deltas until the store has everything written before the call. It returns the last one, or nil without
// changes. If deltas cannot continue, it takes a full snapshot.
func (n *session) delta(ctx context.Context) (*backup.Snapshot, error) {
	began := n.config.Clock.Now()
	target, err := n.config.Etcd.Revision(ctx)
	if err != nil {
		return nil, err
	}
	if n.stored == 0 {
		return n.full(ctx, false)
	}
	var last *backup.Snapshot
	for n.stored < target {
		if err := n.gather(ctx, target); err != nil {
			return last, err
		}
		first, end := n.events.Revisions()
		snapshot := backup.Snapshot{Kind: backup.Delta, StartRevision: first, LastRevision: end, Created: n.events.Seen()}
		if end >= target && began.After(snapshot.Created) {
			snapshot.Created = began
		}
		if last, err = n.write(ctx, snapshot, n.events.Write); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// write writes a snapshot, which has everything that was seen until it was created, into the store, and drops the events up to its revision.
func (n *session) write(ctx context.Context, s backup.Snapshot, write func(io.Writer, backup.Snapshot) error) (*backup.Snapshot, error) {
	began := n.config.Clock.Now()
	// Snapshots are ordered by time, so times must increase whatever the clock does.
	s.Created = s.Created.UTC().Truncate(time.Second)
	if !s.Created.After(n.newest) {
		s.Created = n.newest.Add(time.Second)
	}
	s.Compression, s.Proof = n.config.Compression, n.proof(s.Kind)
	s, err := n.config.Store.Write(ctx, s, func(w io.Writer) error { return write(w, s) })
	if err != nil {
		return nil, err
	}
	n.forget()
	n.continueWith(s)
	n.deltaDue = began.Add(n.config.DeltaPeriod) // not the end: what is written during a long upload is not in the store
	if s.Kind == backup.Full {
		n.fullDue, n.renewed, n.unread = n.schedule.after(s.Created, n.config.Clock.Now()), true, false
		if list, err := n.config.Store.List(ctx); err == nil { // otherwise the next listing tells
			n.foundRestorable(list)
		}
	}
	// What is wrong is reported, and the next snapshot is taken as well.
	_ = n.checkReadable(ctx, s)
	n.config.Log.Info("Took a snapshot", "snapshot", s.Name(), "bytes", s.Size)
	if n.config.OnSnapshot != nil {
		n.config.OnSnapshot(s)
	}
	return &s, nil
}

// forget drops the collected events.
func (n *session) forget() {
	n.events = backup.DeltaBuffer{}
	clear(n.leases)
}

// collected returns the last revision in the store or among the events.
func (n *session) collected() int64 {
	_, last := n.events.Revisions()
	return max(n.stored, last)
}

// watch watches the changes that follow. It returns nil if deltas cannot continue.
func (n *session) watch(ctx context.Context) clientv3.WatchChan {
	if n.stored == 0 {
		return nil
	}
	return n.config.Etcd.Watch(ctx, n.collected()+1)
}

// gather collects events up to a revision, or to the memory limit.
func (n *session) gather(ctx context.Context, target int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := n.watch(ctx)
	for n.collected() < target && int64(n.events.Len()) < n.config.DeltaLimit {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the events up to revision %d: %w", target, ctx.Err())
		case response, open := <-changes:
			if err := n.take(ctx, response, open); err != nil {
				return err
			}
		}
	}
	return nil
}

// take collects the events of a response, which has all events of each of its revisions.
func (n *session) take(ctx context.Context, response clientv3.WatchResponse, open bool) error {
	if err := response.Err(); err != nil {
		return fmt.Errorf("watching etcd: %w", err)
	}
	if !open {
		return errors.New("watching etcd: the watch has ended")
	}
	now := n.config.Clock.Now().UTC()
	n.count(response.Events, now)
	for _, e := range response.Events {
		ttl, err := n.leaseTTL(ctx, e.Kv.Lease)
		if err != nil {
			return err
		}
		err = n.events.Add(backup.Event{Time: n.config.Seen.At(e.Kv.ModRevision, now), LeaseTTL: ttl, EtcdEvent: backup.EtcdEvent{
			Type: backup.EventType(e.Type),
			Kv: backup.KeyValue{
				Key: e.Kv.Key, Value: e.Kv.Value, Lease: e.Kv.Lease,
				CreateRevision: e.Kv.CreateRevision, ModRevision: e.Kv.ModRevision, Version: e.Kv.Version,
			},
		}})
		if err != nil {
			return err
		}
	}
	n.metrics.require(backup.Delta, n.events.Len() > 0)
	return nil
}

// leaseTTL returns the TTL of a lease; 0 for none. It asks etcd once per lease and delta.
func (n *session) leaseTTL(ctx context.Context, lease int64) (int64, error) {
	if lease == 0 {
		return 0, nil
	}
	ttl, known := n.leases[lease]
	if !known {
		var err error
		if ttl, err = n.config.Etcd.LeaseTTL(ctx, lease); err != nil {
			return 0, err
		}
		n.leases[lease] = ttl
	}
	return ttl, nil
}
