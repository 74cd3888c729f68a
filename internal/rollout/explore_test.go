// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
)

// enumerate calls visit with every combination of the states of n members, or if sorted, only with those in ascending
// order: Decide distinguishes members in the same state only by their ordinal.
func enumerate(n int, states []member, sorted bool, visit func([]member)) {
	members := make([]member, n)
	var fill func(i, from int)
	fill = func(i, from int) {
		if i == n {
			visit(members)
			return
		}
		for k := from; k < len(states); k++ {
			members[i] = states[k]
			next := 0
			if sorted {
				next = k
			}
			fill(i+1, next)
		}
	}
	fill(0, 0)
}

func allStates() []member {
	states := make([]member, 0, memberStates)
	for m := range memberStates {
		states = append(states, m)
	}
	return states
}

// size is one part of the exploration.
type size struct {
	members int
	states  []member
	sorted  bool
	// memory: with every combination of what the task's status may record and what may be stale.
	memory bool
	// inPlace: with every update in place, and every phase of it. With memory they are there, too.
	inPlace bool
}

// fewer are the states without the rarest, for sizes that would take too long with all states.
var fewer = []member{missing, terminating, deadOld, readyOld, frozenOld, deadNew, readyNew, frozenNew, frozenReadyNew}

// quick takes less than a second.
var quick = []size{
	{members: 1, states: allStates(), memory: true},
	{members: 2, states: allStates(), sorted: true, memory: true},
	{members: 3, states: allStates(), sorted: true},
	{members: 3, states: fewer, sorted: true, memory: true},
	{members: 5, states: fewer, sorted: true},
}

// whole takes minutes: every state of 1 to 5 members, each member at each ordinal, and 7 up to symmetry.
var whole = []size{
	{members: 1, states: allStates(), memory: true},
	{members: 2, states: allStates(), memory: true},
	{members: 3, states: allStates(), memory: true},
	{members: 4, states: allStates()},
	{members: 4, states: allStates(), sorted: true, memory: true},
	{members: 5, states: allStates()},
	{members: 5, states: allStates(), sorted: true, memory: true},
	{members: 7, states: allStates(), sorted: true},
}

var exploreAll = flag.Bool("explore-all", false, "explore the whole state space, which takes minutes")

// worlds calls visit with every world of a size. It reuses the world between calls.
func (z size) worlds(visit func(*world)) {
	enumerate(z.members, z.states, z.sorted, func(members []member) {
		w := &world{members: members}
		for leader := -1; leader < z.members; leader++ {
			for _, stale := range []bool{false, true} {
				for _, lasted := range []bool{false, true} {
					w.leader, w.stale, w.lasted = leader, stale, lasted
					z.variants(w, visit)
				}
			}
		}
	})
}

func (z size) variants(w *world, visit func(*world)) {
	plain := func() {
		w.intent, w.short, w.recent, w.changed, w.surplus, w.unobserved, w.cutOff, w.hidden, w.nodesLost, w.unmarked = -1, false, false, false, false, false, false, false, false, false
		w.kind, w.phase = replaced, [7]phase{}
		w.foreignUp, w.foreignDown, w.handovers, w.handoverRecent, w.upgrade = 0, 0, 0, false, samePatch
		w.surges = false
		w.cordoned, w.unsteady, w.stranded, w.lost, w.young, w.behind, w.lying, w.toPromote = [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}
	}
	try := func() {
		if w.coherent() {
			visit(w)
		}
	}
	plain()
	try()
	if z.memory || z.inPlace {
		z.updates(w, plain, try)
	}
	if !z.memory {
		return
	}
	z.circumstances(w, plain, try)
	if z.members < 3 || *exploreAll {
		// What holds for a removal also holds for a restart in place, once the pod is marked.
		z.circumstances(w, func() {
			plain()
			w.kind = restarted
			for i, m := range w.members {
				if m.present() && !m.updated() {
					w.phase[i] = marked
				}
			}
		}, try)
	}
	z.lost(w, plain, try)
	for i := range w.members {
		for variant := range 8 {
			plain()
			w.intent, w.recent, w.changed, w.short = i, variant&1 > 0, variant&2 > 0, variant&4 > 0
			try()
		}
	}
}

