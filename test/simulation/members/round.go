// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"fmt"
	"slices"
)

// Round has each member, in an order that is drawn, do what raft does in a few heartbeats.
func (e *Etcd) Round() {
	e.connect()
	for _, i := range e.random.Perm(len(e.running)) {
		if m := e.running[i]; !m.Frozen {
			e.round(m)
		}
	}
}

// elections is after how many rounds without a leader a member stands for election, at least.
const elections = 3

func (e *Etcd) round(m *Member) {
	others := e.reachable(m)
	switch {
	case m.Leads():
		e.lead(m, others)
	case m.Leader != 0 && others[m.Leader] != nil && others[m.Leader].Leads() && !others[m.Leader].Disk.Removes(m.Disk.Member):
		m.alone = 0
	default:
		if m.alone++; m.alone < elections+e.random.IntN(3) {
			return
		}
		m.Leader = 0
		if m.told = isRemoved(m.Disk.Member, others); m.told {
			e.Log(m.Name, "is told that it was removed")
			return
		}
		e.stand(m, others, false)
	}
}

// isRemoved reports whether one of the others has removed a member: its own data may not say so, if it was away.
func isRemoved(id uint64, others map[uint64]*Member) bool {
	for _, o := range others {
		if o.Disk.Removes(id) {
			return true
		}
	}
	return false
}

// stand has a member stand for election. Voters that hear of a leader refuse, as with a pre-vote, unless the leader hands over.
func (e *Etcd) stand(m *Member, others map[uint64]*Member, handover bool) {
	if self, listed := m.self(); !listed || self.Learner {
		return
	}
	willing := func(id uint64) bool {
		v := others[id]
		return id == m.Disk.Member || v != nil && v.Disk.Term <= m.Disk.Term && (handover || v.Leader == 0 || v.alone > 0) && !longer(v.Disk, m.Disk)
	}
	for _, other := range others {
		// It hears of a newer term, and catches up with it before it stands again.
		m.Disk.Term = max(m.Disk.Term, other.Disk.Term)
	}
	list := m.List()
	if !m.quorum(list, willing) {
		return
	}
	m.Disk.Term++
	for _, p := range list {
		if v := others[p.ID]; v != nil && willing(p.ID) {
			v.Disk.Term, v.Leader, v.alone = m.Disk.Term, m.Disk.Member, 0
		}
	}
	m.Leader, m.alone, m.match = m.Disk.Member, 0, map[uint64]int{}
	m.Disk.Log = append(m.Disk.Log, Entry{Term: m.Disk.Term})
	e.Log(m.Name, fmt.Sprintf("leads in term %d, from index %d", m.Disk.Term, m.Disk.Last()))
	e.check(m)
}

// longer reports whether a log has what another has not.
func longer(a, b *Disk) bool {
	return a.LastTerm() > b.LastTerm() || a.LastTerm() == b.LastTerm() && a.Last() > b.Last()
}

// lead replicates and commits. A leader without a quorum, or one that hears of a newer term, steps down.
func (e *Etcd) lead(m *Member, others map[uint64]*Member) {
	list := m.List()
	newer := false
	for _, o := range others {
		newer = newer || o.Disk.Term > m.Disk.Term
	}
	if newer || !m.quorum(list, func(id uint64) bool { return id == m.Disk.Member || others[id] != nil }) {
		if m.alone++; newer || m.alone >= elections {
			m.Leader, m.alone = 0, 0
			e.Log(m.Name, "steps down")
		}
		return
	}
	m.alone = 0
	e.sync(m)
	send := func(to []Peer) {
		for _, p := range to {
			if o := others[p.ID]; o != nil && e.random.IntN(8) > 0 {
				e.replicate(m, o)
			}
		}
	}
	send(list)
	e.commit(m, list, others)
	// One that was just removed mostly hears of it, as etcd waits for a moment before it stops sending.
	send(slices.DeleteFunc(slices.Clone(list), func(p Peer) bool { return slices.ContainsFunc(m.List(), func(is Peer) bool { return is.ID == p.ID }) }))
}

// replicate sends a member what it lacks: to a learner, which may have begun without anything, a part at a time.
func (e *Etcd) replicate(m, o *Member) {
	most := len(m.Disk.Log)
	if slices.ContainsFunc(m.List(), func(p Peer) bool { return p.ID == o.Disk.Member && p.Learner }) {
		if most = 1 + max(0, m.Disk.Last()-o.Disk.Last())/40; o.Disk.Member/2%4 > 0 { // others are slow
			most += e.random.IntN(6)
		}
	}
	if err := o.Disk.copyFrom(m.Disk, most); err != nil {
		e.Broken = append(e.Broken, err.Error())
		return
	}
	o.Disk.Term, o.Leader, o.alone = m.Disk.Term, m.Disk.Member, 0
	m.match[o.Disk.Member] = o.Disk.Last()
	o.Disk.Commit = max(o.Disk.Commit, min(m.Disk.Commit, o.Disk.Last()))
	e.sync(o)
	if o.Removed() {
		o.Leader = 0
	}
}

// sync has what a member has written reach its disk, most of the time.
func (e *Etcd) sync(m *Member) {
	if e.random.IntN(6) > 0 {
		m.Disk.Synced = len(m.Disk.Log)
	}
}

// commit commits the entries that a quorum has on disk, if the last of them is of this term. A member list counts from when it is committed.
func (e *Etcd) commit(m *Member, list []Peer, others map[uint64]*Member) {
	for at := m.Disk.Last(); at > m.Disk.Commit && m.Disk.Log[at-m.Disk.Base-1].Term == m.Disk.Term; at-- {
		has := func(id uint64) bool {
			d := m.Disk
			if o := others[id]; o != nil {
				d = o.Disk
			} else if id != m.Disk.Member {
				return false
			}
			return d.Term == m.Disk.Term && d.Base == m.Disk.Base && d.Base+d.Synced >= at && len(d.Log) >= at-d.Base && same(d.Log[at-d.Base-1], m.Disk.Log[at-m.Disk.Base-1])
		}
		if m.quorum(list, has) {
			m.Disk.Commit = at
			break
		}
	}
	e.acknowledge(m)
}

// ErrNoQuorum is what a member without a quorum says.
var ErrNoQuorum = errors.New("etcdserver: no leader")
