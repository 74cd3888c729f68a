// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"math/rand/v2"
	"slices"
)

// Member is one that runs.
type Member struct {
	Name string
	Disk *Disk
	// Frozen: it does nothing, and does not answer.
	Frozen bool
	// Doubts is the ID of one that it takes for disconnected until one of the two starts again; 0 for none. etcd does so where a late failure of a
	// connection to the other's old address comes after the new connections (rafthttp).
	Doubts uint64
	// Leader is the one that it knows; 0 for none.
	Leader uint64
	// match is what each of the others has of its log, as far as it has heard since it leads.
	match map[uint64]int
	// told: another member has answered that this one was removed.
	told bool
	// alone is how many rounds it has heard of no leader.
	alone int
}

// Etcd has the members that run, whatever their clusters are.
type Etcd struct {
	// Reaches reports whether members reach each other.
	Reaches func(a, b *Member) bool
	// Log is told of what members do.
	Log func(who, what string)
	// Acknowledged are the writes that a client was told of, by the lineage that has them.
	Acknowledged map[string][]int
	// Broken are the promises of raft that were, which are errors of this model.
	Broken []string

	running []*Member
	// rounds counts, and connected says since which round two members have been.
	rounds    int
	connected map[pair]int
	random    *rand.Rand
	writes    int
	// awaited are the writes that were not acknowledged, by lineage.
	awaited map[string][]int
	// told is the index up to which clients were told of what is committed, by lineage.
	told map[string]int
}

// New makes an Etcd without members.
func New(random *rand.Rand) *Etcd {
	return &Etcd{random: random, Acknowledged: map[string][]int{}, awaited: map[string][]int{}, told: map[string]int{}, connected: map[pair]int{}, Reaches: func(*Member, *Member) bool { return true }, Log: func(string, string) {}}
}

// Start starts a member with the data on a disk.
func (e *Etcd) Start(name string, d *Disk) *Member {
	m := &Member{Name: name, Disk: d}
	for _, other := range e.running {
		if other.Doubts == d.Member {
			other.Doubts = 0
		}
	}
	e.running = append(e.running, m)
	return m
}

// Stop stops a member.
func (e *Etcd) Stop(m *Member) {
	e.running = slices.DeleteFunc(e.running, func(other *Member) bool { return other == m })
}

// Running returns the members that run.
func (e *Etcd) Running() []*Member { return e.running }

// List returns the member list as a member knows it. It may not be changed.
func (m *Member) List() []Peer { return m.Disk.Peers() }

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

// Removed reports whether the member knows that it was removed: etcd ends then, each time that it starts with this data.
func (m *Member) Removed() bool { return m.told || m.Disk.Removed() }

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

type pair struct{ a, b *Member }

// healthy is for how many rounds members have to have been connected before etcd takes them to be: 5 s (HealthInterval).
const healthy = 20

// connect notes which members are connected.
func (e *Etcd) connect() {
	e.rounds++
	is := map[pair]int{}
	for _, m := range e.running {
		for _, other := range e.reachable(m) {
			is[pair{m, other}] = e.rounds
			if since, was := e.connected[pair{m, other}]; was {
				is[pair{m, other}] = since
			}
		}
	}
	e.connected = is
}

// steady reports whether a member takes another to be connected for long enough.
func (e *Etcd) steady(m *Member, id uint64) bool {
	if id == m.Disk.Member {
		return true
	}
	other := e.reached(m, id)
	since, is := e.connected[pair{m, other}]
	return is && e.rounds-since >= healthy && id != m.Doubts
}

// reached returns the member of an ID that a member reaches, of the same cluster; nil if there is none.
func (e *Etcd) reached(m *Member, id uint64) *Member {
	for _, other := range e.running {
		if other.Disk.Member == id && other != m && !m.Frozen && !other.Frozen && other.Disk.Cluster == m.Disk.Cluster && e.Reaches(m, other) {
			return other
		}
	}
	return nil
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
