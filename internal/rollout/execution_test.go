// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"k8s.io/apimachinery/pkg/types"
)

// carriedOut are the steps of an undisturbed rollout, in their order, and whether it has finished. A removal that was just
// recorded is on its way, and arrives.
func (w *world) carriedOut(config Config, now time.Time) (steps []string, finished bool) {
	if w.intent >= 0 && w.recent && !w.changed && w.members[w.intent].present() {
		w.apply(&Step{Action: DeletePod, Ordinals: []int{w.intent}})
	}
	for range 12*len(w.members) + 12 {
		d := Decide(w.input(now, config), now)
		if d.Conclusion == Finished {
			return steps, true
		}
		if d.Step == nil {
			w.heal()
			w.recover()
		} else {
			steps = append(steps, said(d.Step)...)
			w.apply(d.Step)
		}
		now = now.Add(time.Minute)
	}
	return steps, false
}

// heal makes true what a plan assumes of everything but the members: foreign voters come back, and an operator that reaches only members which
// are cut off from the others reaches all of them.
func (w *world) heal() {
	w.foreignUp, w.foreignDown = w.foreignUp+w.foreignDown, 0
	if !w.hidden {
		return
	}
	w.hidden, w.nodesLost = false, false
	for i, m := range w.members {
		if m.old() == frozenOld {
			w.members[i] = m - frozenOld + runningOld
		}
	}
}

// What steps do, before the name of the pod.
const (
	remove   = "remove/"
	handOver = "hand over/"
)

// said is what a step does. Who takes over is for etcd to say, and which pod is next while a snapshot is taken changes nothing.
func said(s *Step) (all []string) {
	if s.Action == TakeSnapshot {
		return []string{string(TakeSnapshot)}
	}
	for _, i := range s.Ordinals {
		switch s.Action {
		case DeletePod, EvictPod:
			all = append(all, remove+podName[i])
		case MoveLeader:
			all = append(all, handOver+podName[i])
		default:
			all = append(all, string(s.Action)+"/"+podName[i])
		}
	}
	return all
}

// steps are those of the first entries of a plan.
func (p Plan) steps(entries int) (all []string) {
	for _, e := range p.Entries[:entries] {
		if e.Hold() == nil {
			all = append(all, said(e.Step)...)
		}
	}
	return all
}

// foreseen is how many entries of a plan, from the first on, rest on no assumption.
func (p Plan) foreseen(w *world) int {
	for i := range p.Entries {
		if p.assumes(i, w) {
			return i
		}
	}
	return len(p.Entries)
}

// assumes reports whether an entry rests on what cannot be foreseen: who leads or wins an election, or that a loss of the quorum, a member that
// is not ready, a lie, a learner, or a volume that cannot be attached, remains so until it is its turn. Undisturbed, all recover, and learners are promoted.
func (p Plan) assumes(entry int, w *world) bool {
	e := p.Entries[entry]
	switch {
	case e.Hold() != nil && (e.Hold().Guard == v1alpha1.GuardQuorumLossConfirmed || e.Hold().Guard == v1alpha1.GuardUnreadyConfirmed):
		return true
	case entry == 0:
		return false
	case p.elects(entry - 1), waitsFor(p.Entries[entry:], v1alpha1.GuardVolumeReachable), waitsFor(p.Entries, v1alpha1.GuardLearnerPromoted),
		e.Step != nil && e.Before.Ordinals[e.Step.Ordinals[0]].Class == v1alpha1.ClassUnready:
		return true
	}
	return w.lying != [7]bool{} || w.kind != replaced && p.assumesInPlace(entry)
}

// assumesInPlace is about updates in place. A member that recovers before it is replaced is updated in place, and what terminates may end, and
// take the quorum along, while the kubelet updates another pod.
func (p Plan) assumesInPlace(entry int) bool {
	return slices.ContainsFunc(p.Entries[entry:], func(e Entry) bool { return e.Hold() == nil && e.Step.IsRemoval() }) ||
		slices.ContainsFunc(p.Entries[entry].Before.Ordinals, func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassTerminating })
}

func waitsFor(entries []Entry, guard v1alpha1.GuardName) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Hold() != nil && e.Hold().Guard == guard })
}

// elects reports whether a leader may be elected after an entry, or while its pods are away. A handover is no election. Where a plan has elections
// at all, each of what it waits for may be one.
func (p Plan) elects(entry int) bool {
	e := p.Entries[entry]
	before := leads(e.Before)
	if before == "" || e.Hold() != nil && p.Elections || e.Meanwhile != nil && leads(e.Meanwhile) != before {
		return true
	}
	return entry+1 < len(p.Entries) && (e.Step == nil || e.Step.Action != MoveLeader) && leads(p.Entries[entry+1].Before) != before
}

// leads is the pod of the leader, whose successor of the same name would have to be elected; empty if none leads.
func leads(s *cluster.Snapshot) types.UID {
	if i := s.Leader(); i >= 0 && s.Ordinals[i].Pod != nil {
		return s.Ordinals[i].Pod.UID
	}
	return ""
}

// pods are those that steps change, sorted: one that is removed as often as it is, and one that is updated in place once.
func pods(steps []string) []string {
	var removed, updated []string
	for _, s := range steps {
		switch action, pod := path.Split(s); action {
		case remove:
			removed = append(removed, pod)
		case string(PatchMetadata) + "/", string(ResizePod) + "/", string(UpdateContainer) + "/":
			updated = append(updated, pod)
		}
	}
	slices.Sort(updated)
	all := slices.Concat(removed, slices.Compact(updated))
	slices.Sort(all)
	return all
}

