// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
)

// invariant is a promise about every step. It shares no code with the decision: it looks at the world as it is, and at what the
// operator can know of it.
type invariant struct {
	name string
	// broken returns how a step breaks it; empty if it does not.
	broken func(w, after *world, step *Step) string
}

// invariants, and what the operator owes to people and to a source cluster beside them.
var invariants = []invariant{
	{"1 one change at a time, and none while the result of the last one is unknown", func(w, _ *world, step *Step) string {
		return when(w.pending != nil && changesList(step), "a change is requested beside "+fmt.Sprint(w.pending))
	}},
	{"2 one learner at most, and nothing while something else acts", func(w, after *world, step *Step) string {
		n := w.node(step.Member)
		return cmpOr(
			when(step.Action == AddLearner && learners(w) > 0 || learners(after) > 1, "there would be two learners"),
			when(step.Action == PromoteLearner && n.owner != Ours, "a learner of others is promoted"),
			when(w.acting, "something else acts"))
	}},
	{"3 a member is added to a quorum that serves, with a volume that is free", func(w, _ *world, step *Step) string {
		if step.Action != AddLearner {
			return ""
		}
		o := w.ordinals[step.Ordinal]
		return cmpOr(
			when(o.store != Free, "the newcomer has data"),
			when(o.terminating, "the claim of the newcomer is going away"),
			when(w.at(step.Ordinal) != nil, "it is a member already"),
			when(w.seen()*2 <= w.count(), "no quorum is known to serve"),
			when(!w.accepts(step), "etcd refuses"))
	}},
	{"a step that is carried out is seen to be done", func(w, after *world, step *Step) string {
		next := Decide(after.input())
		again := next.Conclusion == Act && next.Step.Action == step.Action && next.Step.Ordinal == step.Ordinal && next.Step.Member == step.Member
		return when(w.accepts(step) && again, "the next look, before any time has passed, does it again")
	}},
	{"3 a member is announced, and added, from a pod that stays", func(w, _ *world, step *Step) string {
		return when(slices.Contains([]Action{AnnounceJoin, AddLearner}, step.Action) && w.ordinals[step.Ordinal].ending, "its pod is ending")
	}},
	{"3 the only member knows that it is not alone before another one joins", func(w, _ *world, step *Step) string {
		n := w.at(0)
		return when(step.Action == AddLearner && w.count() == 1 && n != nil && !n.learner && !n.knows, "it would restore a backup beside the newcomer")
	}},
	{"a claim that is not the Etcd's own gets no member", func(w, _ *world, step *Step) string {
		return when(step.Action == ScaleUp && step.Ordinal < len(w.ordinals) && w.ordinals[step.Ordinal].foreign, "the claim is foreign")
	}},
	{"a further pod finds the members, or comes where no rollout can move them", func(w, _ *world, step *Step) string {
		gone := slices.ContainsFunc(w.members, func(n node) bool { return n.owner == Ours && n.ordinal >= w.replicas })
		return when(step.Action == ScaleUp && w.readdressed && w.sources == 0 && w.count()%2 > 0 && !gone, "it would look for the members where they are not yet")
	}},
	{"4 a learner votes once it has caught up, and the others are a quorum of one more", func(w, _ *world, step *Step) string {
		if step.Action != PromoteLearner {
			return ""
		}
		n := w.node(step.Member)
		return cmpOr(
			when(!n.up || n.lags, "it has not caught up"),
			when(w.count() > 1 && w.seen()*2 <= w.count()+1, "the others would not be a quorum"))
	}},
	{"5 a member is removed if those that serve are a quorum before and after it", func(w, _ *world, step *Step) string {
		n := w.node(step.Member)
		if step.Action != RemoveMember || n.learner {
			return ""
		}
		without := w.seen()
		if n.up && !n.hidden {
			without--
		}
		return cmpOr(
			when(w.seen()*2 <= w.count(), "no quorum is known to serve"),
			when(without*2 <= w.count()-1, "the others would not be a quorum"),
			when(n.up && !n.hidden && w.staysDown(step.Member), "another one that stays does not serve"),
			when((!n.up || n.hidden) && !n.long, "it is removed because it does not serve, and that is a matter of a moment"),
			when(!n.hidden && !w.accepts(step), "etcd refuses"))
	}},
	{"6 the leader is not removed, and leadership goes to a member that can lead", func(w, _ *world, step *Step) string {
		to := w.node(step.Successor)
		return cmpOr(
			when(step.Action == RemoveMember && step.Member == w.leader, "the leader is removed"),
			when(step.Action == MoveLeader && (to == nil || !to.up || to.lags || to.learner), "the successor cannot lead"),
			when(step.Action == MoveLeader && w.staysDown(0), "leadership moves while a member that stays does not serve"))
	}},
	{"7 acts are by ID, and members that are not ours are left alone", func(w, _ *world, step *Step) string {
		n := w.node(step.Member)
		byID := slices.Contains([]Action{PromoteLearner, MoveLeader, Announce, Retract, RemoveMember}, step.Action)
		foreign := slices.ContainsFunc(w.members, func(n node) bool { return n.owner == Unknown })
		return cmpOr(
			when(byID && n == nil, "it is about no member of the list"),
			when(foreign && step.Action != Retract, "the list has a member that was not declared"),
			when(w.twice() && step.Action != Retract, "two members have one ordinal"),
			when(n != nil && n.owner == Source && w.goal.KeepSources && step.Action != MoveLeader, "a source that stays is touched"))
	}},
	{"8 the list shrinks before pods, and pods before claims", func(w, _ *world, step *Step) string {
		if !slices.Contains([]Action{ScaleDown, DeletePod, DeleteClaim}, step.Action) {
			return ""
		}
		o := w.ordinals[step.Ordinal]
		return cmpOr(
			when(w.at(step.Ordinal) != nil, "its member is in the list"),
			when(o.store == Other && !o.terminating, "the volume has the data of another cluster"),
			when(step.Action == DeleteClaim && o.foreign, "the claim is foreign"),
			when(step.Action == DeleteClaim && step.Ordinal >= w.goal.Size && w.goal.KeepClaims && !o.temporary, "the claim is kept"),
			when(w.observed < w.replicas || w.observed > w.replicas, "the controller would act on older replicas"),
			when(step.Action == DeleteClaim && step.Ordinal >= w.replicas && o.pod, "its pod is still there"),
			when(step.Action == DeleteClaim && w.seen()*2 <= w.count(), "no quorum is known to have its data"))
	}},
	{"9 a member that is removed knows it before", func(w, _ *world, step *Step) string {
		n := w.node(step.Member)
		return when(step.Action == RemoveMember && n.owner == Ours && (!n.told || n.up && !n.hidden && !n.confirmed), "it does not know")
	}},
	{"10 even sizes are no goal, and are left as soon as they are entered", func(w, after *world, step *Step) string {
		if n := w.finally(); n%2 == 0 && (n == 0 || !w.goal.KeepSources || w.goal.Size > 0 && sources(w) < max(w.sources, 1)) {
			return "the goal is even"
		}
		removed := w.node(step.Member)
		if w.count() == after.count() || after.count() != 2 || w.goal.Size != 1 || w.goal.KeepSources || !goalServes(after) || !removed.up || removed.hidden {
			return ""
		}
		renews := w.ordinals[0].outdated != Nothing
		for _, n := range after.members {
			if n.owner == Ours && n.up && !n.confirmed && renews == (n.ordinal == 0) {
				return fmt.Sprintf("m-%d is to leave and does not know", n.ordinal)
			}
			if n.young && step.Action == PromoteLearner && n.id == step.Member {
				return "etcd would refuse the removal that follows"
			}
		}
		return when(step.Action == PromoteLearner && !w.backup && w.overrides == nil, "the removal that follows has no backup")
	}},
	{"11 voters change by one", func(w, after *world, step *Step) string {
		voters, changed := map[uint64]bool{}, 0
		for _, n := range w.members {
			voters[n.id] = !n.learner
		}
		for _, n := range after.members {
			if !n.learner != voters[n.id] {
				changed++
			}
			delete(voters, n.id)
		}
		for _, voted := range voters {
			if voted {
				changed++
			}
		}
		return when(changed > 1, "several voters change")
	}},
	{"12 one voter remains only with a backup", func(w, after *world, step *Step) string {
		toOne := w.count() == 3 && w.goal.Size == 1 && !w.goal.KeepSources
		return when(after.count() < w.count() && (w.count() < 3 || toOne) && !w.backup && w.overrides == nil, "there is no backup")
	}},
	{"a member leaves once clients reach another one", func(w, after *world, step *Step) string {
		n, fresh := w.node(step.Member), false
		if step.Action != RemoveMember || n.owner != Ours || n.learner || !n.up || n.hidden || w.goal.KeepSources || w.overrides != nil {
			return ""
		}
		for _, o := range after.members {
			switch {
			case o.owner != Ours || o.learner || !o.up || o.hidden:
			case o.fresh == 0:
				return ""
			default:
				fresh = true
			}
		}
		return when(fresh, "clients reach none of those that serve")
	}},
	{"a member moves only while as many others serve as the cluster is to have", func(w, after *world, step *Step) string {
		n := w.node(step.Member)
		moves := step.Action == RemoveMember && n.owner == Ours && n.ordinal < w.goal.Size && !n.learner && n.up && !n.hidden
		return when(moves && !w.goal.KeepSources && w.overrides == nil && after.seen() < w.goal.Size, "fewer members serve than before the move")
	}},
	{"redundancy ends only if a person agrees", func(w, after *world, _ *Step) string {
		return when(after.count() < w.count() && w.count() > 2 && w.finally() == 1 && !w.goal.Single, "no person agreed")
	}},
	{"a migration can be given up until the first source has left, and takes the quorum at the cut-over", func(w, after *world, step *Step) string {
		n := w.node(step.Member)
		return cmpOr(
			when(w.goal.KeepSources && after.count() > w.count() && sources(w) > 0 && sources(w)*2 <= after.count(), "the sources lose the quorum"),
			when(w.goal.KeepSources && w.goal.Size == 0 && step.Action == RemoveMember && !n.learner && n.up && sources(w) < w.sources, "a source is missing"),
			when(step.Action == RemoveMember && n.owner == Source && n.up && !n.hidden && !n.learner && !goalServes(w), "members that replace the source do not vote"))
	}},
	{"the quorum is kept, even if a fault that was not noticed comes before the step", func(w, after *world, step *Step) string {
		if w.leader == 0 || w.count() == after.count() {
			return ""
		}
		if up := after.reachable(); up*2 <= after.count() {
			return fmt.Sprintf("%d of %d voters serve afterwards", up, after.count())
		}
		// Nothing can protect the first steps: two voters tolerate no fault.
		if w.count() == 1 || w.overrides != nil || after.count() < w.count() && (w.count() < 4 || w.node(step.Member).hidden) || learners(w) < learners(after) {
			return ""
		}
		for _, n := range w.members {
			faulty := w.clone()
			faulty.node(n.id).up = false
			if then := after.node(n.id); faulty.quorate() && then != nil && then.up && !then.learner && (after.reachable()-1)*2 <= after.count() {
				return fmt.Sprintf("%x fails, and %d of %d voters serve afterwards", n.id, after.reachable()-1, after.count())
			}
		}
		return ""
	}},
}

