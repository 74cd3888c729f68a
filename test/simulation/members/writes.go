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
	e.awaited[l.Disk.Lineage()] = append(e.awaited[l.Disk.Lineage()], e.writes)
	return true
}

// acknowledge tells clients of their writes that a leader has committed since the last time.
func (e *Etcd) acknowledge(m *Member) {
	of, applied := m.Disk.Lineage(), m.Disk.Applied()
	for _, entry := range applied[min(max(e.told[of]-m.Disk.Base, 0), len(applied)):] {
		if i := slices.Index(e.awaited[of], entry.Write); i >= 0 {
			e.awaited[of] = slices.Delete(e.awaited[of], i, i+1)
			e.Acknowledged[of] = append(e.Acknowledged[of], entry.Write)
		}
	}
	e.told[of] = max(e.told[of], m.Disk.Base+len(applied))
}

// check checks that a leader has all that was acknowledged in its cluster.
func (e *Etcd) check(m *Member) {
	if lost := Missing(m.Disk, e.Acknowledged[m.Disk.Lineage()]); lost > 0 {
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
