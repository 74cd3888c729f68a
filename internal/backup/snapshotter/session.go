// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// session is what Run knows between two failures.
type session struct {
	*Snapshotter
	// stored is the revision up to which the store has everything, or 0 when deltas cannot lead on from there;
	// newest is when its last snapshot was taken.
	stored int64
	newest time.Time
	// events since, which the store does not have yet, and what their leases were granted for, in seconds.
	events backup.DeltaBuffer
	leases map[int64]int64
	// Times at which something is due, and when they were last looked at.
	fullDue, deltaDue, collectionDue, checked time.Time
}

// session takes snapshots until something fails. Then what it knows is forgotten, and the next one finds out
// anew where the store ends: etcd still has the events that were collected.
func (s *Snapshotter) session(ctx context.Context) error {
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	if err := n.resume(ctx); err != nil {
		return err
	}
	for {
		request, err := n.idle(ctx)
		if err == nil && request == nil {
			n.removeExpired(ctx)
			continue
		}
		if err == nil {
			err = n.perform(ctx, request)
		}
		if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, backup.ErrDeltaTooBig) {
			// Events that no snapshot has are gone, or fit into none: only a full snapshot leads on from here.
			n.config.Log.Info("Some events are lost to delta snapshots; taking a full one", "stored", n.stored, "reason", err.Error())
			n.forget()
			n.stored, err = 0, nil
		}
		if err != nil {
			return err
		}
	}
}

// resume finds out where the store ends, and whether deltas can lead on from there.
func (n *session) resume(ctx context.Context) error {
	list, err := n.config.Store.List(ctx)
	if err != nil {
		return err
	}
	revision, err := n.config.Etcd.Revision(ctx)
	if err != nil {
		return err
	}
	var lastFull time.Time
	for _, snapshot := range list {
		n.newest = snapshot.Created
		if snapshot.Kind == backup.Full {
			lastFull = snapshot.Created
		}
	}
	chain, err := backup.Newest(list)
	n.stored = chain.LastRevision()
	now := n.config.Clock.Now()
	n.checked, n.fullDue = now, n.schedule.after(lastFull, now)
	n.deltaDue, n.collectionDue = now.Add(n.config.DeltaPeriod), now.Add(n.config.CollectionPeriod)
	reason := ""
	switch {
	case err != nil:
		reason = err.Error()
	case n.stored > revision:
		reason = fmt.Sprintf("etcd is at revision %d, but the store ends at %d: it holds another history", revision, n.stored)
	case n.config.FullFirst && !n.renewed:
		reason = "the member was restored"
	}
	n.config.Log.Info("Taking snapshots", "revision", revision, "stored", n.stored, "nextFull", n.fullDue)
	if reason != "" {
		n.config.Log.Info("Taking a full snapshot first", "reason", reason)
		n.stored = 0
	}
	return nil
}

// tick is how often the clock is looked at. Looking rather than waiting survives a clock that jumps.
const tick = time.Second

// idle gathers events until a snapshot is asked for, which it returns, or a collection is due: then it returns
// nothing.
//
// The watch ends with it. So while a snapshot is written no events pile up in this process, however long that
// takes: etcd keeps them.
func (n *session) idle(ctx context.Context) (*request, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := n.config.Clock.NewTicker(tick)
	defer ticker.Stop()
	changes := n.watch(ctx)
	if n.stored == 0 {
		n.schedules(want{kind: backup.Full})
	}
	for {
		if int64(n.events.Len()) >= n.config.DeltaLimit {
			n.schedules(want{kind: backup.Delta})
		}
		if r := n.next(n.config.Clock.Now()); r != nil {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-n.wake:
		case response, open := <-changes:
			if err := n.take(ctx, response, open); err != nil {
				return nil, err
			}
		case <-ticker.C():
			if n.look(n.config.Clock.Now()) {
				return nil, nil
			}
		}
	}
}

// look asks for the snapshots that are due, and says whether a collection is.
func (n *session) look(now time.Time) (collect bool) {
	if now.Before(n.checked) { // the clock has jumped back
		n.fullDue = n.schedule.after(now, now)
		n.deltaDue, n.collectionDue = now.Add(n.config.DeltaPeriod), now.Add(n.config.CollectionPeriod)
	}
	n.checked = now
	if !now.Before(n.fullDue) {
		n.fullDue = n.schedule.after(now, now)
		n.schedules(want{kind: backup.Full})
	}
	if n.config.DeltaPeriod > 0 && !now.Before(n.deltaDue) {
		n.deltaDue = now.Add(n.config.DeltaPeriod)
		if n.events.Len() > 0 {
			n.schedules(want{kind: backup.Delta})
		}
	}
	if n.config.CollectionPeriod > 0 && !now.Before(n.collectionDue) {
		n.collectionDue = now.Add(n.config.CollectionPeriod)
		return true
	}
	return false
}

// schedules asks for a snapshot that nobody waits for. While Run runs that does not fail.
func (n *session) schedules(w want) { _, _ = n.submit(w, true) }

// removeExpired removes what retention no longer keeps. A failure leaves more than needed, and is made good the
// next time.
func (n *session) removeExpired(ctx context.Context) {
	now := n.config.Clock.Now()
	list, err := n.config.Store.List(ctx)
	if err != nil {
		n.config.Log.Error(err, "Garbage collection failed")
		return
	}
	for _, snapshot := range n.config.Retention.Expired(list, now) {
		err := n.config.Store.Delete(ctx, snapshot)
		n.metrics.removed(snapshot.Kind, err)
		if err != nil {
			n.config.Log.Error(err, "Could not remove a snapshot", "snapshot", snapshot.Name())
			return
		}
		n.config.Log.Info("Removed a snapshot", "snapshot", snapshot.Name())
	}
	if err := n.config.Store.Sweep(ctx, now.Add(-leftoverAge)); err != nil {
		n.config.Log.Error(err, "Could not remove leftovers of interrupted uploads")
	}
}

// leftoverAge is longer than any upload takes.
const leftoverAge = 24 * time.Hour
