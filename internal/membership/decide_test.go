// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"testing"
)

func ours(ordinal int, change ...func(*Member)) Member {
	m := Member{ID: uint64(10 + ordinal), Name: fmt.Sprintf("m-%d", ordinal), Owner: Ours, Ordinal: ordinal, Serving: true, Settled: true, Steady: true, Reached: true}
	for _, c := range change {
		c(&m)
	}
	return m
}

func source(i int, change ...func(*Member)) Member {
	return ours(i, append([]func(*Member){func(m *Member) {
		m.ID, m.Name, m.Owner, m.Ordinal = uint64(20+i), fmt.Sprintf("s-%d", i), Source, 0
	}}, change...)...)
}

func leads(m *Member)   { m.Leads = true }
func learner(m *Member) { m.Learner = true }
func told(m *Member)    { m.Told, m.Confirmed = true, true }
func young(m *Member)   { m.Settled = false }
func lagging(m *Member) { m.Lag = MaxLag + 1 }

// observed is a StatefulSet of so many replicas, whose members are these.
func observed(replicas int, goal Goal, members ...Member) Input {
	in := Input{Goal: goal, Members: members, Replicas: replicas, Observed: true, BackedUp: true}
	for range replicas {
		in.Ordinals = append(in.Ordinals, Ordinal{Pod: true, Claim: true})
	}
	return in
}

func (in Input) at(ordinal int, o Ordinal) Input { in.Ordinals[ordinal] = o; return in }

func (in Input) and(o Ordinal) Input { in.Ordinals = append(in.Ordinals, o); return in }

func (in Input) unsaved() Input { in.BackedUp = false; return in }

