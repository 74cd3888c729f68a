// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// unsafe returns which promise a step breaks in a world; empty if none. It shares nothing with the decision.
func unsafe(w *world, step *Step) string {
	n := w.node(step.Member)
	listed := w.at(step.Ordinal) != nil && step.Ordinal >= 0
	all, up, _ := w.voters()
	switch step.Action {
	case ScaleDown, DeletePod:
		if listed {
			return "a pod of a listed member goes"
		}
	case DeleteClaim:
		switch {
		case listed:
			return "a claim of a listed member goes"
		case !w.quorate():
			return "a claim goes without a quorum that has its data"
		}
	case AddLearner:
		switch {
		case w.ordinals[step.Ordinal].store != Free:
			return "a member joins with data"
		case listed:
			return "a member joins twice"
		}
	case PromoteLearner:
		if !n.caughtUp || !n.up {
			return "a learner votes that has not caught up"
		}
	case RemoveMember:
		switch {
		case n.owner == Unknown:
			return "a foreign member is removed"
		case n.owner == Source && w.goal.KeepSources:
			return "a source is removed that stays"
		case n.id == w.leader:
			return "the leader is removed"
		case n.owner == Ours && !n.told:
			return "a member is removed and does not know"
		case n.learner:
			return ""
		case all == 1:
			return "the last voter is removed"
		case all == 2 && !w.backup:
			return "one voter remains, without a backup"
		case w.goal.Size == 1 && !w.goal.KeepSources && !w.goal.Single:
			return "redundancy ends, and nobody agreed"
		case all == 2 && up < 2:
			return "one of two voters is removed while the other does not serve"
		case n.up && n.owner == Source && !goalServes(w):
			return "a source leaves before the members vote that are to take its place"
		}
	}
	if n := w.node(step.Member); n != nil && n.owner == Unknown {
		return "a foreign member is touched"
	}
	if !w.quorate() {
		return ""
	}
	after := w.clone()
	after.do(step)
	if all, up, _ := after.voters(); up*2 <= all {
		return fmt.Sprintf("the quorum is lost: %d of %d voters", up, all)
	}
	if learners(after) > 1 {
		return "there are two learners"
	}
	return ""
}

func learners(w *world) int {
	n := 0
	for _, m := range w.members {
		if m.learner {
			n++
		}
	}
	return n
}

func goalServes(w *world) bool {
	for i := range w.goal.Size {
		if n := w.at(i); n == nil || n.learner || !n.up {
			return false
		}
	}
	return true
}

// reached reports whether the members are those of the goal.
func reached(w *world) bool {
	for _, n := range w.members {
		if n.learner || n.told || n.owner == Ours && n.ordinal >= w.goal.Size || n.owner == Source && !w.goal.KeepSources {
			return false
		}
	}
	for i, o := range w.ordinals {
		if i >= w.goal.Size && (o.pod || o.claim && !w.goal.KeepClaims) || i < w.goal.Size && o.outdated != Nothing {
			return false
		}
	}
	return goalServes(w) && w.replicas == w.goal.Size
}

// finish carries out what is decided, without faults, until the goal is reached. It returns why it is not; empty if it is.
func finish(w *world, guards []guard) string {
	w = w.clone()
	var done []string
	for range 80 {
		w.pass()
		d := decide(newState(w.input()), guards)
		switch d.Conclusion {
		case Finished:
			if !reached(w) {
				return fmt.Sprintf("finished too early after %s: %s", done, w)
			}
			return ""
		case Wait:
			return fmt.Sprintf("waits for %v after %s: %s", d.Blocking, done, w)
		}
		if why := unsafe(w, d.Step); why != "" {
			return fmt.Sprintf("UNSAFE %s: %+v after %s: %s", why, *d.Step, done, w)
		}
		done = append(done, fmt.Sprintf("%s %d", d.Step.Action, d.Step.Ordinal))
		w.do(d.Step)
	}
	return fmt.Sprintf("does not end: %s: %s", strings.Join(done, ", "), w)
}

// states of one ordinal in the exploration.
type ordinalState struct {
	listed, learner, up, caughtUp, told, young bool
	slot                                       slot
}

