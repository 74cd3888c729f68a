// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

// usable returns the snapshots of a list that a restore may use. Where snapshots must be signed or encrypted, it returns an error if a
// restore would be refused because of one that is not. While there is a full snapshot that is, the error is reported until the next
// check; before, none was taken yet.
func (n *session) usable(list []backup.Snapshot) ([]backup.Snapshot, error) {
	trust := n.config.Store.Trust()
	trusted, refused := backup.Trusted(list, trust, time.Time{})
	var err error
	if refused != "" {
		err = &backup.UntrustedError{Name: refused, Trust: trust, Reason: trust.Lacks(), Where: n.config.Store.String()}
	}
	if slices.ContainsFunc(trusted, func(s backup.Snapshot) bool { return s.Kind == backup.Full }) {
		n.distrust(err)
	}
	return trusted, err
}

// checkReadable returns an error, and reports it until the next check, unless this agent can decrypt some snapshots: what is written
// could not be restored here. That people alone can is no error.
func (n *session) checkReadable(ctx context.Context, snapshots ...backup.Snapshot) (err error) {
	if n.config.Store.PeopleOnly() {
		return nil
	}
	for _, s := range snapshots {
		if err = n.config.Store.CanRead(ctx, s); err != nil {
			break
		}
	}
	_, locked := errors.AsType[*backup.LockedError](err)
	if _, corrupt := errors.AsType[*backup.CorruptError](err); err != nil && !locked && !corrupt {
		return err // the store failed, which says nothing of the snapshots
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unreadable = err
	return err
}

// checkRecord returns an error if the snapshots end before what is recorded: deltas that continue them could belong to another history, as
// after a change of the prefix to one that an earlier cluster has used. Where snapshots are signed, it also returns one if that is unknown.
func (n *session) checkRecord(ctx context.Context, chain backup.Chain) error {
	if n.config.Recorded == nil {
		return nil
	}
	record, err := n.config.Recorded(ctx)
	if err != nil {
		if !n.config.Store.Signed() {
			return nil // a full snapshot with each change of the leader would not be worth it; recordAgain compares later
		}
		return fmt.Errorf("the recorded snapshots are unknown: %w", err)
	}
	return n.reaches(chain, record)
}

// reaches returns an error if the snapshots end before a record, and reports it where they are signed.
func (n *session) reaches(chain backup.Chain, record backup.Record) error {
	err := record.Check(chain)
	if older := (*backup.OlderError)(nil); errors.As(err, &older) && n.config.Store.Signed() {
		n.config.Log.Error(err, "The store lacks snapshots that were taken")
		n.distrust(err)
	}
	return err
}

// leadsOn returns an error if the store does not lead to the snapshot that the next delta continues: it would lead nowhere. Objects may have been
// removed, and a leader that was deposed may have written a full snapshot after the deltas of the present one.
func (n *session) leadsOn(list []backup.Snapshot) error {
	if n.stored == 0 {
		return nil // a full snapshot comes next
	}
	trusted, _ := backup.Trusted(list, n.config.Store.Trust(), time.Time{})
	chain, err := backup.Newest(trusted)
	switch {
	case err != nil:
		return err
	case chain.LastRevision() < n.stored:
		return fmt.Errorf("the snapshots end at revision %d, and one of revision %d was taken: it was removed from the store, or another member has taken an older one after it", chain.LastRevision(), n.stored)
	case chain.Full.Proof != nil && chain.Full.Proof.History != n.history:
		return fmt.Errorf("%s, which another member has taken, begins another history", chain.Full.Name())
	}
	return nil
}

// soon is when a store is listed again that did not lead on.
const soon = time.Minute

// foundBroken has a full snapshot taken with each second listing in a row that does not lead on: one alone may lack what the store has, as while a bucket
// is resharded. The next look is soon, also the one after the full snapshot; where that did not help, it is late, since a listing that always lags would
// cost one full snapshot after another.
func (n *session) foundBroken(list []backup.Snapshot, err error, now time.Time) {
	n.broken++
	wait := max(n.inspectionPeriod(), time.Hour)
	if n.broken <= 2 {
		wait = soon
	}
	n.collectionDue = now.Round(0).Add(wait)
	if n.broken%2 == 1 {
		n.config.Log.Info("The store may no longer lead to the newest snapshot; listing it again", "after", wait, "reason", err.Error())
		return
	}
	n.foundRestorable(list)
	n.replaceBroken(list, err, now)
}

// replaceBroken has a full snapshot begin a new history after all that a store has that does not lead on. Why is reported until a snapshot is taken, and
// where snapshots are signed until the next check: they may have been removed by an attacker.
func (n *session) replaceBroken(list []backup.Snapshot, err error, now time.Time) {
	n.config.Log.Error(err, "The store no longer leads to the newest snapshot")
	n.follow(list, now)
	n.beginAnew(err.Error())
	if n.config.Store.Signed() {
		n.distrust(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failure = err
}

// supersede requests a full snapshot after one that may not be used, so that no restore is refused because of it. One that is dated
// too far ahead has restores refused until a person removes it.
func (n *session) supersede(list []backup.Snapshot, now time.Time) {
	_, err := n.usable(list)
	if err == nil {
		return
	}
	n.config.Log.Error(err, "The store has a snapshot that may not be used")
	n.follow(list, now)
	untrusted, _ := errors.AsType[*backup.UntrustedError](err)
	if refused, err := backup.ParseName(untrusted.Name); err == nil && !refused.Created.After(n.newest) {
		n.forget()
		n.stored = 0
	}
}

// follow has the next snapshot be dated after those of a list.
func (n *session) follow(list []backup.Snapshot, now time.Time) {
	if last := backup.LastTaken(list, n.config.Store.Trust(), now); last.After(n.newest) {
		n.newest = last
	}
}

// distrust reports what is wrong with the store besides the last snapshot; nil for nothing.
func (s *Snapshotter) distrust(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.distrusted = err
}

// proof returns the history, and for a delta the predecessor, that the signature of the next snapshot has.
func (n *session) proof(kind backup.Kind) *backup.Proof {
	p := &backup.Proof{History: n.history}
	if kind == backup.Delta {
		p.Predecessor = n.last
	}
	return p
}

// continueWith has the next delta continue a snapshot.
func (n *session) continueWith(s backup.Snapshot) {
	n.newest, n.stored, n.last = s.Created, s.LastRevision, s.Reference()
	if s.Proof != nil {
		n.history = s.Proof.History
	}
}
