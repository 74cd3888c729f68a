// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// session is the state of Run between two failures.
type session struct {
	*Snapshotter
	// stored is the revision up to which the store is complete, or 0 if deltas cannot continue from there; newest is when
	// its last snapshot was taken.
	stored int64
	newest time.Time
	// history and last are what the proof of the next snapshot has: the history that it continues, empty for a new one, and the
	// snapshot that is complete up to stored.
	history string
	last    backup.Reference
	// events since then, which the store lacks, and the TTLs of their leases, in seconds.
	events backup.DeltaBuffer
	leases map[int64]int64
	// unread: the record could not be read at lastRead, so that it may lack what the store has.
	unread   bool
	lastRead time.Time
	// headersRead is when headers of encrypted snapshots were last read.
	headersRead time.Time
	// broken is how many listings in a row did not lead to the newest snapshot.
	broken int
	// When something is due, and when that was last checked.
	fullDue, deltaDue, collectionDue, checked time.Time
}

// session takes snapshots until something fails. The next session reads again where the store ends; etcd still has the
// events that were collected.
func (s *Snapshotter) session(ctx context.Context) error {
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	if err := n.resume(ctx); err != nil {
		return err
	}
	for {
		request, err := n.idle(ctx)
		if err == nil && request == nil {
			n.inspect(ctx)
			continue
		}
		if err == nil {
			err = n.perform(ctx, request)
		}
		if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, backup.ErrDeltaTooBig) {
			// Events that no snapshot has were compacted away, or do not fit: a full snapshot is needed.
			n.config.Log.Info("Some events are lost to delta snapshots; taking a full one", "stored", n.stored, "reason", err.Error())
			n.forget()
			n.stored, err = 0, nil
		}
		if err != nil {
			return err
		}
	}
}

// resume finds out where the store ends, and whether deltas can continue from there. Store and etcd have as long to answer as a snapshot may take.
func (n *session) resume(ctx context.Context) error {
	now := n.config.Clock.Now()
	limited, cancel := context.WithTimeout(ctx, n.config.Timeout)
	defer cancel()
	list, err := n.config.Store.List(limited)
	if err != nil {
		return err
	}
	revision, err := n.config.Etcd.Revision(limited)
	if err != nil {
		return err
	}
	n.foundRestorable(list)
	n.newest = backup.LastTaken(list, n.config.Store.Trust(), now)
	usable, err := n.usable(list)
	for _, snapshot := range list {
		n.metrics.stored(snapshot)
	}
	chain, broken := backup.Newest(usable)
	var lastFull time.Time
	if chain.Full != nil {
		lastFull = chain.Full.Created
	}
	err = errors.Join(err, broken)
	if err == nil {
		err = n.checkRecord(ctx, chain)
	}
	if err == nil {
		err = n.checkReadable(limited, *chain.Full, chain.Last())
	}
	n.stored = chain.LastRevision()
	n.checked, n.fullDue = now, n.schedule.after(lastFull, now)
	n.deltaDue, n.collectionDue = now.Round(0).Add(n.config.DeltaPeriod), now.Round(0).Add(n.inspectionPeriod())
	reason := n.whyFullFirst(ctx, err, chain, revision)
	n.config.Log.Info("Taking snapshots", "revision", revision, "stored", n.stored, "nextFull", n.fullDue)
	if reason == "" && n.stored == revision {
		n.foundCurrent(now)
	}
	if reason != "" {
		n.beginAnew(reason)
		return nil
	}
	n.last = chain.Last().Reference()
	if chain.Full.Proof != nil {
		n.history = chain.Full.Proof.History
	}
	return n.recordAgain(ctx)
}

// beginAnew has a full snapshot begin a new history: deltas must not continue what the store has.
func (n *session) beginAnew(reason string) {
	n.config.Log.Info("Taking a full snapshot first", "reason", reason)
	n.forget()
	n.stored, n.history = 0, ""
	n.schedulesFullFirst()
}

