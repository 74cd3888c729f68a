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
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/spec"
)

// carriedOut are the removals, updates and handovers of an undisturbed rollout, in their order, and whether it has finished. A removal that was just
// recorded is on its way, and arrives.
func (w *world) carriedOut(config spec.Config, now time.Time) (steps []string, finished bool) {
	if w.intent >= 0 && w.recent && !w.changed && w.members[w.intent].present() {
		w.apply(&Step{Action: DeletePod, Ordinals: []int{w.intent}})
	}
	for range 12*len(w.members) + 12 {
		d := Decide(w.input(now, config), now)
		if d.Conclusion == Finished {
			return steps, true
		}
		if d.Step == nil {
			// A plan assumes that foreign voters come back.
			w.foreignUp, w.foreignDown = w.foreignUp+w.foreignDown, 0
			w.recover()
		} else {
			steps = append(steps, said(d.Step)...)
			w.apply(d.Step)
		}
		now = now.Add(time.Minute)
	}
	return steps, false
}

// What steps do, before the name of the pod.
const (
	remove   = "remove/"
	handOver = "hand over/"
)

// said is what a step does to pods and leadership. Who takes over is for etcd to say.
func said(s *Step) (all []string) {
	for _, i := range s.Ordinals {
		switch s.Action {
		case DeletePod, EvictPod:
			all = append(all, remove+podName[i])
		case MoveLeader:
			all = append(all, handOver+podName[i])
		case PatchMetadata, ResizePod, UpdateContainer:
			all = append(all, string(s.Action)+"/"+podName[i])
		}
	}
	return all
}

func (p Plan) steps() (all []string) {
	for _, e := range p.Entries {
		if e.Hold == nil && e.Step != nil {
			all = append(all, said(e.Step)...)
		}
	}
	return all
}

// assumes reports whether the plan rests on what cannot be foreseen: who leads or wins an election, or that a loss of the quorum, or a member that is
// not ready, lasts. Undisturbed, both recover; a member that recovers while a guard blocks is updated in place, if that is possible, and a learner
// takes a new pod if it is promoted before its probe passes.
func (p Plan) assumes(k kind) bool {
	waits := slices.IndexFunc(p.Entries, func(e Entry) bool { return e.Hold != nil || e.Step.Action == TakeSnapshot })
	if k != replaced && waits >= 0 && slices.ContainsFunc(p.Entries[waits:], func(e Entry) bool {
		return e.Hold == nil && e.Step.IsRemoval() || e.Hold != nil && e.Hold.Guard == v1alpha1.GuardLearnerPromoted
	}) {
		return true
	}
	if len(p.Entries) > 0 && p.Entries[0].Before.Leader() < 0 {
		return true
	}
	return p.Elections || slices.ContainsFunc(p.Entries, func(e Entry) bool {
		return e.Hold != nil && (e.Hold.Guard == v1alpha1.GuardQuorumLossConfirmed || e.Hold.Guard == v1alpha1.GuardUnreadyConfirmed)
	})
}

// pods are those that steps change, sorted.
func pods(steps []string) []string {
	var all []string
	for _, s := range steps {
		if action, pod := path.Split(s); action != handOver {
			all = append(all, pod)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// What a plan says is what an undisturbed rollout does, in every world: the same removals, updates in place and handovers, in the same
// order. Where the plan assumes something, the same pods are changed. In which order, and whether by a new pod or in place, depends on
// what has been assumed: a member that recovers needs no new pod.
func TestPlanIsWhatIsCarriedOut(t *testing.T) {
	sizes := []size{
		{members: 1, states: allStates(), memory: true},
		{members: 2, states: fewer, sorted: true, memory: true},
		{members: 3, states: fewer, sorted: true},
		{members: 3, states: []member{missing, readyOld, frozenOld, readyNew}, sorted: true, inPlace: true},
	}
	if *exploreAll {
		sizes = []size{
			{members: 2, states: allStates(), sorted: true, memory: true},
			{members: 3, states: fewer, sorted: true, memory: true},
			{members: 5, states: fewer, sorted: true, inPlace: true},
		}
	}
	for _, z := range sizes {
		t.Run(fmt.Sprintf("%d members of %d states", z.members, len(z.states)), func(t *testing.T) {
			t.Parallel()
			// compared are the worlds whose plan assumes nothing, by the kind of the update.
			compared, assumed, different := map[kind]int{}, 0, 0
			z.worlds(func(from *world) {
				w := *from
				w.members = slices.Clone(from.members)
				plan := Foresee(w.input(noon, spec.Defaults()), noon)
				steps, finished := w.carriedOut(spec.Defaults(), noon)
				if !finished || plan.End != Finished {
					return
				}
				want, got := plan.steps(), steps
				if plan.assumes(from.kind) {
					assumed++
					want, got = pods(want), pods(got)
				} else {
					compared[from.kind]++
				}
				if !slices.Equal(want, got) {
					if different++; different <= 5 {
						t.Errorf("planned %v, done %v: %+v: %s", plan.steps(), steps, *from, oneLine(plan))
					}
				}
			})
			t.Logf("%v worlds compared by their kind, and %d that rest on an assumption; %d differ", compared, assumed, different)
			for _, k := range []kind{replaced, raised, restarted, lowered} {
				if compared[k] == 0 && (k == replaced || z.memory || z.inPlace) {
					t.Errorf("no world of kind %d was compared", k)
				}
			}
		})
	}
}
