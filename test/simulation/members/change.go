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
	ErrURLExists     = errors.New("etcdserver: Peer URLs already exists")
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

// AddLearner adds a member that does not vote. All voters have to have been connected for a while, as the member that is asked sees it: so it is in etcd
// 3.6.8, and newer releases ask for fewer of them.
func (e *Etcd) AddLearner(m *Member, peerURL string) error {
	return e.change(m, func(_ *Member, list []Peer) (Entry, error) {
		switch {
		case slices.ContainsFunc(list, func(p Peer) bool { return !p.Learner && !e.steady(m, p.ID) }):
			return Entry{}, ErrUnhealthy
		case slices.ContainsFunc(list, func(p Peer) bool { return p.PeerURL == peerURL }):
			return Entry{}, ErrURLExists
		case slices.ContainsFunc(list, func(p Peer) bool { return p.Learner }):
			return Entry{}, ErrTooMany
		}
		return Entry{Peer: &Peer{ID: e.random.Uint64() | 1, PeerURL: peerURL, Learner: true}}, nil
	})
}

// Remove removes a member for ever. The voters of the rest that have ever started have to be a quorum; and where a voter is removed that the member which is
// asked is connected with, so do those that it has been connected with for a while, without it (mayRemoveMember in etcd).
func (e *Etcd) Remove(m *Member, id uint64) error {
	return e.change(m, func(_ *Member, list []Peer) (Entry, error) {
		i := slices.IndexFunc(list, func(p Peer) bool { return p.ID == id })
		if i < 0 {
			return Entry{}, ErrNotFound
		}
		voters, started, active := 0, 0, 0
		for _, p := range list {
			if p.Learner {
				continue
			}
			voters++
			if p.Started && p.ID != id {
				started++
			}
			if e.steady(m, p.ID) {
				active++
			}
		}
		down := id != m.Disk.Member && (e.reached(m, id) == nil || id == m.Doubts)
		switch {
		case list[i].Learner:
		case started < (voters-1)/2+1:
			return Entry{}, ErrNoStrictQuota
		case !down && active-1 < 1+(voters-1)/2:
			return Entry{}, ErrUnhealthy
		}
		return Entry{Removed: id}, nil
	})
}

// Promote gives a learner its vote, once it has had 90 % of the leader's log since that leads, even if it is gone (isLearnerReady in etcd).
func (e *Etcd) Promote(m *Member, id uint64) error {
	return e.edit(m, id, func(l *Member, p Peer) (Peer, error) {
		if l.match[id]*10 < l.Disk.Last()*9 {
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

// Refuses returns why etcd does not join by the list in its configuration: it asks one of the others for theirs. Empty if it does.
func (e *Etcd) Refuses(d *Disk, reached []*Member) string {
	for _, m := range reached {
		if m.Disk.Cluster != d.Cluster {
			continue
		}
		list := m.List()
		switch unknown := func(p Peer) bool {
			return !slices.ContainsFunc(list, func(l Peer) bool { return l.PeerURL == p.PeerURL })
		}; {
		case len(list) != len(d.Founders):
			return "error validating peerURLs: member count is unequal"
		case slices.ContainsFunc(d.Founders, unknown):
			return "error validating peerURLs: PeerURLs: no match found for existing member"
		}
		return ""
	}
	return "cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"
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
