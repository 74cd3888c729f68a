// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package members is a model of etcd, for simulations: what is on the volumes of members, and what the members that run make of it together.
//
// It has what raft guarantees and what the operator has to reckon with: terms and votes that survive, logs of which the end may not have reached
// the disk, elections that take a quorum and the longest log, entries that are committed once a quorum has them on disk, a leader that steps down
// without a quorum, a member list that is part of the log and changes by one, learners that do not vote, and removals for ever. Where raft exchanges
// messages, a Round does it at once: who reaches whom, who is slow and who stands for election is drawn. Keys are not modeled: a write is a number
// that is in the log or is not.
package members

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Peer is an entry of a member list.
type Peer struct {
	ID      uint64
	Name    string
	PeerURL string
	Learner bool
	// Started: the member has published its name and client URL.
	Started bool
}

// Entry of a log. At most one of its fields says something; with none it is that of a new leader.
type Entry struct {
	Term uint64
	// Write is the number of a write of a client.
	Write int
	// Peer is added, or changed; Removed is removed.
	Peer    *Peer
	Removed uint64
}

// Disk is what a volume has of a member. The zero value is empty.
type Disk struct {
	// Cluster is the ID of the cluster in hex; empty for no data. Member is the member's own.
	Cluster string
	Member  uint64
	// Copy is which of the copies it is that were made of data, and Task for which task; empty for founders.
	Copy, Task string
	// Founders are the member list, Writes the writes and Base the index before the first entry of the log.
	Founders []Peer
	Writes   []int
	Base     int
	// Raised is what restores have added to the revision: it is that of the writes otherwise.
	Raised int64
	Log    []Entry
	// Synced is how many entries of the log survive a loss of power.
	Synced int
	// Term is the newest that the member knows, and Commit the index that it knows to be committed.
	Term   uint64
	Commit int
	// Joining: etcd has not started with it, and has only the list by which it is to join.
	Joining bool
	// Damaged: it cannot be read any more.
	Damaged bool
	// Restored: its data came from a backup, and not from a volume.
	Restored bool
	// Kept is what was set aside on the volume, by the name of its directory, and Made is complete data that waits for its name; nil if there is none.
	Kept map[string]*Disk
	Made *Made

	// list is the member list after the first entries of the log that were applied, as many as listed says, and gone are those that were removed by
	// them. What was applied never changes.
	list   []Peer
	gone   []uint64
	listed int
}

// Made is data that was made for a task. Each copy has an ID of its own.
type Made struct {
	Task, Copy string
	Data       Disk
}

// Lineage names the cluster, and the copy of data with which it has begun: an ID may begin twice.
func (d *Disk) Lineage() string { return d.Cluster + strings.TrimSuffix("/"+d.Copy, "/") }

// Last returns the index of the last entry.
func (d *Disk) Last() int { return d.Base + len(d.Log) }

// LastTerm returns the term of the last entry.
func (d *Disk) LastTerm() uint64 {
	if len(d.Log) == 0 {
		return min(d.Term, 1)
	}
	return d.Log[len(d.Log)-1].Term
}

// Applied returns the entries that are committed as far as the member knows.
func (d *Disk) Applied() []Entry { return d.Log[:min(max(d.Commit-d.Base, 0), len(d.Log))] }

// Peers returns the member list after what was applied, without those that were removed. It may not be changed.
func (d *Disk) Peers() []Peer {
	applied := d.Applied()
	if d.listed == 0 || d.listed > len(applied) {
		d.list, d.gone, d.listed = d.Founders, nil, 0
	}
	for _, e := range applied[d.listed:] {
		if e.Peer == nil && e.Removed == 0 {
			continue
		}
		id := e.Removed
		if e.Peer != nil {
			id = e.Peer.ID
		} else {
			d.gone = append(slices.Clip(d.gone), id)
		}
		d.list = slices.DeleteFunc(slices.Clone(d.list), func(p Peer) bool { return p.ID == id })
		if e.Peer != nil {
			d.list = append(d.list, *e.Peer)
		}
	}
	d.listed = len(applied)
	return d.list
}

// Removes reports whether the removal of a member was applied.
func (d *Disk) Removes(id uint64) bool {
	d.Peers()
	return slices.Contains(d.gone, id)
}

// Revision returns that of the database: of what is committed as far as the member knows.
func (d *Disk) Revision() int64 {
	n := int64(1+len(d.Writes)) + d.Raised
	for _, e := range d.Applied() {
		if e.Write != 0 {
			n++
		}
	}
	return n
}

// Committed returns the writes that are committed as far as the member knows, in the order of their revisions.
func (d *Disk) Committed() []int {
	committed := *d
	committed.Log = d.Applied()
	return committed.All()
}