// circumstances are the variants in which something is out of the ordinary.
func (z size) circumstances(w *world, plain, try func()) {
	for _, set := range []func(){
		func() { w.surplus = true },
		func() { w.unobserved = true },
		func() { w.cutOff = true },
		func() { w.hidden = true },
		func() { w.hidden, w.nodesLost = true, true },
		func() { w.foreignUp = 1 },
		func() { w.foreignDown = 1 },
		func() { w.handovers = 1 },
		func() { w.handovers, w.handoverRecent = 1, true },
		func() { w.handovers = maxHandoverAttempts },
		func() { w.upgrade = skipsMinor },
		func() { w.upgrade = unsaved },
		func() { w.upgrade = saving },
		func() { w.upgrade = blind },
		func() { w.surges = z.members <= 2 },
	} {
		plain()
		set()
		try()
	}
	for i := range w.members {
		for _, set := range []*[7]bool{&w.cordoned, &w.unsteady, &w.stranded, &w.young, &w.behind, &w.lying, &w.toPromote} {
			plain()
			set[i] = true
			try()
		}
	}
}

// lost are the variants in which nodes are lost, one or all that may be, and what the kubelets reported last is not true; with a
// leader that the operator knows, or does not.
func (z size) lost(w *world, plain, try func()) {
	for _, hidden := range []bool{false, true} {
		for only := -1; only < z.members; only++ {
			plain()
			w.hidden = hidden
			for i, m := range w.members {
				w.lost[i] = only == i || only < 0 && m.mayBeLost()
			}
			if w.lost == [7]bool{} {
				continue
			}
			try()
			if w.unmarked = !hidden; w.unmarked {
				try()
			}
		}
	}
}

// updates are the variants in which pods are updated in place.
func (z size) updates(w *world, plain, try func()) {
	for _, k := range []kind{raised, restarted, lowered} {
		plain()
		w.kind = k
		try()
		for i := range w.members {
			for _, p := range []phase{marked, written, carried} {
				if k == lowered && p != carried {
					// As far as that, it is like a restart.
					continue
				}
				plain()
				w.kind, w.phase[i] = k, p
				try()
			}
			if k == restarted {
				plain()
				w.kind, w.intent = k, i
				try()
				w.changed = true
				try()
			}
		}
	}
}

// violations explores every world of the sizes and stops at the first few broken promises.
func (p policy) violations(sizes []size, config Config, distort func(*inplace.Assessment)) []string {
	const enough = 3
	var found []string
	now := epoch.Add(24 * time.Hour)
	for _, z := range sizes {
		z.worlds(func(w *world) {
			if len(found) >= enough {
				return
			}
			w.distort = distort
			d := p.decide(newState(w.input(now, config), now))
			for _, fault := range w.faults(d, config) {
				found = append(found, fmt.Sprintf("%s: %+v -> %s %+v", fault, *w, d.Conclusion, d.Step))
			}
			voters := z.members + w.foreignUp
			canSpareOne := quorum.Exists(voters-1, voters) || w.foreignUp == 0
			if len(found) == 0 && !w.lasted && w.upgrade != skipsMinor && canSpareOne && (w.intent < 0 || z.members < 3) {
				if fault := p.liveness(w, config, now); fault != "" {
					found = append(found, fault)
				}
			}
		})
	}
	return found
}

// liveness advances a world in which replaced pods return, and expects the rollout to finish.
func (p policy) liveness(from *world, config Config, now time.Time) string {
	w := *from
	w.members = slices.Clone(from.members)
	rounds := 12*len(w.members) + 12
	for range rounds {
		d := p.decide(newState(w.input(now, config), now))
		if d.Conclusion == Finished {
			return ""
		}
		if d.Step != nil {
			w.apply(d.Step)
		} else {
			w.recover()
		}
		now = now.Add(time.Minute)
	}
	return fmt.Sprintf("does not finish in %d rounds: %+v, now %+v", rounds, *from, w)
}

// apply carries out a step.
func (w *world) apply(step *Step) {
	switch step.Action {
	case MoveLeader:
		w.leader, w.handovers = step.Successor, 0
	case DeletePod, EvictPod:
		for _, i := range step.Ordinals {
			w.toPromote[i] = w.learner(i)
			w.members[i], w.phase[i], w.lost[i] = missing, untouched, false
			w.generation[i]++
			if w.leader == i {
				w.leader = -1
			}
		}
		w.intent, w.lasted = -1, false
	case PatchMetadata, ResizePod, UpdateContainer:
		w.write(step)
	case RevokeDeletion:
		w.changed = true
	case TakeSnapshot:
		w.upgrade = saving
	}
	w.elect()
}