func ordinalStates(rare bool) []ordinalState {
	pod := slot{pod: true, claim: true}
	with := func(s slot, change func(*slot)) slot { change(&s); return s }
	states := []ordinalState{
		{listed: true, up: true, caughtUp: true, slot: pod},
		{listed: true, caughtUp: true, slot: pod},
		{listed: true, slot: with(pod, func(s *slot) { s.store = Free })},
		{listed: true, up: true, caughtUp: true, slot: with(pod, func(s *slot) { s.outdated = Volume })},
		{listed: true, learner: true, up: true, slot: pod},
		{listed: true, learner: true, slot: with(pod, func(s *slot) { s.store = Free })},
		{slot: with(pod, func(s *slot) { s.store = Left })},
		{slot: with(pod, func(s *slot) { s.store = Free })},
		{slot: slot{claim: true}},
		{},
	}
	if rare {
		states = append(states,
			ordinalState{listed: true, up: true, caughtUp: true, young: true, slot: pod},
			ordinalState{listed: true, up: true, caughtUp: true, told: true, slot: pod},
			ordinalState{listed: true, caughtUp: true, told: true, slot: with(pod, func(s *slot) { s.outdated = Pod })},
			ordinalState{listed: true, learner: true, up: true, caughtUp: true, told: true, slot: pod},
			ordinalState{slot: with(pod, func(s *slot) { s.store, s.outdated = Left, Volume })},
			ordinalState{slot: with(pod, func(s *slot) { s.store, s.outdated, s.terminating = Left, Volume, true })},
		)
	}
	return states
}

// worlds yields every world of so many ordinals and sources, with every leader and goal.
func worlds(ordinals, sources int, rare bool, yield func(*world)) {
	states := ordinalStates(rare)
	var fill func(w *world)
	fill = func(w *world) {
		if len(w.ordinals) == ordinals {
			withSources(w, sources, func(w *world) { withGoals(w, ordinals, yield) })
			return
		}
		for _, st := range states {
			c := w.clone()
			i := len(c.ordinals)
			c.ordinals = append(c.ordinals, st.slot)
			if st.slot.pod {
				c.replicas = i + 1
			}
			if st.listed {
				c.nextID++
				c.members = append(c.members, node{c.nextID, Ours, i, st.learner, st.up, st.young, st.caughtUp, st.told})
			}
			fill(c)
		}
	}
	fill(&world{backup: true})
}

func withSources(w *world, sources int, yield func(*world)) {
	for up := range 1 << sources {
		c := w.clone()
		for i := range sources {
			c.nextID++
			c.members = append(c.members, node{id: c.nextID, owner: Source, ordinal: i, up: up&(1<<i) != 0, caughtUp: true})
		}
		yield(c)
	}
}

func withGoals(w *world, ordinals int, yield func(*world)) {
	if learners(w) > 1 {
		return
	}
	for size := range ordinals + 1 {
		for _, goal := range []Goal{{Size: size}, {Size: size, KeepSources: true}, {Size: size, Single: true, KeepClaims: true}} {
			if size == 0 && !goal.KeepSources {
				continue // no member would be left
			}
			leaders := []uint64{0}
			for _, n := range w.members {
				if n.up && !n.learner && w.quorate() {
					leaders = append(leaders, n.id)
				}
			}
			for _, leader := range leaders {
				c := w.clone()
				c.goal, c.leader = goal, leader
				yield(c)
			}
		}
	}
}

// check returns what is wrong in a world, in the next step and until the end.
func check(w *world, guards []guard) string {
	d := decide(newState(w.input()), guards)
	if d.Conclusion == Act {
		if why := unsafe(w, d.Step); why != "" {
			return fmt.Sprintf("UNSAFE %s: %+v: %s", why, *d.Step, w)
		}
	}
	if d.Conclusion == Finished && w.quorate() && w.leader != 0 && !settlesAsReached(w) {
		return fmt.Sprintf("finished too early: %s", w)
	}
	if mayEnd(w) {
		return finish(w, guards)
	}
	return ""
}