// All returns the writes in the data, with those that are not known to be committed.
func (d *Disk) All() []int {
	all := slices.Clone(d.Writes)
	for _, e := range d.Log {
		if e.Write != 0 {
			all = append(all, e.Write)
		}
	}
	return all
}

// Removed reports whether the member of the disk has applied its own removal.
func (d *Disk) Removed() bool {
	return d.Removes(d.Member) && !slices.ContainsFunc(d.Peers(), func(p Peer) bool { return p.ID == d.Member })
}

// LosePower drops what was not synced.
func (d *Disk) LosePower() {
	d.Log = slices.Clip(d.Log[:min(d.Synced, len(d.Log))])
	d.Synced, d.Commit = len(d.Log), min(d.Commit, d.Last())
}

// Bootstrap makes the data of a founder of a cluster.
func (d *Disk) Bootstrap(cluster string, id uint64, founders []Peer) {
	*d = Disk{Cluster: cluster, Member: id, Founders: founders, Term: 1, Kept: d.Kept}
}

// SetAside leaves the volume without data, and keeps what there was in a directory.
func (d *Disk) SetAside(dir string) {
	kept, was := maps.Clone(d.Kept), *d
	if was.Kept, was.Made = nil, nil; d.Cluster != "" {
		if kept == nil {
			kept = map[string]*Disk{}
		}
		kept[dir] = &was
	}
	*d = Disk{Kept: kept, Made: d.Made}
}

// Unkeep gives data that was set aside its name again, in place of what there is.
func (d *Disk) Unkeep(dir string) {
	kept, made := maps.Clone(d.Kept), d.Made
	*d = *kept[dir]
	delete(kept, dir)
	d.Kept, d.Made = kept, made
}

// Name gives the data that was made the place of what was set aside.
func (d *Disk) Name() {
	data := d.Made.Data
	data.Kept = d.Kept
	*d = data
}

// Restore makes a cluster of one member of writes that a backup has.
func (d *Disk) Restore(cluster string, founder Peer, writes []int, raised int64) {
	*d = Disk{Cluster: cluster, Member: founder.ID, Founders: []Peer{founder}, Writes: slices.Clip(writes), Raised: raised, Term: 1, Restored: true, Kept: d.Kept}
}

// Join makes the data of a member that was added, before the leader has sent it anything.
func (d *Disk) Join(cluster string, id uint64, list []Peer) {
	*d = Disk{Cluster: cluster, Member: id, Founders: list, Kept: d.Kept, Joining: true}
}

// Unjoin forgets what Join has made: it was in the pod that is gone.
func (d *Disk) Unjoin() { *d = Disk{Kept: d.Kept} }

// Rebuild makes a cluster of one member of all that the data has.
func (d *Disk) Rebuild(cluster string, founder Peer) {
	*d = Disk{Cluster: cluster, Member: founder.ID, Founders: []Peer{founder}, Writes: d.All(), Raised: d.Raised, Base: d.Last(), Term: d.Term + 1, Commit: d.Last(), Kept: d.Kept}
}

// copyFrom makes the log that of a leader, but for what is more than a number of entries longer. It fails for data of another history, which
// raft cannot have.
func (d *Disk) copyFrom(leader *Disk, most int) error {
	shared := min(d.Commit, leader.Last()) - leader.Base
	if d.Commit > leader.Last() || d.Base == leader.Base && shared > 0 && !begin(d.Log[:shared], leader.Log[:shared]) {
		return fmt.Errorf("member %x has committed up to %d what leader %x, with %d entries, has not", d.Member, d.Commit, leader.Member, leader.Last())
	}
	synced := 0
	if d.Base == leader.Base {
		synced = min(d.Synced, len(leader.Log))
		for synced > 0 && !begin(d.Log[:synced], leader.Log[:synced]) {
			synced--
		}
	} else {
		shared, d.listed = 0, 0
	}
	n := min(len(leader.Log), max(synced, shared)+most)
	d.Founders, d.Writes, d.Raised, d.Base, d.Log, d.Synced = leader.Founders, leader.Writes, leader.Raised, leader.Base, slices.Clip(leader.Log[:n]), synced
	d.Copy, d.Task = leader.Copy, leader.Task
	return nil
}

// begin reports whether two logs of the same length are the same. Members share the memory of what they have copied: nothing in it ever changes,
// since who appends to a copy makes one of its own.
func begin(a, b []Entry) bool {
	return len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, same)
}

func same(a, b Entry) bool {
	return a.Term == b.Term && a.Write == b.Write && a.Removed == b.Removed && (a.Peer == nil) == (b.Peer == nil) && (a.Peer == nil || *a.Peer == *b.Peer)
}