// exceptions are the worlds in which a plan finishes and its execution does not, or the other way round: exactly these.
var exceptions = []struct {
	name string
	// members is the smallest size with such worlds.
	members int
	is      func(w *world) bool
}{
	// The plan takes a loss of the quorum to last, and then replaces the only member, which is alive. Here the foreign voter comes back before that,
	// and there is a quorum of two, which the removal would take: the rollout waits until a person removes the foreign voter. Which of the two comes
	// first cannot be foreseen.
	{"the only member leads again, with a foreign voter", 1, func(w *world) bool {
		return len(w.members) == 1 && w.foreignUp+w.foreignDown == 1 && w.leader < 0 && !w.stale && !w.lasted && (w.members[0] == runningOld || w.members[0] == readyOld)
	}},
	// A minor version would be skipped, and only a pod that is terminating says from which one. Once it is gone, the dead are replaced at once, unless
	// another member answers before that. Which of the two comes first cannot be foreseen, so the plan ends there.
	{"only a terminating member tells its version", 2, func(w *world) bool {
		dead := func(m member) bool { return m == deadOld || m == startingOld }
		return w.upgrade == skipsMinor && slices.Contains(w.members, terminating) && slices.ContainsFunc(w.members, dead) &&
			!slices.ContainsFunc(w.members, func(m member) bool { return m.present() && !dead(m) })
	}},
}

// exception is the name of the exception that a world is; empty if it is none.
func (w *world) exception() string {
	for _, e := range exceptions {
		if e.is(w) {
			return e.name
		}
	}
	return ""
}

// difference is what an execution does otherwise than its plan says; empty if nothing.
func (p Plan) difference(from *world, steps []string, finished bool) string {
	foreseen, agree := p.foreseen(from), finished == (p.End == Finished)
	certain, all := p.steps(foreseen), p.steps(len(p.Entries))
	switch {
	case agree && from.exception() != "":
		return "both finish or neither does, although the world is an exception"
	case !agree && from.exception() == "":
		return "one finishes and the other does not"
	case len(certain) > len(steps) || !slices.Equal(certain, steps[:len(certain)]):
		return "not even what can be foreseen is the same"
	case agree && foreseen == len(p.Entries) && !slices.Equal(all, steps):
		return "the steps are not the same"
	case agree && finished && !from.surges && !slices.Equal(pods(all), pods(steps)):
		return "the pods are not the same"
	}
	return ""
}

// tally counts the worlds of a size.
type tally struct {
	worlds int
	// whole are those that are compared from the first step to the last, by the kind of the update.
	whole map[kind]int
	// assumed are those that rest on an assumption, and begun those of them with steps before it.
	assumed, begun int
	// unfinished are those in which neither the plan nor the execution finishes.
	unfinished int
	excepted   map[string]int
	different  int
}

func (a *tally) count(p Plan, from *world, finished bool) {
	a.worlds++
	if e := from.exception(); e != "" {
		a.excepted[e]++
		return
	}
	if foreseen := p.foreseen(from); foreseen == len(p.Entries) {
		a.whole[from.kind]++
	} else {
		a.assumed++
		if len(p.steps(foreseen)) > 0 {
			a.begun++
		}
	}
	if !finished {
		a.unfinished++
	}
}

// What a plan says is what an undisturbed rollout does, in every world of the sizes: the rollout finishes if the plan does, by the same steps in
// the same order. Where the plan assumes something, the steps before that are the same, and the same pods are replaced, or updated in place, if
// both finish. What depends on the assumption is in which order, whether by a new pod or in place, and whether leadership moves before; and of a member that another one may relieve, whether the rollout replaces
// it, since it does not serve, or the change of members does.
func TestPlanIsWhatIsCarriedOut(t *testing.T) {
	sizes := []size{
		{members: 1, states: allStates(), memory: true},
		{members: 2, states: fewer, sorted: true, memory: true},
		{members: 3, states: fewer, sorted: true},
		{members: 3, states: []member{missing, readyOld, frozenOld, readyNew}, sorted: true, inPlace: true},
	}
	if *exploreAll {
		sizes = []size{
			{members: 1, states: allStates(), memory: true},
			{members: 2, states: allStates(), memory: true},
			{members: 3, states: allStates(), memory: true},
			{members: 4, states: allStates(), sorted: true, memory: true},
			{members: 5, states: fewer, sorted: true, memory: true},
		}
	}
	for _, z := range sizes {
		t.Run(fmt.Sprintf("%d members of %d states", z.members, len(z.states)), func(t *testing.T) {
			t.Parallel()
			seen := tally{whole: map[kind]int{}, excepted: map[string]int{}}
			z.worlds(func(from *world) {
				w := *from
				w.members = slices.Clone(from.members)
				plan := Foresee(w.input(noon, DefaultConfig()), noon)
				steps, finished := w.carriedOut(DefaultConfig(), noon)
				seen.count(plan, from, finished)
				if why := plan.difference(from, steps, finished); why != "" {
					if seen.different++; seen.different <= 5 {
						t.Errorf("%s: planned %v, done %v, finished: %t: %+v: %s", why, plan.steps(len(plan.Entries)), steps, finished, *from, oneLine(plan))
					}
				}
			})
			t.Logf("%+v", seen)
			for _, k := range []kind{replaced, raised, restarted, lowered} {
				if seen.whole[k] == 0 && (k == replaced || z.memory || z.inPlace) {
					t.Errorf("no world of kind %d was compared as a whole", k)
				}
			}
			for _, e := range exceptions {
				if seen.excepted[e.name] == 0 && z.members == e.members {
					t.Errorf("no world is an exception because %s", e.name)
				}
			}
		})
	}
}