func settlesAsReached(w *world) bool {
	c := w.clone()
	c.pass()
	return reached(c)
}

// mayEnd reports whether the goal can be reached once all that can come back has: enough voters are left for a quorum and a
// leader, and where one is to remain a person has agreed.
func mayEnd(w *world) bool {
	c := w.clone()
	for i := range c.members {
		if n := &c.members[i]; n.owner == Source {
			n.up = true
		}
	}
	c.pass()
	agreed := w.goal.Single || w.goal.Size != 1 || w.goal.KeepSources
	for _, n := range w.members {
		agreed = agreed && (n.up || n.owner == Ours) // a source that is down stays so, and blocks
	}
	return c.leader != 0 && agreed && (w.goal.Size > 0 || w.goal.KeepSources && sources(w) > 0)
}

func sources(w *world) int {
	n := 0
	for _, m := range w.members {
		if m.owner == Source {
			n++
		}
	}
	return n
}

func TestEveryWorld(t *testing.T) {
	for _, c := range []struct {
		ordinals, sources int
		rare              bool
	}{{1, 0, true}, {2, 0, true}, {3, 0, true}, {2, 1, true}, {2, 2, false}, {2, 3, false}, {4, 0, false}} {
		n, failed := 0, 0
		worlds(c.ordinals, c.sources, c.rare, func(w *world) {
			n++
			if why := check(w, guards); why != "" && failed < 5 {
				failed++
				t.Errorf("%d ordinals, %d sources: %s", c.ordinals, c.sources, why)
			}
		})
		t.Logf("%d ordinals, %d sources: %d worlds", c.ordinals, c.sources, n)
	}
}

// Random walks with faults, at most one of which a step of ours may meet; then everything comes back, and the goal is reached.
func TestWalks(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{backup: true, goal: Goal{Size: 1 + r.IntN(5), Single: true, KeepSources: r.IntN(4) == 0}}
		for i := range 1 + r.IntN(5) {
			w.nextID++
			w.ordinals = append(w.ordinals, slot{pod: true, claim: true, outdated: Outdated(r.IntN(3))})
			w.members = append(w.members, node{id: w.nextID, owner: Ours, ordinal: i, up: true, caughtUp: true})
			w.replicas++
		}
		for i := range r.IntN(4) {
			w.nextID++
			w.members = append(w.members, node{id: w.nextID, owner: Source, ordinal: i, up: true, caughtUp: true})
		}
		w.elect()
		if why := walk(w, r); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
}

func walk(w *world, r *rand.Rand) string {
	for range 40 {
		d := Decide(w.input())
		if d.Conclusion == Act {
			if why := unsafe(w, d.Step); why != "" {
				return fmt.Sprintf("UNSAFE %s: %+v: %s", why, *d.Step, w)
			}
			if r.IntN(5) > 0 { // otherwise the request was lost
				w.do(d.Step)
			}
		}
		switch n := &w.members[r.IntN(len(w.members))]; r.IntN(5) {
		case 0:
			if all, up, _ := w.voters(); n.learner || up-1 > all/2 {
				n.up = false
			}
		case 1:
			n.up = n.owner == Source || w.ordinals[n.ordinal].pod && w.ordinals[n.ordinal].store == InUse
		case 2:
			w.goal.Size = 1 + r.IntN(5)
		default:
			w.pass()
		}
		w.elect()
	}
	for i := range w.members {
		w.members[i].up = w.members[i].up || w.members[i].owner == Source
	}
	return finish(w, guards)
}

// Every guard is needed: without it, the exploration finds a broken promise.
func TestEveryGuardIsNeeded(t *testing.T) {
	for i, g := range guards {
		t.Run(string(g.name), func(t *testing.T) {
			without := append(append([]guard(nil), guards[:i]...), guards[i+1:]...)
			found := ""
			for _, c := range [][2]int{{1, 0}, {2, 0}, {1, 1}, {2, 1}, {3, 0}} {
				worlds(c[0], c[1], true, func(w *world) {
					if found == "" {
						found = check(w, without)
					}
				})
			}
			if found == "" {
				t.Skip("not found")
			}
			t.Log(found)
		})
	}
}
