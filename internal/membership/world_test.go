// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
)

// world is a cluster with its pods and claims, as far as membership matters, and what etcd, Kubernetes and the agents do in it.
// It is what an Input is taken from, and it carries steps out.
type world struct {
	goal     Goal
	members  []node
	ordinals []slot
	replicas int
	observed int    // replicas that the StatefulSet controller has seen
	leader   uint64 // 0: no member leads
	nextID   uint64
	sources  int // that were declared
	backup   bool
	acting   bool // something else acts
	// readdressed: members are not reached as the spec says
	readdressed bool
	old         bool // etcd adds no member unless every voter is connected
	pending     *Step
	lands       bool // the pending request takes effect
	slow        bool // agents and controllers need twice the time
	read        [9]bool
	blind       bool    // the members that answer do not know the leader
	overrides   []Guard // a person tries to
}

// node is one entry of the member list.
type node struct {
	id        uint64
	owner     Owner
	ordinal   int
	learner   bool
	up        bool
	hidden    bool // up, and does not answer the operator
	long      bool // down or hidden for the grace period
	young     bool // up, and etcd's connections to it are too young
	fresh     int  // it votes for a moment only, and clients reach it through the Service after so much time
	lags      bool
	stale     bool // a learner whose pod was prepared with another member list than the present one: its etcd refuses to start
	told      bool
	confirmed bool
	mounts    bool // the newest announcement is mounted
	reads     bool // and its agent has read it
	knows     bool // no pod of it takes it for the only member
}

// slot is one ordinal.
type slot struct {
	pod, claim, terminating bool
	ending                  bool // the pod was deleted, and its kubelet ends it
	temporary               bool // the claim was made for a further member
	foreign                 bool // the claim is not the Etcd's own
	outdated                Outdated
	store                   Store
	announced               bool // members were told that its member joins
}

func (w *world) clone() *world {
	c := *w
	c.members, c.ordinals = slices.Clone(w.members), slices.Clone(w.ordinals)
	return &c
}

func (w *world) node(id uint64) *node {
	i := slices.IndexFunc(w.members, func(n node) bool { return n.id == id })
	if i < 0 {
		return nil
	}
	return &w.members[i]
}

func (w *world) at(ordinal int) *node {
	i := slices.IndexFunc(w.members, func(n node) bool { return n.owner == Ours && n.ordinal == ordinal })
	if i < 0 {
		return nil
	}
	return &w.members[i]
}

func (w *world) voters() (all, up, settled int) {
	for _, n := range w.members {
		if n.learner {
			continue
		}
		all++
		if n.up {
			up++
			if !n.young {
				settled++
			}
		}
	}
	return all, up, settled
}

func (w *world) quorate() bool {
	all, up, _ := w.voters()
	return all > 0 && quorum.Exists(up, all)
}

// elect keeps the leader if it can lead, and otherwise makes the first voter that is up the leader, if there is a quorum.
func (w *world) elect() {
	if n := w.node(w.leader); n != nil && n.up && !n.learner && w.quorate() {
		return
	}
	w.leader = 0
	if !w.quorate() {
		return
	}
	for _, n := range w.members {
		if n.up && !n.learner {
			w.leader = n.id
			return
		}
	}
}

