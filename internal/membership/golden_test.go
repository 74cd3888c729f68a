// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/golden"
)

// scenario is a world, and what happens in it later.
type scenario struct {
	name, about string
	start       *world
	// then are events: each happens once, as soon as its condition is true.
	then []event
}

type event struct {
	text string
	when func(*world) bool
	do   func(*world)
}

// cluster is one of so many members of ours and of the source, the first of which leads.
func cluster(ours, sources int, goal Goal) *world {
	w := &world{goal: goal, replicas: ours, observed: ours, sources: sources, backup: true, leader: 1}
	for i := range sources {
		w.join(Source, i, node{up: true})
	}
	for i := range ours {
		w.ordinals = append(w.ordinals, slot{pod: true, claim: true})
		w.join(Ours, i, node{up: true})
	}
	return w
}

func (w *world) with(change func(*world)) *world { change(w); return w }

// single is a member whose pod is to be replaced by way of a second one.
func single() *world {
	return cluster(1, 0, Goal{Size: 1, KeepClaims: true}).with(func(w *world) { w.ordinals[0].outdated = Pod })
}

// withdraw ends what made the pod outdated.
func withdraw(w *world) { w.ordinals[0].outdated = Nothing }

func outdated(w *world) {
	for i := range w.ordinals {
		w.ordinals[i].outdated = Volume
	}
}

func scenarios() []scenario {
	waits := func(g Guard) func(*world) bool {
		return func(w *world) bool {
			d := Decide(w.input())
			return d.Conclusion == Wait && d.Blocking[0].Guard == g
		}
	}
	votes := func(n int) func(*world) bool { return func(w *world) bool { return w.count() == n } }
	return []scenario{
		{"grow-1-to-3", "One member becomes three.", cluster(1, 0, Goal{Size: 3}), nil},
		{"grow-3-to-5", "Three members become five.", cluster(3, 0, Goal{Size: 5}), nil},
		{"shrink-5-to-3", "Five members become three.", cluster(5, 0, Goal{Size: 3}), nil},
		{"shrink-3-to-1", "Three members become one.", cluster(3, 0, Goal{Size: 1, KeepClaims: true}).with(func(w *world) { w.backup, w.slow = false, true }), []event{
			{"A person agrees that one member remains.", waits(GuardSingleAgreed), func(w *world) { w.goal.Single = true }},
			{"A snapshot is taken.", waits(GuardBackedUp), func(w *world) { w.backup = true }},
		}},
		{"leader-is-the-highest", "The leader is the one that leaves.", cluster(5, 0, Goal{Size: 3}).with(func(w *world) { w.leader = 5 }), nil},
		{"lost-member", "The volume of m-1 is gone, and its agent reports that it has no data.", cluster(3, 0, Goal{Size: 3}).with(func(w *world) {
			w.members[1] = node{id: 2, owner: Ours, ordinal: 1, lags: true}
			w.ordinals[1].store = Free
		}), nil},
		{"surge", "A single member moves to another volume.", cluster(1, 0, Goal{Size: 1}).with(outdated), nil},
		{"surge-pod", "A single member gets another pod. The claims of members that leave are kept, and that of the second one is temporary.", single(), nil},
		{"surge-kept-claim", "The claim of an earlier second member is there, and kept.", single().with(func(w *world) { w.ordinals = append(w.ordinals, slot{claim: true, store: Left}) }), nil},
		{"surge-learner-lags", "The second member does not catch up, and the rollout is withdrawn.", single(), []event{
			{"The second member falls behind.", nextIs(PromoteLearner), func(w *world) { w.at(1).lags, w.ordinals[1].store = true, Left }},
			{"The rollout is suspended.", waits(GuardLearnerCaughtUp), withdraw},
		}},
		{"surge-withdrawn", "The rollout is withdrawn once the first member has left.", single(), []event{
			{"The rollout is suspended.", func(w *world) bool { return w.at(0) == nil }, withdraw},
		}},
		{"storage-class", "Three members move to another storage class.", cluster(3, 0, Goal{Size: 3}).with(outdated), nil},
		{"storage-class-set-back", "The storage class is set back once one of three members has moved.", cluster(3, 0, Goal{Size: 3}).with(outdated), []event{
			{"The storage class is set back.", func(w *world) bool { return w.count() == 4 && w.at(1).id > 3 }, (*world).setBack},
		}},
		{"migration", "Three members of a source cluster are replaced by three of ours.", cluster(0, 3, Goal{Size: 3, KeepSources: true}), []event{
			{"A person cuts over.", waits(GuardSourcesKeepQuorum), func(w *world) { w.goal.KeepSources = false }},
		}},
		{"migration-of-one", "The only member of a source cluster is replaced by three of ours.", cluster(0, 1, Goal{Size: 3, KeepSources: true}), []event{
			{"A person cuts over.", waits(GuardSourcesKeepQuorum), func(w *world) { w.goal.KeepSources = false }},
		}},
		{"source-down", "A member of the source is down while ours join.", cluster(0, 3, Goal{Size: 3, KeepSources: true}).with(func(w *world) { w.members[2].hidden, w.members[2].long = true, true }), []event{
			{"It is back.", waits(GuardOthersServing), func(w *world) { w.members[2].hidden = false }},
			{"A person cuts over.", waits(GuardSourcesKeepQuorum), func(w *world) { w.goal.KeepSources = false }},
		}},
		{"abort-before-promotion", "A migration is given up while the first of our members is a learner.", cluster(0, 3, Goal{Size: 3, KeepSources: true}), []event{
			{"The migration is given up.", func(w *world) bool { return learners(w) == 1 }, func(w *world) { w.goal.Size = 0 }},
		}},
		{"abort-after-promotion", "A migration is given up once two of our members vote and one of them leads.", cluster(0, 3, Goal{Size: 3, KeepSources: true}), []event{
			{"The migration is given up, and an election makes m-1 the leader.", votes(5), func(w *world) { w.goal.Size, w.leader = 0, w.at(1).id }},
		}},
		{"abort-after-removal", "A migration is given up after the cut-over has removed the first source.", cluster(3, 2, Goal{Size: 0, KeepSources: true}).with(func(w *world) { w.sources = 3 }), []event{
			{"The migration is completed instead.", waits(GuardSourcesPresent), func(w *world) { w.goal = Goal{Size: 3} }},
		}},
		{"foreign-member", "The list has a member that was not declared.", cluster(3, 0, Goal{Size: 5}).with(func(w *world) { w.join(Unknown, 7, node{up: true}) }), []event{
			{"A person removes it.", waits(GuardMembersKnown), func(w *world) { w.members = w.members[:3] }},
		}},
		{"lost-answer", "etcd's answers to the first promotion and to the first removal are lost.", cluster(1, 0, Goal{Size: 1}).with(outdated), []event{
			{"The answer to the promotion is lost, and it takes effect later.", nextIs(PromoteLearner), lose},
			{"The answer to the removal is lost, and it takes effect later.", nextIs(RemoveMember), lose},
		}},
		{"stale-learner", "The member list changes after the pod of a learner was prepared, and before its etcd starts, which then refuses to (s).", cluster(3, 0, Goal{Size: 5}), []event{
			{"The image of m-3 is not pulled yet, and someone changes the peer URL of m-1.", func(w *world) bool { return learners(w) == 1 }, func(w *world) {
				w.at(3).up = false
				w.changed()
			}},
		}},
		{"even-goal", "Two members are asked for.", cluster(3, 0, Goal{Size: 2}), []event{
			{"Three are asked for.", waits(GuardGoalOdd), func(w *world) { w.goal.Size = 3 }},
		}},
		{"member-down", "A member that stays does not serve while the cluster shrinks.", cluster(5, 0, Goal{Size: 3}).with(func(w *world) { w.members[1].hidden, w.members[1].long = true, true }), []event{
			{"m-1 serves again.", waits(GuardOthersServing), func(w *world) { w.members[1].hidden = false }},
		}},
	}
}

