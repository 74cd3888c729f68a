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
	goal      Goal
	members   []node
	ordinals  []slot
	replicas  int
	leader    uint64 // 0: nobody leads
	nextID    uint64
	backup    bool
	overrides []Guard
}

// node is one entry of the member list.
type node struct {
	id       uint64
	owner    Owner
	ordinal  int
	learner  bool
	up       bool
	young    bool // up, and etcd's connections to it are too young
	caughtUp bool
	told     bool
}

// slot is one ordinal.
type slot struct {
	pod, claim, terminating bool
	outdated                Outdated
	store                   Store
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
	in := Input{Goal: w.goal, Replicas: w.replicas, Observed: true, BackedUp: w.backup, Overridden: w.overrides}
	for _, n := range w.members {
		m := Member{
			ID: n.id, Name: fmt.Sprintf("m-%d", n.ordinal), Owner: n.owner, Ordinal: n.ordinal, Learner: n.learner,
			Serving: n.up && w.leader != 0, Settled: n.up && !n.young, Leads: n.id == w.leader && n.up,
			Steady: n.caughtUp, Told: n.told, Confirmed: n.told && n.up,
		}
		if n.owner != Ours {
			m.Name = fmt.Sprintf("s-%d", n.ordinal)
		}
		if !n.caughtUp {
			m.Lag = 1000
		}
		in.Members = append(in.Members, m)
	}
	for _, o := range w.ordinals {
		in.Ordinals = append(in.Ordinals, Ordinal{Pod: o.pod, Claim: o.claim, Terminating: o.terminating, Outdated: o.outdated, Store: o.store})
	}
	if w.leader == 0 {
		in.Members = nil // nobody answers a linearizable request
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
		return !slices.ContainsFunc(w.members, func(n node) bool { return n.learner }) && (all == 1 || settled >= quorum.Size(all+1))
	case PromoteLearner:
		return n != nil && n.learner && n.caughtUp
	case RemoveMember:
		return n != nil && (n.learner || !n.up || all > 1 && settled-1 >= quorum.Size(all-1))
	}
	return true
}

// do carries a step out.
func (w *world) do(step *Step) {
	if !w.accepts(step) {
		return
	}
	for len(w.ordinals) <= max(step.Ordinal, w.replicas) {
		w.ordinals = append(w.ordinals, slot{})
	}
	n := w.node(step.Member)
	switch step.Action {
	case ScaleUp:
		w.replicas++
	case ScaleDown:
		w.replicas--
		w.ordinals[w.replicas].pod = false
	case AddLearner:
		w.nextID++
		w.members = append(w.members, node{id: w.nextID, owner: Ours, ordinal: step.Ordinal, learner: true})
	case PromoteLearner:
		n.learner = false
	case MoveLeader:
		w.leader = step.Successor
	case Announce:
		n.told = true
	case Retract:
		n.told = false
	case RemoveMember:
		if n.owner == Ours && w.ordinals[n.ordinal].store == InUse {
			w.ordinals[n.ordinal].store = Left
		}
		w.members = slices.DeleteFunc(w.members, func(o node) bool { return o.id == step.Member })
	case DeleteClaim:
		w.ordinals[step.Ordinal].terminating = true
	case DeletePod:
		w.ordinals[step.Ordinal].pod = false
	}
	w.elect()
}

// pass lets time go by without faults: Kubernetes and the agents do what they have to.
func (w *world) pass() {
	for i := range w.ordinals {
		o := &w.ordinals[i]
		if !o.pod && o.terminating {
			o.claim, o.terminating, o.store = false, false, InUse
			if o.outdated == Volume {
				o.outdated = Nothing
			}
		}
		if i < w.replicas && !o.pod {
			o.pod = true
			if o.outdated == Pod {
				o.outdated = Nothing
			}
			if !o.claim {
				*o = slot{pod: true, claim: true, store: Free}
			}
		}
		if i >= w.replicas {
			o.pod = false
		}
		n := w.at(i)
		switch {
		case n == nil && o.pod:
			o.store = Free // the agent sets aside what it finds
		case n != nil && n.learner && o.pod:
			o.store, n.up, n.caughtUp = InUse, true, true
		case n != nil && o.pod && o.store != Free:
			n.up = true
		}
	}
	for i := range w.members {
		w.members[i].young = false
	}
	w.elect()
}

// String is the world in a line.
func (w *world) String() string {
	var parts []string
	for _, n := range w.members {
		name := fmt.Sprintf("m%d", n.ordinal)
		if n.owner != Ours {
			name = fmt.Sprintf("%c%d", "us"[n.owner/2], n.ordinal)
		}
		for text, yes := range map[string]bool{"*": n.id == w.leader, "?": n.learner, "!": !n.up, "~": !n.caughtUp, "t": n.told, "y": n.young} {
			if yes {
				name += text
			}
		}
		parts = append(parts, name)
	}
	for i, o := range w.ordinals {
		parts = append(parts, fmt.Sprintf("%d:%v%v%v/%d/%d", i, o.pod, o.claim, o.terminating, o.outdated, o.store))
	}
	return fmt.Sprintf("goal %+v, replicas %d: %s", w.goal, w.replicas, strings.Join(parts, " "))
}
