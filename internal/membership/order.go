// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"fmt"
	"slices"
)

// candidate is the step that comes next, if every guard allows it; nil if the members are what they are to be. The first of
// the order that has something to do does it.
func (s *state) candidate() *Step {
	for _, next := range []func(*state) *Step{
		retract,      // what was announced, and is no longer to happen
		removeDown,   // who is to leave and does not serve: etcd adds nobody beside a member that is down
		learnerFirst, // promote the learner, or remove it: etcd has one at a time
		cleanUp,      // pods and claims of ordinals that have left
		add,          // redundancy grows before it shrinks
		remove,       // the leader last
	} {
		if step := next(s); step != nil {
			return step
		}
	}
	return nil
}

func retract(s *state) *Step {
	for i := range s.Members {
		m := &s.Members[i]
		if m.Told && s.stays(m) && !s.isNextToRenew(m) {
			return about(m, Retract, fmt.Sprintf("%s was told that it leaves, and stays", m.Name))
		}
	}
	return nil
}

func removeDown(s *state) *Step {
	for _, m := range s.leaving() {
		if m.Serving || m.Learner {
			continue
		}
		reason := m.Name + " is to leave, and does not serve"
		if s.isLost(m) && s.wanted(m.Ordinal) {
			reason = fmt.Sprintf("the data of %s is gone: it joins again as another member", m.Name)
		}
		return s.removal(m, reason)
	}
	return nil
}

func learnerFirst(s *state) *Step {
	m := s.learner()
	switch {
	case m == nil || m.Owner == Unknown:
		return nil // the guards say so
	case s.stays(m):
		return about(m, PromoteLearner, fmt.Sprintf("%s has caught up", m.Name))
	default:
		return s.removal(m, m.Name+" is no longer to join")
	}
}

// cleanUp removes what is left of ordinals that are not in the list. Pods go before claims where the ordinal goes; where
// another pod takes its place, the claim goes first, or the StatefulSet controller would give it the same one again.
func cleanUp(s *state) *Step {
	for i := len(s.Ordinals) - 1; i >= 0; i-- {
		o := s.Ordinals[i]
		switch {
		case s.listed(i) != nil:
		case !s.wanted(i) && i == s.Replicas-1:
			return &Step{Action: ScaleDown, Ordinal: i, Reason: fmt.Sprintf("the member of ordinal %d has left", i)}
		case !s.wanted(i) && i >= s.Replicas && o.Claim && !o.Pod && !o.Terminating && !s.Goal.KeepClaims:
			return &Step{Action: DeleteClaim, Ordinal: i, Reason: fmt.Sprintf("ordinal %d has left, and its claim is not to be kept", i)}
		case s.wanted(i) && o.Outdated == Volume && o.Claim && !o.Terminating:
			return &Step{Action: DeleteClaim, Ordinal: i, Reason: fmt.Sprintf("ordinal %d is to have another volume", i)}
		case s.wanted(i) && o.Outdated != Nothing && o.Pod:
			return &Step{Action: DeletePod, Ordinal: i, Reason: fmt.Sprintf("ordinal %d is to have another pod", i)}
		}
	}
	return nil
}

func add(s *state) *Step {
	for i := range s.Goal.Size + 1 {
		switch {
		case !s.wanted(i) || s.listed(i) != nil:
		case i >= s.Replicas:
			return &Step{Action: ScaleUp, Ordinal: s.Replicas, Reason: fmt.Sprintf("%d of %d members", s.Replicas, max(s.Goal.Size, i+1))}
		default:
			return &Step{Action: AddLearner, Ordinal: i, Reason: fmt.Sprintf("the member of ordinal %d is to join", i)}
		}
	}
	return nil
}

func remove(s *state) *Step {
	leaving := s.leaving()
	if len(leaving) == 0 {
		return nil
	}
	m := leaving[0]
	if successor := s.successor(leaving); m.Leads && successor != nil {
		step := about(m, MoveLeader, fmt.Sprintf("%s leads and is to leave: leadership goes to %s", m.Name, successor.Name))
		step.Successor = successor.ID
		return step
	}
	if s.stays(m) {
		return s.removal(m, fmt.Sprintf("%s is outdated: it joins again on another %s", m.Name, map[Outdated]string{Pod: "pod", Volume: "volume"}[s.ordinal(m.Ordinal).Outdated]))
	}
	return s.removal(m, m.Name+" is to leave")
}

// removal removes a member that was told; otherwise it is told first.
func (s *state) removal(m *Member, reason string) *Step {
	if m.Owner == Ours && !m.Told {
		return about(m, Announce, reason+": it is told first, so that it does not join again")
	}
	return about(m, RemoveMember, reason)
}

func about(m *Member, action Action, reason string) *Step {
	step := &Step{Action: action, Ordinal: -1, Member: m.ID, Reason: reason}
	if m.Owner == Ours {
		step.Ordinal = m.Ordinal
	}
	return step
}

// leaving are the members that are to leave, the next one first: those that do not serve, then followers, then the leader; of
// each, the sources, and then the highest ordinal. Once nobody else is, it is the next member that has to be replaced.
func (s *state) leaving() []*Member {
	var leaving []*Member
	for i := range s.Members {
		if m := &s.Members[i]; !s.stays(m) || s.isNextToRenew(m) {
			leaving = append(leaving, m)
		}
	}
	rank := func(m *Member) int {
		switch {
		case !m.Serving:
			return 0
		case !m.Leads:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(leaving, func(a, b *Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Owner, a.Owner), cmp.Compare(b.Ordinal, a.Ordinal), cmp.Compare(a.ID, b.ID))
	})
	return leaving
}

// isNextToRenew reports whether a member is the next that has to be replaced: every other member votes, the further one
// included, and it is the outdated one with the lowest ordinal that does not lead.
func (s *state) isNextToRenew(m *Member) bool {
	if m.Owner != Ours || m.Ordinal >= s.Goal.Size || !s.votes(s.Goal.Size) {
		return false
	}
	next := -1
	for i := range s.Goal.Size {
		switch {
		case !s.votes(i):
			return false
		case s.ordinal(i).Outdated != Nothing && (next < 0 || s.listed(next).Leads):
			next = i
		}
	}
	return next == m.Ordinal
}

// successor is the voter that leadership goes to: one that stays and has applied most; nil if none serves.
func (s *state) successor(leaving []*Member) *Member {
	var best *Member
	for i := range s.Members {
		m := &s.Members[i]
		if m.Learner || !m.Serving || m.Leads || m.Owner == Unknown || slices.Contains(leaving, m) {
			continue
		}
		if best == nil || m.Lag < best.Lag {
			best = m
		}
	}
	return best
}
