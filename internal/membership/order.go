// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"fmt"
	"slices"
)

// candidate returns the next step, if every guard allows it; nil if the members match the goal. The first function of the order that has a
// step decides.
func (s *state) candidate() *Step {
	for _, next := range []func(*state) *Step{
		retract,      // what was announced, and is no longer to happen
		restore,      // the pod of a member that stays, if someone scaled the StatefulSet down
		removeDown,   // members that leave and do not serve: etcd adds no member while a voter is down
		leadBack,     // until the cut-over, the sources lead
		ahead,        // pods of members that join later start while the first joins
		learnerFirst, // promote the learner, or remove it: etcd has one at a time
		leaveEven,    // an even number of voters tolerates no more failures than one voter fewer
		cleanUp,      // pods and claims of ordinals that have left
		add,          // redundancy grows before it shrinks
		remove,
	} {
		if step := next(s); step != nil {
			return step
		}
	}
	return nil
}

func retract(s *state) *Step {
	relieved := s.relieved()
	for i := range s.Members {
		if m := &s.Members[i]; m.Told && !s.leaves(m) && m != relieved {
			return about(m, Retract, fmt.Sprintf("%s was told that it leaves, but it stays", m.Name))
		}
	}
	return nil
}

func restore(s *state) *Step {
	for i := range s.Members {
		if m := &s.Members[i]; m.Owner == Ours && m.Ordinal >= s.Replicas && s.stays(m) {
			return &Step{Action: ScaleUp, Ordinal: s.Replicas, Reason: fmt.Sprintf("%s is in the member list and has no pod among %d replicas", m.Name, s.Replicas)}
		}
	}
	return nil
}

func removeDown(s *state) *Step {
	for _, m := range s.leaving() {
		switch {
		case m.Serving || m.Learner:
		case s.isLost(m) && s.wanted(m.Ordinal):
			return s.removal(m, s.whyLeaves(m))
		default:
			return s.removal(m, m.Name+" leaves and does not serve")
		}
	}
	return nil
}

func leadBack(s *state) *Step {
	if !s.Goal.KeepSources || s.leader == nil || s.leader.Owner != Ours {
		return nil
	}
	to := s.successor(func(m *Member) bool { return m.Owner == Source })
	if to == nil {
		return nil
	}
	return handover(s.leader, to, fmt.Sprintf("the source cluster leads until the cut-over, so leadership moves from %s to %s", s.leader.Name, to.Name))
}

// ahead creates all missing pods before the first member joins: their agents inspect the volumes while it joins, so that the number of voters is
// even for as short as possible. In a migration, some pods would wait for the cut-over, which may take days; where members are not reached
// as the spec says, none could join.
func ahead(s *state) *Step {
	if addressesSettled(s, nil) != "" || s.Sources > 0 || s.sources() > 0 || s.Replicas >= s.Goal.Size || s.serving < len(s.voters) || s.ordinal(s.Replicas).Foreign != "" {
		return nil
	}
	return &Step{Action: ScaleUp, Ordinal: s.Replicas, Reason: fmt.Sprintf("ordinal %d needs a pod before its member can join", s.Replicas)}
}

func learnerFirst(s *state) *Step {
	m := s.learner()
	if m == nil || m.Owner == Unknown || m.Owner == Source && s.Goal.KeepSources {
		return nil // it is not ours to promote, and guards block until it votes or is gone
	}
	if !s.stays(m) {
		return s.removal(m, s.whyLeaves(m))
	}
	if r := s.relieved(); r != nil && r.Owner == Ours && !r.Told {
		return about(r, Announce, fmt.Sprintf("%s leaves as soon as %s votes, and its agent must know before that", r.Name, m.Name))
	}
	return about(m, PromoteLearner, m.Name+" has caught up")
}

func leaveEven(s *state) *Step {
	if len(s.voters)%2 > 0 || !s.goalVotes() {
		return nil
	}
	return remove(s)
}

// cleanUp removes what is left of ordinals that are not in the list. What a guard keeps of an ordinal beyond the goal, perhaps until a person has
// decided, keeps no other member out: it is passed over while there is one to add.
func cleanUp(s *state) *Step {
	var kept *Step
	for i := len(s.Ordinals) - 1; i >= 0; i-- {
		switch step := s.cleanUpOf(i); {
		case step == nil || kept != nil && !s.wanted(i):
		case s.wanted(i) || dataElsewhere(s, step) == "":
			return step
		default:
			kept = step
		}
	}
	if kept != nil && add(s) != nil {
		return nil
	}
	return kept
}

// cleanUpOf returns the next step of cleanUp for an ordinal; nil if nothing is left. Pods go before claims where the ordinal goes; where another
// pod takes its place, the claim goes first, or the StatefulSet controller would give it the same one again.
func (s *state) cleanUpOf(i int) *Step {
	o, wanted := s.Ordinals[i], s.wanted(i)
	switch {
	case s.listed(i) != nil:
	case !wanted && i == s.Replicas-1:
		return &Step{Action: ScaleDown, Ordinal: i, Reason: fmt.Sprintf("the member of ordinal %d has left", i)}
	case !wanted && i >= s.Replicas && o.Claim && !o.Terminating && !o.Kept && o.Foreign == "" && (o.Temporary || !s.Goal.KeepClaims):
		return &Step{Action: DeleteClaim, Ordinal: i, Reason: fmt.Sprintf("the member of ordinal %d has left, and its volume is not kept", i)}
	case i >= s.Replicas: // the StatefulSet controller is removing the pod
	case wanted && o.Outdated == Volume && o.Claim && !o.Terminating:
		return &Step{Action: DeleteClaim, Ordinal: i, Reason: fmt.Sprintf("ordinal %d gets another volume", i)}
	case wanted && (o.Outdated != Nothing || o.Terminating) && o.Pod && !o.Ending:
		return &Step{Action: DeletePod, Ordinal: i, Reason: fmt.Sprintf("ordinal %d gets another pod", i)}
	}
	return nil
}