// whyFullFirst returns why the chain in the store cannot be continued at a revision of etcd; empty if it can.
//
// A final snapshot may have been taken of stopped volumes: it has entries that were never committed, and the members may have discarded them since,
// and have written others at the same revisions.
func (n *session) whyFullFirst(ctx context.Context, err error, chain backup.Chain, revision int64) string {
	switch {
	case err != nil:
		return err.Error()
	case chain.Last().Final:
		return "the store ends with a final snapshot, which may have what was never committed"
	case n.stored > revision:
		return fmt.Sprintf("etcd is at revision %d, but the store ends at %d: it holds another history", revision, n.stored)
	case n.config.FullFirst != nil && !n.renewed && n.config.FullFirst(ctx):
		return "the member was restored, or its cluster recovered"
	case !n.renewed && n.unrecorded(ctx):
		return noneRecorded
	}
	return ""
}

const noneRecorded = "no snapshot is recorded, as for an Etcd that was created again"

// unrecorded reports whether it is certain that no snapshot is recorded outside of the store. A recovery looks there alone whether there is a backup.
func (n *session) unrecorded(ctx context.Context) bool {
	if n.config.Recorded == nil {
		return false
	}
	record, err := n.config.Recorded(ctx)
	return err == nil && record == backup.Record{}
}

// recordAgain records what the store has: the leader before may not have reached the API server, or has ended before it recorded its last
// snapshot. While nothing is written, no other one would be recorded. A record that cannot be read is read again later.
func (n *session) recordAgain(ctx context.Context) error {
	if n.config.Recorded == nil || n.config.OnSnapshot == nil {
		return nil
	}
	record, err := n.config.Recorded(ctx)
	n.unread, n.lastRead = err != nil, n.config.Clock.Now()
	if err != nil {
		return nil
	}
	// What is recorded is listed now, also a full snapshot of a compaction since resume: the record must not go back to an older one.
	limited, cancel := context.WithTimeout(ctx, n.config.Timeout)
	defer cancel()
	chain, err := n.Latest(limited)
	if err != nil {
		return err
	}
	switch err := n.reaches(chain, record); {
	case err != nil:
		n.beginAnew(err.Error())
	case !n.renewed && record == backup.Record{}:
		n.beginAnew(noneRecorded)
	default:
		n.config.OnSnapshot(*chain.Full)
		if len(chain.Deltas) > 0 {
			n.config.OnSnapshot(chain.Last())
		}
	}
	return nil
}

// tick is how often due times are checked. Checking, unlike waiting, survives a clock that jumps.
const tick = time.Second

