// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var exploreAll = flag.Bool("explore-all", false, "explore the whole state space, which takes minutes")

// explorer judges what is decided.
type explorer struct {
	guards []guard
	// judged are the steps, and broken the promises that they broke, by invariant; stuck are worlds that do not reach their goal.
	judged int
	broken map[string][]string
	stuck  []string
}

func newExplorer(guards []guard) *explorer {
	return &explorer{guards: guards, broken: map[string][]string{}}
}

func (e *explorer) judge(w *world, step *Step) bool {
	e.judged++
	v := judge(w, step)
	if v.invariant != "" {
		e.broken[v.invariant] = append(e.broken[v.invariant], v.why)
	}
	return v.invariant == ""
}

// visit carries out what is decided in a world, without further faults, until the goal is reached.
func (e *explorer) visit(w *world) {
	if d := decide(newState(w.input()), e.guards); d.Conclusion == Act && !e.judge(w, d.Step) {
		return
	}
	if why := e.finish(w.clone()); why != "" {
		e.stuck = append(e.stuck, why)
	}
}

func (e *explorer) finish(w *world) string {
	var done []string
	waits := 0
	for range 150 {
		d := decide(newState(w.input()), e.guards)
		switch d.Conclusion {
		case Finished:
			if waits++; waits < 4 {
				break // what is not ours may still have to settle
			}
			if !reached(w) && !slices.ContainsFunc(w.members, func(n node) bool { return n.hidden }) {
				return fmt.Sprintf("finished too early after %s: %s", done, w)
			}
			return ""
		case Wait:
			if waits++; waits < 4 {
				break
			}
			if out := w.keptOut(); d.Step != nil && d.Step.Ordinal >= w.goal.Size && out != "" {
				return fmt.Sprintf("%s waits for %s %d: %v after %s: %s", out, d.Step.Action, d.Step.Ordinal, d.Blocking, done, w)
			}
			if w.waitsForOthers(d) {
				return ""
			}
			return fmt.Sprintf("waits for %v after %s: %s", d.Blocking, done, w)
		case Act:
			waits = 0
			if !e.judge(w, d.Step) {
				return ""
			}
			done = append(done, fmt.Sprintf("%s %d", d.Step.Action, d.Step.Ordinal))
			w.do(d.Step)
		}
		w.pass()
	}
	return fmt.Sprintf("does not end: %s: %s", strings.Join(done, ", "), w)
}

// waitsForOthers reports whether only something that no time and no agent brings can go on: a person, the sources' operator, or a
// quorum.
func (w *world) waitsForOthers(d Decision) bool {
	foreign := slices.ContainsFunc(w.members, func(n node) bool { return n.owner == Unknown || n.owner == Source && n.learner })
	hidden := slices.ContainsFunc(w.members, func(n node) bool { return n.hidden })
	other := slices.ContainsFunc(w.ordinals, func(s slot) bool { return s.store == Other && !s.terminating || s.foreign })
	return slices.ContainsFunc(d.Blocking, func(h Hold) bool {
		switch h.Guard {
		case GuardListKnown:
			return !w.quorate() || hidden
		case GuardGoalOdd:
			return w.finally()%2 == 0
		case GuardMembersKnown, GuardOneLearner:
			return foreign || w.twice()
		case GuardSourcesKeepQuorum:
			return w.goal.KeepSources && sources(w)*2 <= w.count()+1
		case GuardSourcesPresent:
			return w.goal.KeepSources && sources(w) < w.sources
		case GuardSingleAgreed:
			return w.finally() == 1 && !w.goal.Single
		case GuardBackedUp:
			return w.finally() == 1 && !w.backup
		case GuardDataElsewhere, GuardStoreFree:
			return other || hidden
		case GuardOthersServing, GuardMembersSettled, GuardQuorumKept:
			return w.reachable() < w.count() && w.dataLost() || hidden
		case GuardLeaderStays, GuardLearnerCaughtUp:
			return hidden
		}
		return false
	})
}

// keptOut is a member of the goal that is not listed, and whose pod waits with a free volume; empty if there is none, or if what would add
// it waits for others.
func (w *world) keptOut() string {
	if _, up, _ := w.voters(); up < w.count() || learners(w) > 0 || w.twice() || slices.ContainsFunc(w.members, func(n node) bool { return n.owner == Unknown || n.hidden }) {
		return ""
	}
	for i := range min(w.goal.Size, w.replicas) {
		if o := w.ordinals[i]; w.at(i) == nil && o.pod && o.store == Free && o.outdated == Nothing && !o.terminating && !o.ending && !o.foreign {
			return fmt.Sprintf("m%d", i)
		}
	}
	return ""
}