// TestDecide has what is easily decided wrongly.
func TestDecide(t *testing.T) {
	pod := Ordinal{Pod: true, Claim: true}
	with := func(change func(*Ordinal)) Ordinal { o := pod; change(&o); return o }
	foreign := Member{ID: 99, Name: "x", Serving: true, Settled: true}
	sources := []Member{source(0, leads), source(1), source(2)}
	for _, c := range []struct {
		name string
		in   Input
		// want is the step, or the first guard that blocks.
		want string
	}{
		{"a learner of the source is not ours to promote", observed(0, Goal{Size: 1, KeepSources: true}, append(sources[:3:3], source(3, learner))...), "ScaleUp"},
		{"sources that have gone are no reason to remove our members", observed(3, Goal{KeepSources: true}, ours(0, leads), ours(1), ours(2)), "GoalOdd"},
		{"a claim that is not kept goes with its ordinal", observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)).and(Ordinal{Claim: true}), "DeleteClaim"},
		{"one that is kept stays", observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)).and(Ordinal{Claim: true, Temporary: true, Kept: true}), "Finished"},
		{"a voter has to stay", observed(1, Goal{}, ours(0, leads)), "GoalOdd"},
		{"two is no goal", observed(3, Goal{Size: 2}, ours(0, leads), ours(1), ours(2)), "GoalOdd"},
		{"four is no goal", observed(3, Goal{Size: 4}, ours(0, leads), ours(1), ours(2)), "GoalOdd"},
		{"a single member knows that it leaves before the learner votes",
			observed(2, Goal{Size: 1}, ours(0, leads), ours(1, learner)).at(0, with(func(o *Ordinal) { o.Outdated = Volume })), "Announce"},
		{"a single member has a backup before the learner votes",
			observed(2, Goal{Size: 1}, ours(0, leads, told), ours(1, learner)).at(0, with(func(o *Ordinal) { o.Outdated = Volume })).unsaved(), "BackedUp"},
		{"a learner votes once its connection is old enough for the removal that follows",
			observed(2, Goal{Size: 1}, ours(0, leads, told), ours(1, learner, young)).at(0, with(func(o *Ordinal) { o.Outdated = Volume })), "MembersSettled"},
		{"three become one with a backup that is taken while there are three", observed(3, Goal{Size: 1, Single: true}, ours(0, leads), ours(1, told), ours(2, told)).unsaved(), "BackedUp"},
		{"four become three before pods go", observed(5, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3, told)), "RemoveMember"},
		{"no member joins on a claim that is being deleted", observed(3, Goal{Size: 3}, ours(0, leads), ours(1)).at(2, with(func(o *Ordinal) { o.Terminating, o.Store = true, Free })), "DeletePod"},
		{"a pod that is ending is not deleted again", observed(3, Goal{Size: 3}, ours(0, leads), ours(1)).at(2, with(func(o *Ordinal) { o.Terminating, o.Ending = true, true })), "StoreFree"},
		{"the only member hears of a newcomer once its pod stays", observed(3, Goal{Size: 3}, ours(0, leads)).at(1, with(func(o *Ordinal) { o.Store, o.Ending = Free, true })), "StoreFree"},
		{"no member joins from a pod that is ending", observed(3, Goal{Size: 3}, ours(0, leads), ours(1)).at(2, with(func(o *Ordinal) { o.Store, o.Ending = Free, true })), "StoreFree"},
		{"a learner whose pod is outdated joins from another one",
			observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner)).at(2, with(func(o *Ordinal) { o.Outdated = Pod })), "Announce"},
		{"two members of one ordinal are not told apart", observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(1, func(m *Member) { m.ID = 50 })).at(2, with(func(o *Ordinal) { o.Store = Free })), "MembersKnown"},
		{"a member whose pod was scaled away gets it back", observed(2, Goal{Size: 3}, ours(0, leads), ours(1), ours(2, func(m *Member) { m.Serving = false })), "ScaleUp"},
		{"the sources lead until the cut-over", observed(2, Goal{Size: 2, KeepSources: true}, source(0), source(1), source(2), ours(0, leads), ours(1)), "MoveLeader"},
		{"the sources keep the quorum until the cut-over", observed(3, Goal{Size: 3, KeepSources: true}, append(sources[:3:3], ours(0), ours(1), ours(2, learner))...), "SourcesKeepQuorum"},
		{"one that remains is agreed to, sources or not", observed(3, Goal{Size: 1, KeepSources: true}, ours(0, leads), ours(1), ours(2)), "SingleAgreed"},
		{"where nothing was redundant, no person has to agree", observed(2, Goal{Size: 1}, ours(0, leads), ours(1)), "Announce"},
		{"leadership does not go to a member that is far behind", observed(3, Goal{Size: 1, Single: true}, ours(0, lagging), ours(1, told, leads), ours(2, told)), "SuccessorCaughtUp"},
		{"a pod may be that of a member that was not declared", observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), foreign), "MembersKnown"},
		{"a member that did not answer once is not down", observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3, told, func(m *Member) { m.Serving = false })), "UnreadyConfirmed"},
		{"the data of another cluster stays", observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)).at(3, with(func(o *Ordinal) { o.Store = Other })), "DataElsewhere"},
		{"until its claim was deleted", observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)).at(3, with(func(o *Ordinal) { o.Store, o.Terminating = Other, true })), "ScaleDown"},
		{"so it is where a member is to join", observed(3, Goal{Size: 3}, ours(0, leads), ours(1)).at(2, with(func(o *Ordinal) { o.Store, o.Terminating = Other, true })), "DeletePod"},
		{"one that joins waits for that", observed(3, Goal{Size: 3}, ours(0, leads), ours(1)).at(2, with(func(o *Ordinal) { o.Store = Other })), "StoreFree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(c.in)
			got := string(d.Conclusion)
			switch d.Conclusion {
			case Act:
				got = string(d.Step.Action)
			case Wait:
				got = string(d.Blocking[0].Guard)
			}
			if got != c.want {
				t.Errorf("got %s, want %s: %+v %+v", got, c.want, d.Step, d.Blocking)
			}
		})
	}
}
