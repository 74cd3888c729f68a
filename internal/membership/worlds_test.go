// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import "math/rand/v2"

// ordinalState is what there may be at one ordinal.
type ordinalState struct {
	listed bool
	node   node
	slot   slot
}

// common are the states that ordinals have in combination with each other and with everything else; rare those that come on top
// with few ordinals.
func states(rare bool) []ordinalState {
	pod := slot{pod: true, claim: true}
	with := func(change func(*slot)) slot { s := pod; change(&s); return s }
	all := []ordinalState{
		{listed: true, node: node{up: true}, slot: pod},
		{listed: true, slot: pod},
		{listed: true, node: node{lags: true}, slot: with(func(s *slot) { s.store = Free })},
		{listed: true, node: node{up: true}, slot: with(func(s *slot) { s.outdated = Volume })},
		{listed: true, node: node{learner: true, up: true, lags: true}, slot: pod},
		{slot: with(func(s *slot) { s.store = Left })},
		{slot: with(func(s *slot) { s.store = Free })},
		{},
	}
	if !rare {
		return all
	}
	return append(all,
		ordinalState{listed: true, node: node{up: true, told: true, confirmed: true}, slot: pod},
		ordinalState{listed: true, node: node{told: true}, slot: with(func(s *slot) { s.outdated = Pod })},
		ordinalState{listed: true, node: node{up: true, told: true}, slot: with(func(s *slot) { s.outdated = Volume })},
		ordinalState{listed: true, node: node{learner: true, up: true, told: true}, slot: pod},
		ordinalState{listed: true, node: node{learner: true, up: true}, slot: pod},
		ordinalState{listed: true, node: node{learner: true, up: true}, slot: with(func(s *slot) { s.outdated = Pod })},
		ordinalState{listed: true, node: node{learner: true, lags: true}, slot: with(func(s *slot) { s.store = Free })},
		ordinalState{listed: true, node: node{learner: true, lags: true, stale: true}, slot: with(func(s *slot) { s.store = Free })},
		ordinalState{slot: pod},
		ordinalState{slot: slot{claim: true}},
		ordinalState{slot: with(func(s *slot) { s.store, s.outdated = Left, Volume })},
		ordinalState{slot: with(func(s *slot) { s.store, s.outdated, s.terminating = Left, Volume, true })},
		ordinalState{slot: with(func(s *slot) { s.store, s.terminating = Free, true })},
		ordinalState{slot: with(func(s *slot) { s.store, s.ending = Free, true })},
		ordinalState{slot: with(func(s *slot) { s.store = Other })},
		ordinalState{slot: with(func(s *slot) { s.store, s.terminating = Other, true })},
		ordinalState{slot: slot{claim: true, temporary: true}},
		ordinalState{slot: slot{claim: true, foreign: true}},
		ordinalState{listed: true, node: node{up: true}, slot: with(func(s *slot) { s.temporary = true })},
		ordinalState{listed: true, node: node{learner: true, up: true, lags: true}, slot: with(func(s *slot) { s.temporary = true })},
	)
}

// size of a part of the exploration.
type size struct {
	ordinals, sources int
	rare              bool
	// sample is how many worlds are drawn; 0: every world is explored.
	sample int
}

// sizes are explored by default in about a second, and whole in many minutes.
func sizes() []size {
	quick := []size{{1, 0, true, 500}, {2, 0, true, 1000}, {3, 0, true, 1500}, {1, 1, true, 500}, {2, 1, true, 700}, {2, 2, true, 700}, {2, 3, true, 700}, {3, 3, true, 700}, {4, 0, true, 700}, {5, 0, true, 700}}
	if *exploreAll {
		return []size{
			{1, 0, true, 0}, {2, 0, true, 0}, {1, 1, true, 0}, {2, 1, true, 0}, {2, 2, false, 0}, {2, 3, false, 0}, {3, 0, false, 0},
			{3, 3, true, 300000}, {4, 0, true, 300000}, {5, 0, true, 300000}, {5, 3, true, 300000},
			{3, 0, true, 0}, {4, 0, false, 0},
		}
	}
	return quick
}

// choose calls next with each of n numbers, or with one that is drawn.
type choose func(n int, next func(int))

func each(n int, next func(int)) {
	for i := range n {
		next(i)
	}
}

func drawn(r *rand.Rand) choose { return func(n int, next func(int)) { next(r.IntN(n)) } }

