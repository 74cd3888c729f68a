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

// usable returns the snapshots of a list that a restore may use. Where snapshots must be signed, it returns an error if a restore
// would be refused because of one that is not. While there is a signed full snapshot, the error is reported until the next
// check; before, nothing was signed yet.
func (n *session) usable(list []backup.Snapshot) ([]backup.Snapshot, error) {
	if !n.config.Store.Signed() {
		return list, nil
	}
	trusted, refused := backup.Trusted(list, time.Time{})
	var err error
	if refused != "" {
		err = &backup.UnsignedError{Name: refused, Reason: "it has no valid signature", Where: n.config.Store.String()}
	}
	if slices.ContainsFunc(trusted, func(s backup.Snapshot) bool { return s.Kind == backup.Full }) {
		n.distrust(err)
	}
	return trusted, err
}

// checkRecord returns an error if signed snapshots end before what is recorded, or if that is unknown: deltas that continue them could
// belong to another history.
func (n *session) checkRecord(ctx context.Context, chain backup.Chain) error {
	if !n.config.Store.Signed() || n.config.Recorded == nil {
		return nil
	}
	record, err := n.config.Recorded(ctx)
	if err != nil {
		return fmt.Errorf("the recorded snapshots are unknown: %w", err)
	}
	err = record.Check(chain)
	if older := (*backup.OlderError)(nil); errors.As(err, &older) {
		n.config.Log.Error(err, "The store lacks snapshots that were taken")
		n.distrust(err)
	}
	return err
}

// supersede requests a full snapshot after an unsigned one, so that no restore is refused because of it. An unsigned one that is dated
// too far ahead has restores refused until a person removes it.
func (n *session) supersede(list []backup.Snapshot, now time.Time) {
	_, err := n.usable(list)
	if err == nil {
		return
	}
	n.config.Log.Error(err, "The store has a snapshot that is not signed")
	if last := backup.LastTaken(list, true, now); last.After(n.newest) {
		n.newest = last
		n.forget()
		n.stored = 0
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
