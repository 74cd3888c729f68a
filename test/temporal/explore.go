// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package temporal

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// Step is what may happen next: an action at a slot, or what an operator does there.
type Step struct {
	// Action is the index in Actions; after these come the operators' own.
	Action, Slot uint8
	// Act and Operator are those of an operator's step.
	Act, Operator uint8
}

// What an operator does with an act.
var stages = []struct {
	name string
	do   func(m *Model, s *State, l *Slot, k int, act uint8) bool
}{
	{"decides to", (*Model).decide},
	{"records to", func(m *Model, s *State, l *Slot, k int, act uint8) bool { return l.Plan[k] == act && m.record(s, l, k) }},
	{"sends to", func(m *Model, s *State, l *Slot, k int, act uint8) bool {
		return l.Plan[k] == act && m.perform(s, l, k)
	}},
}

var verbs = [...]string{"do nothing to", "delete the pod of", "add learner", "promote", "move the leader to", "remove", "scale up to", "scale down from", "delete the claim of"}

// Name says what a step is.
func (s Step) Name() string {
	if int(s.Action) < len(Actions) {
		return Actions[s.Action].Name
	}
	return stages[int(s.Action)-len(Actions)].name
}

func (s Step) String() string {
	if s.Act == Nothing {
		return fmt.Sprintf("%s (member %d)", s.Name(), s.Slot)
	}
	return fmt.Sprintf("operator %d %s %s member %d", s.Operator, s.Name(), verbs[s.Act], s.Slot)
}

// Take makes a state the one after a step, if that is possible.
func (m *Model) Take(s, after *State, step Step) (possible bool) {
	if a := int(step.Action) - len(Actions); a == 0 && s.plans(int(step.Operator)) || a > 0 && s.Slots[step.Slot].Plan[step.Operator] != step.Act {
		return false
	}
	*after = *s
	l := &after.Slots[step.Slot]
	if a := int(step.Action); a >= len(Actions) {
		possible = stages[a-len(Actions)].do(m, after, l, int(step.Operator), step.Act)
	} else if fault := Actions[a].Fault; !fault || s.Faults > 0 {
		if fault {
			after.Faults--
		}
		possible = Actions[a].Do(m, after, l)
	}
	if !possible {
		return false
	}
	for i := range after.Slots[:after.N] {
		if l := &after.Slots[i]; l.Leads && (!after.votes(l) || !after.quorate()) {
			l.Leads = false // it steps down
		}
	}
	if after.leaderKnown() {
		after.Leaderless = 0
	}
	return *after != *s
}

func (s *State) plans(k int) bool {
	return s.count(func(l *Slot) bool { return l.Plan[k] != Nothing }) > 0
}

// Steps are all that there may be in a state of so many slots.
func (m *Model) Steps(n uint8) (all []Step) {
	for a := range Actions {
		for i := range n {
			all = append(all, Step{Action: uint8(a), Slot: i}) //nolint:gosec // few
		}
	}
	for stage := range stages {
		for act := DeletePod; act <= DeleteClaim; act++ {
			for i := range n {
				for k := range m.Operators {
					all = append(all, Step{Action: uint8(len(Actions) + stage), Slot: i, Act: act, Operator: uint8(k)}) //nolint:gosec // few
				}
			}
		}
	}
	return all
}

var seed = maphash.MakeSeed()

// hash is the same for states that differ only in which member is which.
func (s *State) hash() uint64 {
	rest := *s
	rest.Slots = [Most]Slot{}
	sum := maphash.Comparable(seed, rest)
	for i := range s.Slots[:s.N] {
		sum += maphash.Comparable(seed, s.Slots[i])
	}
	return sum
}

// Result is what an exploration has found.
type Result struct {
	States, Depth int
	// Complete: there are no further states.
	Complete bool
	// Broken is the invariant that is broken, if any, and Trace the shortest way there.
	Broken string
	Trace  []Step
	// Taken counts the steps that were taken, by name.
	Taken map[string]int
}

type visit struct {
	from uint32
	step Step
}

// Explore visits all states that can be reached from one, breadth first, up to a number of them and a depth.
func (m *Model) Explore(start State, most, deepest int) (r Result) {
	seen, visits, steps := map[uint64]struct{}{start.hash(): {}}, []visit{{}}, m.Steps(start.N)
	taken := make([]int, len(Actions)+len(stages))
	type reached struct {
		State
		at uint32
	}
	level, after := []reached{{start, 0}}, State{}
	defer func() {
		r.States, r.Taken = len(visits), map[string]int{}
		for a, n := range taken {
			r.Taken[Step{Action: uint8(a)}.Name()] += n //nolint:gosec // few
		}
	}()
	for ; len(level) > 0; r.Depth++ {
		var next []reached
		for at := range level {
			for _, step := range steps {
				if !m.Take(&level[at].State, &after, step) {
					continue
				}
				if r.Broken = Broken(&level[at].State, &after, step); r.Broken != "" {
					r.Trace = append(trace(visits, level[at].at), step)
					return r
				}
				h := after.hash()
				if _, was := seen[h]; was {
					continue
				}
				taken[step.Action]++
				seen[h] = struct{}{}
				visits = append(visits, visit{level[at].at, step})
				next = append(next, reached{after, uint32(len(visits) - 1)}) //nolint:gosec // bounded
			}
			if len(visits) >= most {
				return r
			}
		}
		if level = next; r.Depth+1 >= deepest && len(next) > 0 {
			return r
		}
	}
	r.Complete = true
	return r
}

func trace(visits []visit, at uint32) (steps []Step) {
	for ; at != 0; at = visits[at].from {
		steps = append(steps, visits[at].step)
	}
	slices.Reverse(steps)
	return steps
}
