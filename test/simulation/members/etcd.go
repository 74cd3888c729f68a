// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Member is one that runs.
type Member struct {
	Name string
	Disk *Disk
	// Frozen: it does nothing, and does not answer.
	Frozen bool
	// Leader is the one that it knows; 0 for none.
	Leader uint64
	// alone is how many rounds it has heard of no leader.
	alone int
}

// Etcd has the members that run, whatever their clusters are.
type Etcd struct {
	// Reaches reports whether members reach each other.
	Reaches func(a, b *Member) bool
	// Log is told of what members do.
	Log func(who, what string)
	// Acknowledged are the writes that a client was told of, by the cluster that has them.
	Acknowledged map[string][]int
	// Broken are the promises of raft that were, which are errors of this model.
	Broken []string

	running []*Member
	random  *rand.Rand
	writes  int
	// awaited are the writes that were not acknowledged, by cluster.
	awaited map[string][]int
}

// New makes an Etcd without members.
func New(random *rand.Rand) *Etcd {
	return &Etcd{random: random, Acknowledged: map[string][]int{}, awaited: map[string][]int{}, Reaches: func(*Member, *Member) bool { return true }, Log: func(string, string) {}}
}

// Start starts a member with the data on a disk.
func (e *Etcd) Start(name string, d *Disk) *Member {
	m := &Member{Name: name, Disk: d}
	e.running = append(e.running, m)
	return m
}

// Stop stops a member.
func (e *Etcd) Stop(m *Member) {
	e.running = slices.DeleteFunc(e.running, func(other *Member) bool { return other == m })
}

// Running returns the members that run.
func (e *Etcd) Running() []*Member { return e.running }

// List returns the member list as a member knows it.
func (m *Member) List() []Peer { return m.Disk.Peers(m.Disk.Applied()) }

func (m *Member) self() (self Peer, listed bool) {
	list := m.List()
	if i := slices.IndexFunc(list, func(p Peer) bool { return p.ID == m.Disk.Member }); i >= 0 {
		return list[i], true
	}
	return Peer{}, false
}

// IsLearner reports whether the member does not vote, as far as it knows.
func (m *Member) IsLearner() bool {
	self, listed := m.self()
	return listed && self.Learner
}

// Leads reports whether a member leads, as far as it knows.
func (m *Member) Leads() bool { return m.Leader == m.Disk.Member }

// Removed reports whether the member knows that it was removed. etcd ends then, and never starts with this data again.
func (m *Member) Removed() bool {
	_, listed := m.self()
	return !listed && slices.ContainsFunc(m.Disk.Applied(), func(e Entry) bool { return e.Removed == m.Disk.Member })
}

// reachable returns the other members of the same cluster that a member reaches, by ID.
func (e *Etcd) reachable(m *Member) map[uint64]*Member {
	all := map[uint64]*Member{}
	for _, other := range e.running {
		if other != m && !m.Frozen && !other.Frozen && other.Disk.Cluster == m.Disk.Cluster && e.Reaches(m, other) {
			all[other.Disk.Member] = other
		}
	}
	return all
}

// quorum reports whether a member and some others, for which has says so, are a majority of the voters of a list.
func (m *Member) quorum(list []Peer, has func(id uint64) bool) bool {
	voters, with := 0, 0
	for _, p := range list {
		if p.Learner {
			continue
		}
		voters++
		if has(p.ID) {
			with++
		}
	}
	return with > voters/2
}

// Round has each member, in an order that is drawn, do what raft does in a few heartbeats.
func (e *Etcd) Round() {
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
	case m.Leader != 0 && others[m.Leader] != nil && others[m.Leader].Leads():
		m.alone = 0
	default:
		if m.alone++; m.alone < elections+e.random.IntN(3) {
			return
		}
		m.Leader = 0
		e.stand(m, others, false)
	}
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
	m.Leader, m.alone = m.Disk.Member, 0
	m.Disk.Log = append(slices.Clip(m.Disk.Log), Entry{Term: m.Disk.Term})
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
	for _, p := range m.Disk.Peers(m.Disk.Log) {
		if o := others[p.ID]; o != nil && e.random.IntN(8) > 0 {
			e.replicate(m, o)
		}
	}
	e.commit(m, list, others)
}

func (e *Etcd) replicate(m, o *Member) {
	if err := o.Disk.copyFrom(m.Disk); err != nil {
		e.Broken = append(e.Broken, err.Error())
		return
	}
	o.Disk.Term, o.Leader, o.alone = m.Disk.Term, m.Disk.Member, 0
	o.Disk.Commit = max(o.Disk.Commit, m.Disk.Commit)
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