func when(broken bool, why string) string {
	if broken {
		return why
	}
	return ""
}

func cmpOr(whys ...string) string {
	for _, why := range whys {
		if why != "" {
			return why
		}
	}
	return ""
}

func changesList(step *Step) bool {
	return slices.Contains([]Action{AddLearner, PromoteLearner, RemoveMember, MoveLeader}, step.Action)
}

// verdict is what a step breaks; the zero value if it breaks nothing.
type verdict struct{ invariant, why string }

func judge(w *world, step *Step) verdict {
	after := w.clone()
	after.carryOut(step)
	for _, i := range invariants {
		if why := i.broken(w, after, step); why != "" {
			return verdict{i.name, fmt.Sprintf("%s: %s %d (%s): %s", why, step.Action, step.Ordinal, step.Reason, w)}
		}
	}
	return verdict{}
}

func (w *world) count() int { n, _, _ := w.voters(); return n }

func (w *world) reachable() int { _, up, _ := w.voters(); return up }

// finally is the number of voters of the goal.
func (w *world) finally() int {
	if w.goal.KeepSources {
		return w.goal.Size + sources(w)
	}
	return w.goal.Size
}

// seen is the number of voters that the operator knows to serve.
func (w *world) seen() int {
	n := 0
	for _, m := range w.members {
		if m.up && !m.hidden && !m.learner {
			n++
		}
	}
	return n
}