func nextIs(a Action) func(*world) bool {
	return func(w *world) bool {
		d := Decide(w.input())
		return d.Conclusion == Act && d.Step.Action == a
	}
}

func lose(w *world) { w.pending, w.lands = Decide(w.input()).Step, true }

// The plans of these scenarios can be read aloud.
func TestPlans(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) { golden.Check(t, s.name+".txt", []byte(s.run(t))) })
	}
}

func (s scenario) run(t *testing.T) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n(* leads, ? is a learner, ! is down, h does not answer the operator, y is connected for a moment only, ~ lags, t was told that it leaves, c has read it)\n\n%s\n", s.about, s.start.list())
	w, then, last := s.start, s.then, ""
	for range 200 {
		d := Decide(w.input())
		happens := len(then) > 0 && then[0].when(w)
		if text := s.sentence(d); text != last && (!happens || d.Conclusion != Act) {
			out.WriteString(text)
			last = text
		}
		if happens {
			then[0].do(w)
			fmt.Fprintf(&out, "    %s\n", then[0].text)
			then = then[1:]
			continue
		}
		switch d.Conclusion {
		case Finished:
			return out.String()
		case Act:
			if v := judge(w, d.Step); v.invariant != "" {
				t.Fatalf("%s: %s", v.invariant, v.why)
			}
			before := w.list()
			if w.do(d.Step); w.list() != before {
				fmt.Fprintf(&out, "%s\n", w.list())
			}
		}
		w.pass()
	}
	t.Fatalf("does not end:\n%s", out.String())
	return ""
}

func (scenario) sentence(d Decision) string {
	switch d.Conclusion {
	case Act:
		about := fmt.Sprintf("ordinal %d", d.Step.Ordinal)
		if d.Step.Ordinal < 0 {
			about = fmt.Sprintf("member %x", d.Step.Member)
		}
		return fmt.Sprintf("%s (%s): %s\n", d.Step.Action, about, d.Step.Reason)
	case Wait:
		var text strings.Builder
		for _, h := range d.Blocking {
			fmt.Fprintf(&text, "    waits, %s: %s\n", h.Guard, h.Message)
		}
		return text.String()
	default:
		return "Finished.\n"
	}
}