// write carries out a write to a pod. A deletion that was recorded for it can no longer come.
func (w *world) write(step *Step) {
	i := step.Ordinals[0]
	if w.intent == i {
		w.intent = -1
	}
	w.lasted = false
	switch {
	case step.Write.Final:
		w.members[i], w.phase[i] = w.members[i]-deadOld+deadNew, untouched
	case w.phase[i] == untouched:
		w.phase[i] = marked
	default:
		w.phase[i] = written
		if w.kind == restarted {
			w.members[i] = runningOld
			if w.leader == i {
				w.leader = -1
			}
		}
	}
}

// recover advances time: removed pods return at the new revision, new pods become healthy, the kubelet updates its status,
// a leader is elected. Old pods stay unhealthy.
func (w *world) recover() {
	w.surplus, w.unobserved, w.stale, w.recent, w.handoverRecent, w.foreignDown = false, false, false, false, false, 0
	w.lasted = true
	if w.upgrade == saving {
		w.upgrade = samePatch
	}
	w.unsteady, w.stranded, w.young, w.behind, w.lying = [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}, [7]bool{}
	w.restoreNodes()
	for i, m := range w.members {
		if w.surges && m == readyOld && w.participating(i) {
			// The change of members has replaced it, or removed it for good.
			w.members[i], w.phase[i], w.generation[i] = readyNew, untouched, w.generation[i]+1
			continue
		}
		if w.phase[i] == written {
			w.phase[i] = carried
		}
		if w.toPromote[i] && m != deadOld && m != startingOld {
			w.members[i], w.toPromote[i] = learnerNew, false
			continue
		}
		switch m {
		case terminating:
			w.members[i] = missing
		case missing:
			w.members[i] = startingNew
		case deadNew, startingNew, frozenNew, learnerNew, frozenReadyNew:
			w.members[i] = runningNew
		case deadOld, startingOld, frozenOld:
			if w.phase[i] >= written {
				// It is what a new pod would be.
				w.members[i] = runningOld
			}
		case frozenReadyOld:
			w.members[i] = frozenOld
		case learnerOld:
			w.members[i] = runningOld
		case runningOld, runningNew:
			if w.leader >= 0 {
				w.members[i]++
			}
		case readyOld, readyNew:
			if w.leader < 0 && !w.hasQuorum() {
				w.members[i]--
			}
		}
	}
	w.elect()
}

// restoreNodes has kubelets of lost nodes report what is true: the members run.
func (w *world) restoreNodes() {
	for i, m := range w.members {
		switch {
		case !w.lost[i] || m == terminating:
		case m.updated():
			w.members[i] = runningNew
		default:
			w.members[i] = runningOld
		}
	}
	w.lost = [7]bool{}
}

func (w *world) elect() {
	if w.leader >= 0 && (!w.votes(w.leader) || !w.hasQuorum()) {
		w.leader = -1
	}
	for i, m := range w.members {
		if w.leader < 0 && w.hasQuorum() && w.votes(i) && m != terminating {
			w.leader, w.lasted, w.behind[i] = i, false, false
		}
	}
}

func TestExploration(t *testing.T) {
	sizes := quick
	if *exploreAll {
		sizes = whole
	}
	for _, z := range sizes {
		t.Run(fmt.Sprintf("%d members of %d states", z.members, len(z.states)), func(t *testing.T) {
			t.Parallel()
			visited := 0
			z.worlds(func(*world) { visited++ })
			t.Logf("%d worlds", visited)
			for _, v := range standard.violations([]size{z}, DefaultConfig(), nil) {
				t.Error(v)
			}
		})
	}
}