func add(s *state) *Step {
	for i := range s.Goal.Size + 1 {
		switch {
		case !s.wanted(i) || s.listed(i) != nil:
		case i >= s.Replicas:
			return &Step{Action: ScaleUp, Ordinal: s.Replicas, Reason: fmt.Sprintf("ordinal %d needs a pod before its member can join", s.Replicas)}
		case s.alone() != nil && !s.ordinal(i).Told:
			return &Step{Action: AnnounceJoin, Ordinal: i, Reason: fmt.Sprintf("%s must know before ordinal %d joins that it is not the only member any more", s.alone().Name, i)}
		case i == s.Goal.Size:
			return &Step{Action: AddLearner, Ordinal: i, Reason: fmt.Sprintf("ordinal %d joins for as long as other members are replaced", i)}
		default:
			return &Step{Action: AddLearner, Ordinal: i, Reason: fmt.Sprintf("ordinal %d joins the cluster", i)}
		}
	}
	return nil
}

// remove announces all removals first, then moves leadership to a member that stays, and then removes one member after the
// other.
func remove(s *state) *Step {
	leaving := s.leaving()
	for _, m := range leaving {
		if m.Owner == Ours && !m.Told {
			return s.removal(m, s.whyLeaves(m))
		}
	}
	for _, m := range leaving {
		to := s.successor(func(m *Member) bool { return m.Owner != Unknown && !s.leaves(m) })
		if m.Leads && to != nil {
			return handover(m, to, fmt.Sprintf("%s leads and leaves, so leadership moves to %s", m.Name, to.Name))
		}
	}
	if len(leaving) == 0 {
		return nil
	}
	return s.removal(leaving[0], s.whyLeaves(leaving[0]))
}

func (s *state) whyLeaves(m *Member) string {
	switch {
	case m.Owner == Source:
		return m.Name + " belongs to the source cluster, and the members that replace it vote"
	case !s.wanted(m.Ordinal):
		return m.Name + " is not part of the goal"
	case s.isLost(m):
		return fmt.Sprintf("the data of %s is gone, so it rejoins as a new member", m.Name)
	case m.Stale:
		return fmt.Sprintf("the member list has changed since the pod of %s was prepared to join, and its etcd refuses to start, so it joins again from another pod", m.Name)
	case s.ordinal(m.Ordinal).Outdated == Volume:
		return m.Name + " rejoins on another volume"
	default:
		return m.Name + " rejoins in another pod"
	}
}

// removal removes a member that was told; otherwise it is told first.
func (s *state) removal(m *Member, reason string) *Step {
	if m.Owner == Ours && !m.Told {
		return about(m, Announce, reason+"; its agent must know before that")
	}
	return about(m, RemoveMember, reason)
}

func handover(from, to *Member, reason string) *Step {
	step := about(from, MoveLeader, reason)
	step.Successor = to.ID
	return step
}

func about(m *Member, action Action, reason string) *Step {
	step := &Step{Action: action, Ordinal: -1, Member: m.ID, Reason: reason}
	if m.Owner == Ours {
		step.Ordinal = m.Ordinal
	}
	return step
}

// leaves reports whether a member is to leave the list, now: for good, or to join again.
func (s *state) leaves(m *Member) bool { return !s.stays(m) || s.isNextToRenew(m) }

// leaving are the members that leave, the next one first: the sources, then the highest ordinal.
func (s *state) leaving() []*Member {
	var leaving []*Member
	for i := range s.Members {
		if m := &s.Members[i]; s.leaves(m) {
			leaving = append(leaving, m)
		}
	}
	slices.SortFunc(leaving, func(a, b *Member) int {
		return cmp.Or(cmp.Compare(b.Owner, a.Owner), cmp.Compare(b.Ordinal, a.Ordinal), cmp.Compare(b.ID, a.ID))
	})
	return leaving
}

// isNextToRenew reports whether a member is the next that is replaced: every other member votes, the further one included, and
// of the outdated ones it is the first that does not serve, or else the lowest ordinal that does not lead.
func (s *state) isNextToRenew(m *Member) bool {
	if !s.votes(s.Goal.Size) {
		return false
	}
	var next *Member
	for i := range s.Goal.Size {
		switch o := s.listed(i); {
		case !s.votes(i):
			return false
		case s.ordinal(i).Outdated != Nothing && (next == nil || next.Leads && !o.Leads || next.Serving && !o.Serving):
			next = o
		}
	}
	return next != nil && next.ID == m.ID
}

// successor returns the voter that leadership goes to, of those that may have it; nil if none serves. It prefers voters that stay for good,
// and of these the one with the smallest lag.
func (s *state) successor(may func(*Member) bool) *Member {
	var best *Member
	temporary := func(m *Member) bool {
		return m.Owner == Ours && (m.Ordinal >= s.Goal.Size || s.ordinal(m.Ordinal).Outdated != Nothing)
	}
	for i := range s.Members {
		m := &s.Members[i]
		switch {
		case m.Learner || !m.Serving || m.Leads || !may(m):
		case best == nil, temporary(best) && !temporary(m), temporary(best) == temporary(m) && m.Lag < best.Lag:
			best = m
		}
	}
	return best
}
