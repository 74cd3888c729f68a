// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"fmt"
	"slices"
)

// leaderOf returns the leader that a member knows and reaches, which leads with a quorum; nil if there is none.
func (e *Etcd) leaderOf(m *Member) *Member {
	l := m
	if !m.Leads() {
		if l = e.reached(m, m.Leader); l == nil || !l.Leads() {
			return nil
		}
	}
	if m.Frozen || !l.quorum(l.List(), func(id uint64) bool {
		if id == l.Disk.Member {
			return true
		}
		other := e.reached(l, id)
		return other != nil && other.Disk.Term <= l.Disk.Term
	}) {
		return nil
	}
	return l
}

// Settled reports whether a leader has committed an entry of its term: only then does it know what is committed.
func (m *Member) Settled() bool {
	applied := m.Disk.Applied()
	return len(applied) > 0 && applied[len(applied)-1].Term == m.Disk.Term
}

// Serves reports whether a member answers a linearizable read.
func (e *Etcd) Serves(m *Member) bool {
	_, listed := m.self()
	return listed && e.leaderOf(m) != nil
}

// Write has a client ask a member to write, and returns whether it is on its way. It is acknowledged once it is committed.
func (e *Etcd) Write(m *Member) bool {
	l := e.leaderOf(m)
	if l == nil || m.IsLearner() {
		return false
	}
	e.writes++
	l.Disk.Log = append(l.Disk.Log, Entry{Term: l.Disk.Term, Write: e.writes})
	e.awaited[l.Disk.Cluster] = append(e.awaited[l.Disk.Cluster], e.writes)
	return true
}

// acknowledge tells clients of their writes that a leader has committed since the last time.
func (e *Etcd) acknowledge(m *Member) {
	cluster, applied := m.Disk.Cluster, m.Disk.Applied()
	for _, entry := range applied[min(max(e.told[cluster]-m.Disk.Base, 0), len(applied)):] {
		if i := slices.Index(e.awaited[cluster], entry.Write); i >= 0 {
			e.awaited[cluster] = slices.Delete(e.awaited[cluster], i, i+1)
			e.Acknowledged[cluster] = append(e.Acknowledged[cluster], entry.Write)
		}
	}
	e.told[cluster] = max(e.told[cluster], m.Disk.Base+len(applied))
}

// BeginAgain forgets what clients of a cluster were told, unless a member of it runs. An only member that is restored again before the operator has
// recorded the cluster ID of the restore before gets the same one, and lacks what the store does.
func (e *Etcd) BeginAgain(cluster string) {
	if !slices.ContainsFunc(e.running, func(m *Member) bool { return m.Disk.Cluster == cluster }) {
		delete(e.Acknowledged, cluster)
		delete(e.awaited, cluster)
		delete(e.told, cluster)
	}
}

// check checks that a leader has all that was acknowledged in its cluster.
func (e *Etcd) check(m *Member) {
	if lost := Missing(m.Disk, e.Acknowledged[m.Disk.Cluster]); lost > 0 {
		e.Broken = append(e.Broken, fmt.Sprintf("%s leads cluster %s in term %d, and lacks %d writes that were acknowledged", m.Name, m.Disk.Cluster, m.Disk.Term, lost))
	}
}

// Missing counts the writes that are not in the data of a disk.
func Missing(d *Disk, writes []int) (n int) {
	has := map[int]bool{}
	for _, w := range d.All() {
		has[w] = true
	}
	for _, w := range writes {
		if !has[w] {
			n++
		}
	}
	return n
}