// staysDown reports whether a voter that the goal keeps, besides one, is not known to serve, and no person overrides that.
func (w *world) staysDown(besides uint64) bool {
	if w.overrides != nil {
		return false
	}
	for _, n := range w.members {
		keeps := n.owner == Source && w.goal.KeepSources || n.owner == Ours && n.ordinal < w.goal.Size && w.ordinals[n.ordinal] == slot{pod: true, claim: true}
		if keeps && n.id != besides && !n.learner && (!n.up || n.hidden) {
			return true
		}
	}
	return false
}

// twice reports whether two members are of one ordinal.
func (w *world) twice() bool {
	for i, n := range w.members {
		for _, o := range w.members[:i] {
			if n.owner == Ours && o.owner == Ours && n.ordinal == o.ordinal {
				return true
			}
		}
	}
	return false
}

func learners(w *world) int { return len(w.members) - w.count() }

func sources(w *world) int {
	n := 0
	for _, m := range w.members {
		if m.owner == Source && !m.learner {
			n++
		}
	}
	return n
}

// goalServes reports whether every member of the goal votes and is up.
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
		if n.owner == Ours && (n.learner || n.told || n.ordinal >= w.goal.Size) || n.owner == Source && !w.goal.KeepSources {
			return false
		}
	}
	for i, o := range w.ordinals {
		if i >= w.goal.Size && (o.pod || o.claim && !o.foreign && (o.temporary || !w.goal.KeepClaims)) || i < w.goal.Size && o.outdated != Nothing {
			return false
		}
	}
	if w.goal.KeepSources && sources(w) > 0 && w.node(w.leader).owner == Ours {
		return false
	}
	return goalServes(w) && w.replicas == w.goal.Size
}
