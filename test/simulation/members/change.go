// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"slices"
)

// Errors of changes of the member list, as etcd has them.
var (
	ErrUnhealthy     = errors.New("etcdserver: unhealthy cluster")
	ErrNotReady      = errors.New("etcdserver: can only promote a learner member which is in sync with leader")
	ErrNotFound      = errors.New("etcdserver: member not found")
	ErrTooMany       = errors.New("etcdserver: too many learner members in cluster")
	ErrNoStrictQuota = errors.New("etcdserver: re-configuration failed due to not enough started members")
)

// change has the leader that a member knows append a change of the member list. There is at most one at a time.
func (e *Etcd) change(m *Member, of func(l *Member, list []Peer) (Entry, error)) error {
	l := e.leaderOf(m)
	if l == nil {
		return ErrNoQuorum
	}
	pending := l.Disk.Log[len(l.Disk.Applied()):]
	if slices.ContainsFunc(pending, func(entry Entry) bool { return entry.Peer != nil || entry.Removed != 0 }) {
		return ErrUnhealthy
	}
	entry, err := of(l, l.List())
	if err != nil {
		return err
	}
	entry.Term = l.Disk.Term
	l.Disk.Log = append(l.Disk.Log, entry)
	return nil
}

// AddLearner adds a member that does not vote. All voters have to be connected, as the member that is asked sees it.
func (e *Etcd) AddLearner(m *Member, peerURL string) error {
	return e.change(m, func(l *Member, list []Peer) (Entry, error) {
		others := e.reachable(l)
		for _, p := range list {
			if p.Learner {
				return Entry{}, ErrTooMany
			}
			if p.ID != l.Disk.Member && others[p.ID] == nil || p.ID == m.Doubts {
				return Entry{}, ErrUnhealthy
			}
		}
		return Entry{Peer: &Peer{ID: e.random.Uint64() | 1, PeerURL: peerURL, Learner: true}}, nil
	})
}

// Remove removes a member for ever. The voters that are connected, as the member that is asked sees it, have to be a quorum of the rest.
func (e *Etcd) Remove(m *Member, id uint64) error {
	return e.change(m, func(l *Member, list []Peer) (Entry, error) {
		i := slices.IndexFunc(list, func(p Peer) bool { return p.ID == id })
		if i < 0 {
			return Entry{}, ErrNotFound
		}
		others := e.reachable(l)
		rest := slices.Delete(slices.Clone(list), i, i+1)
		connected := func(id uint64) bool { return id == l.Disk.Member || others[id] != nil }
		switch {
		case list[i].Learner:
		case !l.quorum(rest, connected):
			return Entry{}, ErrNoStrictQuota
		case !l.quorum(rest, func(id uint64) bool { return id != m.Doubts && connected(id) }):
			return Entry{}, ErrUnhealthy
		}
		return Entry{Removed: id}, nil
	})
}

// Promote gives a learner its vote, once it has 90 % of the leader's log.
func (e *Etcd) Promote(m *Member, id uint64) error {
	return e.edit(m, id, func(l *Member, p Peer) (Peer, error) {
		learner := e.reachable(l)[id]
		if learner == nil || learner.Disk.Base != l.Disk.Base || learner.Disk.Last()*10 < l.Disk.Last()*9 {
			return p, ErrNotReady
		}
		p.Learner = false
		return p, nil
	})
}

// Publish has a member that has started tell its name.
func (e *Etcd) Publish(m *Member) error {
	return e.edit(m, m.Disk.Member, func(_ *Member, p Peer) (Peer, error) {
		p.Name, p.Started = m.Name, true
		return p, nil
	})
}

func (e *Etcd) edit(m *Member, id uint64, of func(l *Member, p Peer) (Peer, error)) error {
	return e.change(m, func(l *Member, list []Peer) (Entry, error) {
		i := slices.IndexFunc(list, func(p Peer) bool { return p.ID == id })
		if i < 0 {
			return Entry{}, ErrNotFound
		}
		p, err := of(l, list[i])
		return Entry{Peer: &p}, err
	})
}

// Linearizable returns the member list as the quorum of a member has it.
func (e *Etcd) Linearizable(m *Member) (cluster string, list []Peer, err error) {
	l := e.leaderOf(m)
	if l == nil || !l.Settled() {
		return "", nil, ErrNoQuorum
	}
	return l.Disk.Cluster, l.List(), nil
}

// MoveLeader has a leader hand over to a voter that has all of its log.
func (e *Etcd) MoveLeader(m *Member, to uint64) error {
	successor := e.reachable(m)[to]
	switch {
	case !m.Leads():
		return errors.New("etcdserver: not leader")
	case successor == nil || e.leaderOf(m) != m:
		return errors.New("etcdserver: request timed out, leader transfer took too long")
	}
	if self, listed := successor.self(); !listed || self.Learner {
		return errors.New("etcdserver: bad leader transferee")
	}
	e.replicate(m, successor)
	m.Leader, successor.Leader, successor.alone = 0, 0, elections
	e.stand(successor, e.reachable(successor), true)
	return nil
}