// dataLost reports whether a voter has lost its data.
func (w *world) dataLost() bool {
	return slices.ContainsFunc(w.members, func(n node) bool {
		return n.owner == Ours && !n.learner && !n.up && w.ordinals[n.ordinal].store == Free
	})
}

func explored(t *testing.T) *explorer {
	t.Helper()
	e := newExplorer(guards)
	for _, z := range sizes() {
		n := 0
		z.worlds(func(w *world) bool { n++; e.visit(w); return len(e.stuck) < 9 && len(e.broken) < 3 })
		t.Logf("%d ordinals, %d sources: %d worlds", z.ordinals, z.sources, n)
	}
	walks := uint64(400)
	if *exploreAll {
		walks = 100000
	}
	for seed := range walks {
		e.walk(rand.New(rand.NewPCG(seed, 1)))
	}
	t.Logf("%d steps", e.judged)
	return e
}

// No world breaks an invariant, and each reaches its goal if members come back.
func TestInvariants(t *testing.T) {
	e := explored(t)
	for _, i := range invariants {
		t.Run(i.name, func(t *testing.T) {
			for _, why := range e.broken[i.name][:min(2, len(e.broken[i.name]))] {
				t.Error(why)
			}
		})
	}
	t.Run("the goal is reached", func(t *testing.T) {
		for _, why := range e.stuck[:min(4, len(e.stuck))] {
			t.Error(why)
		}
	})
}

// Every guard is needed: without it, an invariant is broken.
func TestEveryGuardIsNeeded(t *testing.T) {
	for i, g := range guards {
		t.Run(string(g.name), func(t *testing.T) {
			e := newExplorer(append(slices.Clone(guards[:i]), guards[i+1:]...))
			e.visit(cluster(1, 0, Goal{Size: 3}).with(func(w *world) { w.readdressed = true })) // a sample seldom has it
			for _, z := range append(sizes(), size{1, 3, false, 0}) {
				z.worlds(func(w *world) bool { e.visit(w); return len(e.broken) == 0 })
				for name, why := range e.broken {
					t.Logf("%s: %s", name, why[0])
					return
				}
			}
			t.Error("no invariant is broken without it")
		})
	}
}

// walk makes faults in between the steps, requests that are lost, and goals that change; then everything comes back.
func (e *explorer) walk(r *rand.Rand) {
	w := &world{backup: true, goal: Goal{Size: 1 + 2*r.IntN(3), Single: true, KeepSources: r.IntN(4) == 0}, slow: r.IntN(2) == 0}
	for i := range 1 + r.IntN(5) {
		w.ordinals = append(w.ordinals, slot{pod: true, claim: true, outdated: Outdated(r.IntN(3))})
		w.join(Ours, i, node{up: true})
		w.replicas++
	}
	for i := range r.IntN(4) {
		w.join(Source, i, node{up: true})
		w.sources++
	}
	w.observed = w.replicas
	w.elect()
	for range 60 {
		if d := decide(newState(w.input()), e.guards); d.Conclusion == Act {
			if !e.judge(w, d.Step) {
				return
			}
			switch r.IntN(6) {
			case 0: // the request is lost
			case 1: // the answer is lost
				w.pending, w.lands = d.Step, r.IntN(2) == 0
			default:
				w.do(d.Step)
			}
		}
		w.fault(r)
	}
	if why := e.finish(w); why != "" {
		e.stuck = append(e.stuck, why)
	}
}

func (w *world) fault(r *rand.Rand) {
	switch n := &w.members[r.IntN(len(w.members))]; r.IntN(10) {
	case 0:
		if all, up, _ := w.voters(); n.learner || up-1 > all/2 {
			n.up = false
		}
	case 1:
		n.up = n.owner == Source || w.ordinals[n.ordinal].pod && w.ordinals[n.ordinal].store == InUse
		n.young = n.up
	case 2:
		w.goal.Size = 1 + 2*r.IntN(3)
	case 3:
		n.hidden = n.up
	case 4:
		if n.up && !n.learner && w.quorate() {
			w.leader = n.id
		}
	case 5:
		if r.IntN(4) == 0 {
			w.setBack()
		}
		w.pass()
	case 6:
		if i := r.IntN(len(w.ordinals)); w.at(i) == nil {
			w.ordinals[i].ending = w.ordinals[i].pod // a rollout, or a person, deletes the pod
		}
	case 7:
		w.changed() // a person, or the source's operator, changes the list
	default:
		w.pass()
	}
	w.elect()
}