func (w *world) input() Input {
	in := Input{Goal: w.goal, Replicas: w.replicas, Observed: w.observed == w.replicas, BackedUp: w.backup, Overridden: w.overrides, Sources: w.sources}
	if w.pending != nil {
		in.Pending = fmt.Sprintf("%s was requested, and etcd's answer was lost", w.pending.Action)
	}
	in.Readdressed = w.readdressed && w.sources == 0
	if w.acting {
		in.Acting = "A rollout replaces pods"
	}
	for _, n := range w.members {
		serves := n.up && !n.hidden
		m := Member{
			ID: n.id, Name: fmt.Sprintf("m-%d", n.ordinal), Owner: n.owner, Ordinal: n.ordinal, Learner: n.learner,
			Serving: serves, Unready: n.long && !serves, Settled: n.up && !n.young, Reached: n.up && n.fresh == 0, Leads: n.id == w.leader && w.seen() > 0,
			Lost:   n.owner == Ours && !n.learner && !n.up && w.ordinals[n.ordinal].store == Free,
			Steady: !n.lags, Stale: n.stale && n.long, Told: n.told, Confirmed: n.confirmed && n.up && !n.hidden, Read: n.reads,
		}
		if n.hidden && n.id == w.leader && w.blind {
			m.Leads = false
		}
		if n.owner != Ours {
			m.Name = fmt.Sprintf("%c-%d", "xms"[n.owner], n.ordinal)
		}
		if n.lags {
			m.Lag = 1000
		}
		in.Members = append(in.Members, m)
	}
	for i, s := range w.ordinals {
		o := Ordinal{Pod: s.pod, Claim: s.claim, Terminating: s.terminating, Temporary: s.temporary && i >= w.goal.Size, Outdated: s.outdated, Store: s.store, Ending: s.ending, Told: s.announced}
		if s.foreign {
			o.Foreign = "the claim is not the Etcd's own"
		}
		if i >= w.goal.Size && s.outdated == Volume {
			o.Outdated = Nothing // what does not stay need not move
		}
		in.Ordinals = append(in.Ordinals, o)
	}
	if w.leader == 0 || w.seen() == 0 {
		in.Members = nil // no member answers a linearizable request
	}
	return in
}

// accepts is etcd's answer to a change of the list: its strict check, and what the list itself allows.
func (w *world) accepts(step *Step) bool {
	all, _, settled := w.voters()
	if w.leader == 0 {
		return false
	}
	switch n := w.node(step.Member); step.Action {
	case AddLearner:
		return learners(w) == 0 && w.at(step.Ordinal) == nil && (all == 1 || settled >= quorum.Size(all+1) && (!w.old || settled == all))
	case PromoteLearner:
		return n != nil && n.learner && n.up && !n.lags
	case RemoveMember:
		return n != nil && (n.learner || !n.up || all > 1 && settled-1 >= quorum.Size(all-1))
	}
	return true
}

// setBack has the volumes that have moved move back, and those that have not stay.
func (w *world) setBack() {
	for i := range w.ordinals {
		if o := &w.ordinals[i]; o.claim && o.outdated != Pod {
			o.outdated = Volume - o.outdated
		}
	}
}

// do requests a step, which etcd may refuse.
func (w *world) do(step *Step) {
	if w.accepts(step) {
		w.carryOut(step)
		w.elect()
	}
}

func (w *world) carryOut(step *Step) {
	for len(w.ordinals) <= max(step.Ordinal, w.replicas) {
		w.ordinals = append(w.ordinals, slot{})
	}
	n := w.node(step.Member)
	switch step.Action {
	case ScaleUp:
		w.replicas++
	case ScaleDown:
		w.replicas--
		for i := range w.members {
			w.members[i].knows = w.members[i].knows && w.replicas > 1
		}
	case AddLearner:
		w.changed()
		w.nextID++
		w.members = append(w.members, node{id: w.nextID, owner: Ours, ordinal: step.Ordinal, learner: true, lags: true})
	case PromoteLearner:
		n.learner, n.fresh = false, 3
	case MoveLeader:
		w.leader = step.Successor
	case AnnounceJoin:
		w.tell()
		w.ordinals[step.Ordinal].announced = true
	case Announce:
		w.tell()
		n.told = true
	case Retract:
		w.tell()
		n.told, n.confirmed = false, false
	case RemoveMember:
		if n.owner == Ours && w.ordinals[n.ordinal].store == InUse {
			w.ordinals[n.ordinal].store = Left
		}
		if n.stale && w.ordinals[n.ordinal].outdated == Nothing {
			w.ordinals[n.ordinal].outdated = Pod // it was prepared, and only another pod looks again
		}
		w.changed()
		w.members = slices.DeleteFunc(w.members, func(o node) bool { return o.id == step.Member })
	case DeleteClaim:
		w.ordinals[step.Ordinal].terminating = true
	case DeletePod:
		w.ordinals[step.Ordinal].ending = true
	}
}

// changed has the learner that has not started yet refuse to start: it was prepared with the member list of before.
func (w *world) changed() {
	for i := range w.members {
		if n := &w.members[i]; n.owner == Ours && n.learner && !n.up && w.ordinals[n.ordinal].pod {
			n.stale = true
		}
	}
}

