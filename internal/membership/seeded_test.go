// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"testing"
)

// Bugs that someone may make in a guard, each of which breaks the promise that it is about in some world.
func TestSeededBugs(t *testing.T) {
	for name, bug := range map[string]struct {
		guard Guard
		check func(s *state, step *Step) string
		// breaks is the beginning of the invariant that has to break.
		breaks string
	}{
		"a learner votes as soon as etcd would take it": {GuardLearnerCaughtUp, func(s *state, step *Step) string {
			if !s.member(step.Member).Serving {
				return "it does not serve"
			}
			return ""
		}, "4 "},
		"the leader is removed": {GuardLeaderStays, func(s *state, step *Step) string {
			if s.leader == nil && !s.member(step.Member).Learner {
				return "no leader is known"
			}
			return ""
		}, "6 "},
		"a member is removed while another one is down": {GuardOthersServing, func(s *state, step *Step) string {
			if step.Action == RemoveMember {
				return ""
			}
			return othersServing(s, step)
		}, "5 "},
		"a member rejoins with the data of a removed one": {GuardStoreFree, func(s *state, step *Step) string {
			if s.ordinal(step.Ordinal).Store == Left {
				return ""
			}
			return storeFree(s, step)
		}, "3 "},
		"the newcomer counts for the quorum": {GuardQuorumKept, func(s *state, step *Step) string {
			if step.Action == PromoteLearner {
				return ""
			}
			return quorumKept(s, step)
		}, "4 "},
		"the second member joins as soon as the first was told": {GuardJoinAnnounced, func(s *state, step *Step) string {
			if s.ordinal(step.Ordinal).Told {
				return ""
			}
			return joinAnnounced(s, step)
		}, "3 the only"},
		"the first leaves as soon as the second one votes": {GuardSuccessorReady, func(*state, *Step) string { return "" }, "a member leaves once"},
		"the only member is told after the second one votes": {GuardRemovalAnnounced, func(s *state, step *Step) string {
			if step.Action == PromoteLearner {
				return ""
			}
			return removalAnnounced(s, step)
		}, "10 "},
	} {
		t.Run(name, func(t *testing.T) {
			seeded := slices.Clone(guards)
			i := slices.IndexFunc(seeded, func(g guard) bool { return g.name == bug.guard })
			seeded[i].check = bug.check
			e := newExplorer(seeded)
			for _, z := range sizes() {
				z.worlds(func(w *world) bool { e.visit(w); return !e.breaks(bug.breaks) })
				if e.breaks(bug.breaks) {
					return
				}
			}
			t.Errorf("no world breaks invariant %s, but %v", bug.breaks, e.broken)
		})
	}
}

// breaks reports whether an invariant is broken, by the beginning of its name.
func (e *explorer) breaks(name string) bool {
	for broken := range e.broken {
		if len(broken) >= len(name) && broken[:len(name)] == name {
			return true
		}
	}
	return false
}