// worlds yields worlds of so many ordinals and sources, with leaders, goals and circumstances, until yield returns false.
func (z size) worlds(yield func(*world) bool) {
	done := false
	stop := func(w *world) { done = done || !yield(w) }
	if z.sample == 0 {
		z.fill(&world{backup: true}, each, &done, stop)
		return
	}
	r := rand.New(rand.NewPCG(uint64(z.ordinals), uint64(z.sources)))
	for range z.sample {
		z.fill(&world{backup: true}, drawn(r), &done, stop)
	}
}

func (z size) fill(w *world, pick choose, done *bool, yield func(*world)) {
	all := states(z.rare)
	switch {
	case *done:
	case len(w.ordinals) < z.ordinals:
		pick(len(all), func(i int) {
			c := w.clone()
			c.ordinals = append(c.ordinals, all[i].slot)
			if all[i].slot.pod {
				c.replicas = len(c.ordinals)
			}
			if all[i].listed {
				c.join(Ours, len(c.ordinals)-1, all[i].node)
			}
			z.fill(c, pick, done, yield)
		})
	case learners(w) < 2:
		pick(1<<z.sources, func(up int) {
			c := w.clone()
			for i := range z.sources {
				c.join(Source, i, node{up: up&(1<<i) != 0})
			}
			c.sources, c.observed = z.sources, c.replicas
			c.withGoals(pick, yield)
		})
	}
}

func (w *world) join(owner Owner, ordinal int, n node) {
	w.nextID++
	n.id, n.owner, n.ordinal = w.nextID, owner, ordinal
	w.members = append(w.members, n)
}

func (w *world) withGoals(pick choose, yield func(*world)) {
	leaders := []uint64{0}
	for _, n := range w.members {
		if n.up && !n.learner && w.quorate() {
			leaders = append(leaders, n.id)
		}
	}
	circumstances := w.circumstances()
	pick(len(w.ordinals)+1, func(size int) {
		pick(3, func(kind int) {
			pick(len(leaders), func(leader int) {
				pick(len(circumstances), func(i int) {
					c := w.clone()
					c.goal = []Goal{{Size: size}, {Size: size, KeepSources: true}, {Size: size, Single: true, KeepClaims: true}}[kind]
					c.leader = leaders[leader]
					circumstances[i](c)
					yield(c)
				})
			})
		})
	})
}

// circumstances leave a world as it is, or make one thing that is out of the ordinary.
func (w *world) circumstances() []func(*world) {
	all := []func(*world){
		func(*world) {},
		func(w *world) { w.backup = false },
		func(w *world) { w.acting = true },
		func(w *world) { w.readdressed = true },
		func(w *world) { w.old = true },
		func(w *world) { w.slow = true },
		func(w *world) { w.observed++ },
		func(w *world) { w.sources++ },
		func(w *world) { w.overrides = everyGuard() },
		func(w *world) { w.overrides, w.backup = everyGuard(), false },
		func(w *world) { w.join(Unknown, 7, node{up: true}) },
		func(w *world) { w.join(Unknown, 7, node{}) },
		func(w *world) { w.join(Ours, 0, node{up: true}) },
	}
	if learners(w) == 0 {
		all = append(all,
			func(w *world) { w.join(Unknown, 7, node{learner: true, up: true}) },
			func(w *world) { w.join(Source, 7, node{learner: true, up: true}) })
	}
	for i := range w.ordinals {
		all = append(all, func(w *world) { w.pending = w.lost(i) }, func(w *world) { w.pending, w.lands = w.lost(i), true })
	}
	for i, n := range w.members {
		if !n.up {
			all = append(all, func(w *world) { w.members[i].long = true })
			continue
		}
		all = append(all,
			func(w *world) { w.members[i].young = true },
			func(w *world) { w.members[i].fresh = 1 },
			func(w *world) { w.members[i].lags = true },
			func(w *world) { w.members[i].hidden = true },
			func(w *world) { w.members[i].hidden, w.members[i].long = true, true },
			func(w *world) { w.members[i].hidden, w.members[i].long, w.blind = true, true, true })
	}
	return all
}

// everyGuard is what a person may try to override: not every guard lets them.
func everyGuard() []Guard {
	var all []Guard
	for _, g := range guards {
		all = append(all, g.name)
	}
	return all
}

// lost is a request about an ordinal whose answer was lost.
func (w *world) lost(i int) *Step {
	switch n := w.at(i); {
	case n == nil:
		return &Step{Action: AddLearner, Ordinal: i}
	case n.learner:
		return &Step{Action: PromoteLearner, Ordinal: i, Member: n.id}
	default:
		return &Step{Action: RemoveMember, Ordinal: i, Member: n.id}
	}
}