// Each mutant is the standard policy with one part broken. The exploration must detect every mutant; otherwise that part
// would be unneeded or untested.
func TestExplorationDetectsMutants(t *testing.T) {
	without := func(names ...v1alpha1.GuardName) policy {
		drop := func(guards []guard) []guard {
			return slices.DeleteFunc(slices.Clone(guards), func(g guard) bool { return slices.Contains(names, g.name) })
		}
		return policy{guards: drop(standard.guards), precedes: standard.precedes, period: standard.period}
	}
	with := func(name v1alpha1.GuardName, check func(*state, *Step) *Hold) policy {
		p := without()
		for i := range p.guards {
			if p.guards[i].name == name {
				p.guards[i].check = check
			}
		}
		return p
	}
	ordered := func(precedes func(s *state, a, b int) int) policy {
		return policy{guards: standard.guards, precedes: precedes, period: standard.period}
	}
	granting := func(period func(o *cluster.Ordinal, short time.Duration, cutOff bool) (time.Duration, string)) policy {
		p := without()
		p.period = period
		return p
	}
	hold := &Hold{Guard: "mutant"}
	mutants := map[string]policy{
		"acts on an old revision":            without(v1alpha1.GuardRevisionObserved),
		"does not wait for its own deletion": without(v1alpha1.GuardDeletionObserved),
		"skips minor versions":               without(v1alpha1.GuardVersionsCompatible),
		"asks for a snapshot twice":          without(v1alpha1.GuardSnapshotTaken),
		"does not wait for the canary": with(v1alpha1.GuardVersionsCompatible, func(s *state, step *Step) *Hold {
			if target, canary := targetVersion(s.Snapshot, s.outdated); target == "" && canary != "" {
				return nil
			}
			return versionsCompatible(s, step)
		}),
		"does not wait for the kubelet": without(v1alpha1.GuardUpdateObserved),
		"restarts etcd in place while others are down": with(v1alpha1.GuardOthersParticipating, func(s *state, step *Step) *Hold {
			if step.Write != nil && step.disrupts {
				return nil
			}
			return othersParticipating(s, step)
		}),
		"spreads a template that may be bad": with(v1alpha1.GuardOthersParticipating, func(s *state, step *Step) *Hold {
			if step.isHarmless() {
				return nil
			}
			return othersParticipating(s, step)
		}),
		"forgets pods on their way": ordered(func(s *state, a, b int) int {
			return cmp.Or(compareHealth(s.ordinal(a), s.ordinal(b), false, false), cmp.Compare(b, a))
		}),
		"takes the only member that another one is to relieve": without(v1alpha1.GuardMemberRelieved),
		"disturbs learners":                     without(v1alpha1.GuardLearnerPromoted),
		"does not wait for updated pods":        without(v1alpha1.GuardOthersParticipating),
		"does not count voters":                 without(v1alpha1.GuardQuorumKept),
		"treats every unready pod as unhealthy": without(v1alpha1.GuardUnreadyConfirmed),
		"offers leadership without waiting":     without(v1alpha1.GuardHandoverObserved),
		"does not wait for those that serve":    without(v1alpha1.GuardOthersServing),
		"treats an election as a lost quorum":   without(v1alpha1.GuardQuorumLossConfirmed),
		"strands members":                       without(v1alpha1.GuardVolumeReachable),
		"ignores nodes":                         without(v1alpha1.GuardNodesStable),
		"ignores evictions": with(v1alpha1.GuardNodesStable, func(s *state, step *Step) *Hold {
			for i, o := range s.Snapshot.Ordinals {
				if i != step.Ordinals[0] && o.Serving && o.Pod.Node.Trouble != "" {
					return hold
				}
			}
			return nil
		}),
		"ignores cordoned nodes": ordered(func(s *state, a, b int) int {
			x, y := *s.Snapshot.Ordinals[a].Pod, *s.Snapshot.Ordinals[b].Pod
			if x.VolumeTrouble == "" && y.VolumeTrouble == "" && s.Snapshot.Ordinals[a].Role == s.Snapshot.Ordinals[b].Role && x.Node.Cordoned != y.Node.Cordoned {
				return cmp.Or(cmp.Compare(classOrder(s.Snapshot.Ordinals[a].Class), classOrder(s.Snapshot.Ordinals[b].Class)), b-a)
			}
			return precedes(s, a, b)
		}),
		"waits only for existing pods (DEP-07)": with(v1alpha1.GuardOthersParticipating, func(s *state, step *Step) *Hold {
			for i, o := range s.Snapshot.Ordinals {
				if i != step.Ordinals[0] && o.Pod != nil && o.Class != v1alpha1.ClassTerminating && o.Class != v1alpha1.ClassParticipating && s.ordinal(step.Ordinals[0]).Class == v1alpha1.ClassParticipating {
					return hold
				}
			}
			return nil
		}),
		"waits only for existing updated pods": with(v1alpha1.GuardOthersParticipating, func(s *state, step *Step) *Hold {
			for i, o := range s.Snapshot.Ordinals {
				if i != step.Ordinals[0] && o.Pod != nil && !s.outdated(i) && o.Class != v1alpha1.ClassParticipating && s.ordinal(step.Ordinals[0]).Class == v1alpha1.ClassParticipating {
					return hold
				}
			}
			return nil
		}),
		"moves leadership while members are down": with(v1alpha1.GuardOthersServing, func(s *state, step *Step) *Hold {
			if step.Action == MoveLeader {
				return nil
			}
			return othersServing(s, step)
		}),
		"treats a minority as a quorum": with(v1alpha1.GuardQuorumKept, func(s *state, step *Step) *Hold {
			if len(s.Snapshot.Cluster.Voters) > 2 && s.Snapshot.ServingVotersWithout(step.Ordinals[0]) < s.Snapshot.Quorum()-1 {
				return hold
			}
			return nil
		}),
		"counts replicas as voters": with(v1alpha1.GuardQuorumKept, func(s *state, step *Step) *Hold {
			if s.Snapshot.Replicas() > 2 && s.Snapshot.ServingVotersWithout(step.Ordinals[0]) < s.Snapshot.Replicas()/2+1 && s.Snapshot.Cluster.LeaderKnown {
				return hold
			}
			return nil
		}),
		"ignores the effect of the step": with(v1alpha1.GuardQuorumKept, func(s *state, step *Step) *Hold {
			if s.Snapshot.Replicas() > 2 && s.Snapshot.Cluster.LeaderKnown && !s.Snapshot.HasQuorum() {
				return hold
			}
			return nil
		}),
		"keeps a quorum even if there is none": with(v1alpha1.GuardQuorumKept, func(s *state, step *Step) *Hold {
			if o := s.ordinal(step.Ordinals[0]); o.Class == v1alpha1.ClassUnready && s.Snapshot.ServingVotersWithout(step.Ordinals[0]) < s.Snapshot.Quorum() {
				return hold
			}
			return nil
		}),
		"removes one member after another after quorum loss": with(v1alpha1.GuardQuorumLossConfirmed, func(s *state, step *Step) *Hold {
			if !s.Snapshot.Cluster.LeaderKnown && s.ordinal(step.Ordinals[0]).MayRun() && !lasting.Since(s.Timers.LeaderlessSince, s.now, s.Config.Grace()) {
				return hold
			}
			return nil
		}),
		"treats unreachable members as quorum loss": with(v1alpha1.GuardQuorumLossConfirmed, func(s *state, step *Step) *Hold {
			if _, quorate := s.Snapshot.Unreachable(); !s.Snapshot.Cluster.LeaderKnown && quorate {
				return nil
			}
			return quorumLossConfirmed(s, step)
		}),
		"never gives up on a lost quorum": with(v1alpha1.GuardQuorumLossConfirmed, func(s *state, step *Step) *Hold {
			if !s.Snapshot.Cluster.LeaderKnown && s.ordinal(step.Ordinals[0]).MayRun() {
				return hold
			}
			return nil
		}),
		"waits forever for its own deletion": with(v1alpha1.GuardDeletionObserved, func(s *state, step *Step) *Hold {
			if len(s.Recorded.Pods) > 0 {
				return hold
			}
			return nil
		}),
		"goes by ordinal, as RollingUpdate does": ordered(func(_ *state, a, b int) int { return b - a }),
		"removes the leader first": ordered(func(s *state, a, b int) int {
			if r := roleOrder(s.Snapshot.Ordinals[b].Role) - roleOrder(s.Snapshot.Ordinals[a].Role); r != 0 && s.Snapshot.Ordinals[a].Class == s.Snapshot.Ordinals[b].Class {
				return r
			}
			return precedes(s, a, b)
		}),
		"removes healthy members first": ordered(func(s *state, a, b int) int { return precedes(s, b, a) }),
		"waits for the dead":            granting(func(*cluster.Ordinal, time.Duration, bool) (time.Duration, string) { return 0, "" }),
		"hurries every pod": granting(func(_ *cluster.Ordinal, short time.Duration, _ bool) (time.Duration, string) {
			return short, "mutant"
		}),
		"hurries unready members": granting(func(o *cluster.Ordinal, short time.Duration, cutOff bool) (time.Duration, string) {
			if o.Class == v1alpha1.ClassUnready && o.Serving {
				return short, "mutant"
			}
			return gracePeriod(o, short, cutOff)
		}),
		"hurries members that it cannot reach": granting(func(o *cluster.Ordinal, short time.Duration, _ bool) (time.Duration, string) {
			return gracePeriod(o, short, false)
		}),
		"removes unready before starting members": ordered(func(s *state, a, b int) int {
			rank := func(i int) int { return classOrder(s.Snapshot.Ordinals[i].Class) ^ 3 }
			return rank(a) - rank(b)
		}),
	}
	// Before ADR 46, what was dead or starting by the last report of a lost node was down.
	believing := func(name v1alpha1.GuardName, check func(*state, *Step) *Hold) policy {
		return with(name, func(s *state, step *Step) *Hold {
			if c := s.ordinal(step.Ordinals[0]).Class; c == v1alpha1.ClassDead || c == v1alpha1.ClassStarting {
				return nil
			}
			return check(s, step)
		})
	}
	mutants["believes lost nodes"] = believing(v1alpha1.GuardQuorumKept, quorumKept)
	mutants["believes reports that a leader contradicts"] = with(v1alpha1.GuardQuorumKept, func(s *state, step *Step) *Hold {
		if !s.ordinal(step.Ordinals[0]).MayRun() {
			return nil
		}
		return quorumKept(s, step)
	})
	mutants["believes lost nodes without a leader"] = believing(v1alpha1.GuardQuorumLossConfirmed, quorumLossConfirmed)
	// But for updates in place, every guard is complete.
	unlessInPlace := func(name v1alpha1.GuardName, check func(*state, *Step) *Hold) policy {
		return with(name, func(s *state, step *Step) *Hold {
			if step.Write != nil {
				return nil
			}
			return check(s, step)
		})
	}
	mutants["restarts etcd in place although its volume is unreachable"] = unlessInPlace(v1alpha1.GuardVolumeReachable, volumeReachable)
	mutants["restarts etcd in place while nodes are in trouble"] = unlessInPlace(v1alpha1.GuardNodesStable, nodesStable)
	mutants["restarts etcd in place at an incompatible version"] = unlessInPlace(v1alpha1.GuardVersionsCompatible, versionsCompatible)
	mutants["restarts etcd in place and does not count voters"] = unlessInPlace(v1alpha1.GuardQuorumKept, quorumKept)
	for name, mutant := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectDetected(t, mutant, nil)
		})
	}
}

