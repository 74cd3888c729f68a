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
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
)

// headers is what the headers of encrypted snapshots say: which of them no identity of this agent decrypts, as after an identity was removed
// too early.
type headers struct {
	// listed are the snapshots that a restore may use.
	listed []backup.Snapshot
	// locked has each snapshot whose header was read, by the identities that there were: whether none of them decrypts it.
	locked     map[header]bool
	identities string
	// passed are those whose objects the store does not let be read. They are tried again once the store has been listed again.
	passed map[header]bool
}

// header identifies the object of a snapshot.
type header struct {
	name string
	size int64
}

func headerOf(s backup.Snapshot) header { return header{s.Name(), s.Size} }

// list notes the snapshots of the store, and forgets the others.
func (h *headers) list(snapshots []backup.Snapshot) {
	known := make(map[header]bool, len(h.locked))
	for _, s := range snapshots {
		if locked, read := h.locked[headerOf(s)]; read {
			known[headerOf(s)] = locked
		}
	}
	h.listed, h.locked, h.passed = snapshots, known, map[header]bool{}
}

func (h *headers) unread(s backup.Snapshot) bool {
	if !s.Encrypted {
		return false
	}
	_, read := h.locked[headerOf(s)]
	return !read && !h.passed[headerOf(s)]
}

// next returns up to a number of snapshots whose headers are to be read with some identities, the newest first.
func (h *headers) next(identities string, most int) (unread []backup.Snapshot) {
	if identities != h.identities {
		h.identities, h.locked, h.passed = identities, map[header]bool{}, map[header]bool{}
	}
	for _, s := range slices.Backward(backup.Sorted(h.listed)) {
		if len(unread) < most && h.unread(s) {
			unread = append(unread, s)
		}
	}
	return unread
}

// describe says which snapshots cannot be decrypted, and what to do; empty if all can.
func (h *headers) describe() string {
	locked := slices.DeleteFunc(backup.Sorted(h.listed), func(s backup.Snapshot) bool { return !h.locked[headerOf(s)] })
	if len(locked) == 0 {
		return ""
	}
	at := func(s backup.Snapshot) string { return s.Name() + " of " + s.Created.UTC().Format(time.RFC3339) }
	return fmt.Sprintf("%d of %d snapshots, from %s to %s, are encrypted for none of the identities in the Secret of spec.backup.encryption.identitySecretRef, and nothing that needs them can be restored: "+
		"put the identity back that the Secret had when they were taken", len(locked), len(h.listed), at(locked[0]), at(locked[len(locked)-1]))
}

const (
	// headersPeriod is how often headers are read, maxHeaders is how many at a time, and headersTimeout is how long that may take: no snapshot is
	// taken in that time.
	headersPeriod  = 10 * time.Second
	maxHeaders     = 50
	headersTimeout = 5 * time.Second
)

// readHeaders reads the header of each encrypted snapshot once, and again once the identities have changed. What can be restored stays as it
// was last listed until all are read: an identity that cannot be read, or a store that fails, says nothing of snapshots. A snapshot that was
// removed since it was listed, that is corrupt, or that the store refuses, such as an archived one, is passed over: none of this says that it is
// locked. That people alone can decrypt is no error.
func (n *session) readHeaders(ctx context.Context) {
	if n.config.Clock.Since(n.headersRead) < headersPeriod || n.config.Store.PeopleOnly() {
		return
	}
	n.headersRead = n.config.Clock.Now()
	identities, err := n.config.Store.Identities()
	if err != nil {
		return
	}
	n.mu.Lock()
	unread := n.headers.next(identities, maxHeaders)
	n.mu.Unlock()
	if len(unread) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, headersTimeout)
	defer cancel()
	for _, s := range unread {
		err := n.config.Store.CanRead(ctx, s)
		locked, isLocked := errors.AsType[*backup.LockedError](err)
		_, isCorrupt := errors.AsType[*backup.CorruptError](err)
		known := err == nil || isCorrupt || store.IsGone(err) || isLocked && locked.NoneFits
		if !known && !store.IsUnreadable(err) {
			return
		}
		n.mu.Lock()
		if known {
			n.headers.locked[headerOf(s)] = isLocked
		} else {
			n.headers.passed[headerOf(s)] = true
			n.config.Log.Info("The store does not let a snapshot be read, so it is not known whether it can be decrypted", "snapshot", s.Name(), "reason", err.Error())
		}
		n.mu.Unlock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listRestorable()
}

// listRestorable lists what can be restored, unless that is not known of each snapshot. The caller holds the lock.
func (s *Snapshotter) listRestorable() {
	if !s.config.Store.PeopleOnly() && slices.ContainsFunc(s.headers.listed, s.headers.unread) {
		return
	}
	locked := func(of backup.Snapshot) bool { return s.headers.locked[headerOf(of)] }
	s.restorable, s.locked = append([]backup.Interval{}, backup.Restorable(s.headers.listed, locked)...), s.headers.describe()
}