// tell is what every announcement has in common: no agent has read it yet, and it replaces the one of a newcomer.
func (w *world) tell() {
	for i := range w.members {
		w.members[i].reads, w.members[i].mounts = false, false
	}
	for i := range w.ordinals {
		w.ordinals[i].announced = false
	}
}

// pass lets time go by without faults: Kubernetes, etcd and the agents do what they have to.
func (w *world) pass() {
	if w.pending != nil && w.lands {
		w.do(w.pending)
	}
	w.pending = nil
	late := w.slow && w.observed != w.replicas
	w.observed, w.acting = w.replicas, false
	w.readdressed = w.readdressed && w.count()%2 == 0 // a rollout waits for an odd number
	if !late {
		for i := range w.ordinals {
			w.controller(i)
		}
	}
	for i := range w.members {
		n := &w.members[i]
		n.young, n.fresh, n.hidden = false, max(n.fresh-1, 0), n.hidden && n.long
		if n.owner == Source && !n.learner {
			n.young, n.up = !n.up, true
		}
	}
	for i := range w.ordinals {
		w.agent(i)
	}
	for i := range w.members {
		n := &w.members[i]
		n.long = !n.up || n.hidden
		n.lags = n.lags && (n.learner || !n.up) && n.owner == Ours && w.ordinals[n.ordinal].store == Free
	}
	w.elect()
}

// controller is that of StatefulSets, and of volumes.
func (w *world) controller(i int) {
	o := &w.ordinals[i]
	if o.ending {
		o.pod, o.ending = false, false
	}
	if !o.pod && o.terminating {
		o.claim, o.terminating, o.temporary, o.store = false, false, false, InUse
		if o.outdated == Volume {
			o.outdated = Nothing
		}
	}
	if i < w.replicas && !o.pod {
		o.pod = true
		if o.outdated == Pod {
			o.outdated = Nothing
		}
		o.announced = false
		if n := w.at(i); n != nil {
			n.stale = false // its agent looks at the list of now
		}
		if !o.claim {
			*o = slot{pod: true, claim: true, store: Free, temporary: i >= w.goal.Size}
		}
	}
	if i >= w.replicas {
		o.pod = false
	}
}

// agent sets aside what the volume of an unlisted member holds, starts a member that is listed, and reads what it is told.
func (w *world) agent(i int) {
	o, n := &w.ordinals[i], w.at(i)
	switch {
	case !o.pod || o.ending:
	case n == nil:
		if o.store != Other {
			o.store = Free
		}
	case n.stale: // its etcd ends again and again
	case n.learner:
		o.store, n.young, n.up, n.lags = InUse, !n.up, true, false
	case o.store != Free:
		n.young, n.up = !n.up, true
	}
	if n != nil {
		n.confirmed = n.told && n.up && (n.confirmed || !w.slow || w.read[i])
		w.read[i] = n.told
	}
	if n != nil && n.up {
		n.reads, n.mounts = n.reads || !w.slow || n.mounts, true
		n.knows = n.knows || n.reads && slices.ContainsFunc(w.ordinals, func(o slot) bool { return o.announced })
	}
}

// String is the world in a line.
func (w *world) String() string {
	return fmt.Sprintf("overrides %v, goal %+v, replicas %d (%d seen), sources %d, backup %v, pending %v: %s %+v", w.overrides != nil, w.goal, w.replicas, w.observed, w.sources, w.backup, w.pending, w.list(), w.ordinals)
}

// list is the member list: * leads, ? learner, ! down, h hidden, y young, ~ lags, s stale, t told, c confirmed.
func (w *world) list() string {
	var parts []string
	for _, n := range w.members {
		name := fmt.Sprintf("%c%d", "xms"[n.owner], n.ordinal)
		for _, f := range []struct {
			text string
			is   bool
		}{{"*", n.id == w.leader}, {"?", n.learner}, {"!", !n.up}, {"h", n.hidden}, {"y", n.young}, {"~", n.lags}, {"s", n.stale}, {"t", n.told}, {"c", n.confirmed}} {
			if f.is {
				name += f.text
			}
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " ")
}