// idle collects events until a snapshot is requested, and returns the request; if the store is to be inspected, it returns
// nil.
//
// The watch ends with it: while a snapshot is written, etcd keeps the events, not this process.
func (n *session) idle(ctx context.Context) (*request, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := n.config.Clock.NewTicker(tick)
	defer ticker.Stop()
	changes := n.watch(ctx)
	if n.stored == 0 {
		n.schedulesFullFirst()
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
			if n.look(n.config.Clock.Now(), n.config.Clock.Since(n.checked)) {
				return nil, nil
			}
			n.readHeaders(ctx)
			if n.unread && n.config.Clock.Since(n.lastRead) >= retryPeriod {
				if err := n.recordAgain(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
}

// leap is how far a clock must jump to count as set rather than adjusted.
const leap = time.Minute

// look requests the snapshots that are due, and reports whether an inspection of the store is. elapsed is the time since the last
// call by the monotonic clock. Everything else goes by the wall clock: now loses its monotonic reading, which Go would compare by.
//
// Retention goes by age: after the clock was set, it waits until the clock has run undisturbed for a whole period. A clock that is
// briefly wrong removes nothing.
func (n *session) look(now time.Time, elapsed time.Duration) (collect bool) {
	last := n.checked
	n.checked = now
	now = now.Round(0)
	if ahead := now.Sub(last) - elapsed; ahead.Abs() > leap {
		n.config.Log.Info("The clock was set", "ahead", ahead.Round(time.Second))
		n.collectionDue = now.Add(n.inspectionPeriod())
		if ahead < 0 {
			n.fullDue, n.deltaDue = n.schedule.after(now, now), now.Add(n.config.DeltaPeriod)
		}
	}
	if !now.Before(n.fullDue) {
		n.fullDue = n.schedule.after(now, now)
		n.schedules(want{kind: backup.Full})
	}
	if n.config.DeltaPeriod > 0 && !now.Before(n.deltaDue) {
		n.deltaDue = now.Add(n.config.DeltaPeriod)
		// Without changes nothing is written, but etcd is asked for them.
		n.schedules(want{kind: backup.Delta})
	}
	if !now.Before(n.collectionDue) {
		n.collectionDue = now.Add(n.inspectionPeriod())
		return true
	}
	return false
}

// inspectionPeriod is how often the store is listed: for each garbage collection, and where these are switched off, to see what else has become of it.
func (n *session) inspectionPeriod() time.Duration {
	return cmp.Or(n.config.CollectionPeriod, time.Hour)
}

// inspect checks whether the store leads to the newest snapshot, and removes what has expired unless that is switched off.
func (n *session) inspect(ctx context.Context) {
	if n.config.CollectionPeriod > 0 {
		n.removeExpired(ctx)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.config.Timeout)
	defer cancel()
	_, _ = n.listed(ctx, n.config.Clock.Now())
}

// listed lists the store, and reports whether it leads to the newest snapshot.
func (n *session) listed(ctx context.Context, now time.Time) (list []backup.Snapshot, ok bool) {
	list, err := n.config.Store.List(ctx)
	if err != nil {
		n.config.Log.Error(err, "Listing the store failed")
		if n.broken > 0 { // it has yet to be confirmed
			n.collectionDue = now.Round(0).Add(soon)
		}
		return nil, false
	}
	if err := n.leadsOn(list); err != nil {
		n.foundBroken(list, err, now)
		return nil, false
	}
	n.broken = 0
	n.foundRestorable(list)
	if n.config.Store.Trust() != backup.TrustAll {
		n.supersede(list, now)
	}
	return list, true
}

// schedules requests a snapshot without waiting for it. It cannot fail while Run is running.
func (n *session) schedules(w want) {
	n.metrics.require(w.kind, w.kind == backup.Full || n.events.Len() > 0)
	_, _ = n.submit(w, true)
}

// schedulesFullFirst requests a full snapshot before all others: a delta in front of it would be a second one, since it has nothing to continue.
func (n *session) schedulesFullFirst() {
	full := want{kind: backup.Full}
	n.schedules(full)
	n.advance(full)
}

// removeExpired removes what retention no longer keeps, unless the store does not lead to the newest snapshot. No snapshot is taken in that time, so it
// takes no longer than one may. What it leaves is removed next time.
func (n *session) removeExpired(ctx context.Context) {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	ctx, cancel := context.WithTimeout(ctx, n.config.Timeout)
	defer cancel()
	now := n.config.Clock.Now()
	list, ok := n.listed(ctx, now)
	if !ok {
		return // what is left may be all that there is until a full snapshot is taken
	}
	retention := n.config.Retention
	retention.Due = n.schedule.next
	trust, gone := n.config.Store.Trust(), map[string]bool{}
	trusted, _ := backup.Trusted(list, trust, time.Time{})
	if chain, _ := backup.Newest(trusted); chain.Full != nil {
		if err := n.checkReadable(ctx, *chain.Full, chain.Last()); err != nil {
			// Older snapshots may be the only ones that can be restored.
			n.config.Log.Error(err, "Nothing is removed while the newest snapshots cannot be read")
			return
		}
	}
	n.remove(ctx, retention.ExpiredTrusted(list, trust, now), gone)
	n.foundRestorable(slices.DeleteFunc(list, func(s backup.Snapshot) bool { return gone[s.Name()] }))
	if ctx.Err() != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, collecting)
	defer cancel()
	if err := n.config.Store.Sweep(limited, now.Add(-leftoverAge)); err != nil {
		n.config.Log.Error(err, "Could not remove leftovers of interrupted uploads, and holds that have ended")
	}
}

// remove removes expired snapshots for a while, and notes which are gone. A bucket may lock any of them, by age or by a legal hold: the others are
// removed nevertheless. If the time is over and some were removed, the next collection is soon: in a period, more may expire than are removed in that time.
//
// The order does not matter: no snapshot that stays needs one that has expired, and a store may refuse any of these.
func (n *session) remove(ctx context.Context, expired []backup.Snapshot, gone map[string]bool) {
	began, refused := n.config.Clock.Now(), []error(nil)
	for _, snapshot := range n.inTurn(expired, began) {
		if n.config.Clock.Since(began) >= min(collecting, n.config.Timeout/2) {
			if len(gone) > 0 {
				n.collectionDue = n.config.Clock.Now().Round(0).Add(collecting)
			}
			break
		}
		err := n.removeOne(ctx, snapshot, gone)
		if failed, is := errors.AsType[*store.RemovalError](err); is && failed.Refused() {
			refused = append(refused, err)
		} else if err != nil {
			n.config.Log.Error(err, "Could not remove a snapshot; the next garbage collection continues", "snapshot", snapshot.Name())
			break
		}
	}
	if len(refused) > 0 {
		n.config.Log.Error(refused[0], "The store refuses to remove objects: they may be locked, or its credentials may not remove them. Snapshots are tried again after a day", "refused", len(refused))
	}
}

// inTurn returns expired snapshots in the order in which they are removed: those whose removal has never failed, the oldest first, and in between those
// whose removal failed longest ago, so that neither starve. What has failed waits for a day: a lock lasts, and each request takes time. What has gone is
// forgotten.
func (n *session) inTurn(expired []backup.Snapshot, now time.Time) (order []backup.Snapshot) {
	unremoved := map[string]time.Time{}
	var untried, again []backup.Snapshot
	for _, s := range backup.Sorted(expired) {
		at, is := n.unremoved[s.Name()]
		if !is {
			untried = append(untried, s)
			continue
		}
		if unremoved[s.Name()] = at; now.Sub(at) >= retryRemoval {
			again = append(again, s)
		}
	}
	n.unremoved = unremoved
	slices.SortStableFunc(again, func(a, b backup.Snapshot) int { return unremoved[a.Name()].Compare(unremoved[b.Name()]) })
	for i := range max(len(untried), len(again)) {
		if i < len(untried) {
			order = append(order, untried[i])
		}
		if i < len(again) {
			order = append(order, again[i])
		}
	}
	return order
}

// removeOne removes an expired snapshot unless it is kept, and notes if it is gone, or if its own object could not be removed.
func (n *session) removeOne(ctx context.Context, snapshot backup.Snapshot, gone map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, collecting)
	defer cancel()
	// The next leader may have been asked to keep it by now, and this agent may not know yet that it does not lead any more.
	kept, err := n.config.Store.Kept(ctx, snapshot)
	if err == nil && kept {
		return nil
	}
	if err == nil {
		err = n.config.Store.Delete(ctx, snapshot)
	}
	n.metrics.removed(snapshot.Kind, err)
	name := snapshot.Name()
	failed, is := errors.AsType[*store.RemovalError](err)
	switch {
	case err == nil || is && failed.Name != name: // what was beside it may be left
		n.config.Log.Info("Removed a snapshot", "snapshot", name)
		gone[name] = true
		delete(n.unremoved, name)
	case is:
		n.unremoved[name] = n.config.Clock.Now()
	}
	return err
}

// leftoverAge is longer than any upload takes. Holds end at that age too.
const leftoverAge = backup.HoldFor

const (
	// collecting is for how long snapshots are removed in a garbage collection, and leftovers: no snapshot is taken in that time. A request that has
	// begun has as long again.
	collecting = time.Minute
	// retryRemoval is the time until a snapshot is removed whose removal has failed.
	retryRemoval = 24 * time.Hour
)