func expectDetected(t *testing.T, mutant policy, distort func(*inplace.Assessment)) {
	t.Helper()
	found := mutant.violations([]size{quick[0], quick[1], quick[3]}, DefaultConfig(), distort)
	if len(found) == 0 {
		// In a cluster of three, QuorumKept compensates for some mutants.
		found = mutant.violations(quick[4:], DefaultConfig(), distort)
	}
	if len(found) == 0 {
		t.Fatal("the exploration does not detect the mutant")
	}
	t.Log(found[0])
}

// Everything that package inplace says of a pod matters to the decision.
func TestExplorationDetectsMutantsOfInPlace(t *testing.T) {
	for name, distort := range map[string]func(*inplace.Assessment){
		"takes a restart for harmless": func(a *inplace.Assessment) {
			a.Writes = slices.Clone(a.Writes)
			for i := range a.Writes {
				a.Writes[i].Disrupts = false
			}
		},
		"does not wait until lowered resources have settled": func(a *inplace.Assessment) { a.Settle = 0 },
		"disturbs others while one is about to be restarted": func(a *inplace.Assessment) { a.AtRisk = false },
		"does not wait until the kubelet has carried it out": func(a *inplace.Assessment) { a.Pending = "" },
		"replaces what can be updated":                       func(a *inplace.Assessment) { a.Replace, a.Writes = "mutant", nil },
		"replaces what it has just updated": func(a *inplace.Assessment) {
			if len(a.Writes) == 1 {
				a.Replace, a.Writes = "mutant", nil
			}
		},
		"sets the revision first": func(a *inplace.Assessment) {
			a.Writes = slices.Clone(a.Writes)
			slices.Reverse(a.Writes)
		},
		"never sees the kubelet carry it out": func(a *inplace.Assessment) {
			if len(a.Writes) == 1 {
				a.Pending = "mutant"
			}
		},
		"gives up again and again": func(a *inplace.Assessment) {
			if len(a.Writes) == 1 {
				a.GiveUp = &inplace.Write{Kind: inplace.PatchMetadata}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectDetected(t, standard, distort)
		})
	}
}

// The model must be realistic: it shows Decide what an observation would show.
func TestWorldMatchesAnObservation(t *testing.T) {
	w := &world{members: []member{readyOld, frozenOld, readyNew}, leader: 0, intent: -1}
	s := w.snapshot(epoch)
	if !s.HasQuorum() || s.ServingVoters() != 2 || s.Participating() != 2 || s.Leader() != 0 {
		t.Errorf("unexpected snapshot: %+v", s)
	}
}
