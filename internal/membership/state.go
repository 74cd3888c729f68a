// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
)

// state is an Input with what is derived from it.
type state struct {
	Input
	// voters are the members with a vote, and serving is the number of those that serve.
	voters  []Member
	serving int
	// leader is nil while no member that answers leads.
	leader *Member
}

func newState(in Input) *state {
	s := &state{Input: in}
	for i := range in.Members {
		m := &in.Members[i]
		if m.Leads {
			s.leader = m
		}
		if !m.Learner {
			s.voters = append(s.voters, *m)
		}
	}
	s.serving = s.count(func(m *Member) bool { return m.Serving })
	return s
}

// member returns the member with an ID; nil if it is not in the list.
func (s *state) member(id uint64) *Member {
	return s.find(func(m *Member) bool { return m.ID == id })
}

// listed returns the member of an ordinal; nil if it is not in the list.
func (s *state) listed(ordinal int) *Member {
	return s.find(func(m *Member) bool { return m.Owner == Ours && m.Ordinal == ordinal })
}

func (s *state) votes(ordinal int) bool {
	m := s.listed(ordinal)
	return m != nil && !m.Learner
}

// ordinal returns what is known of an ordinal, which may be nothing.
func (s *state) ordinal(i int) Ordinal {
	if i < 0 || i >= len(s.Ordinals) {
		return Ordinal{}
	}
	return s.Ordinals[i]
}

// learner returns the learner; nil if there is none.
func (s *state) learner() *Member {
	return s.find(func(m *Member) bool { return m.Learner })
}

// find returns the first member that a function accepts; nil if there is none.
func (s *state) find(accepts func(*Member) bool) *Member {
	for i := range s.Members {
		if accepts(&s.Members[i]) {
			return &s.Members[i]
		}
	}
	return nil
}

// surge reports whether a further member is needed, on the first ordinal beyond the goal: while a voter has to be replaced, and until all
// that were replaced have joined again.
func (s *state) surge() bool {
	further := s.listed(s.Goal.Size)
	for i := range s.Goal.Size {
		outdated, votes := s.ordinal(i).Outdated != Nothing, s.votes(i)
		if outdated && votes || further != nil && !further.Learner && (outdated || !votes) {
			return true
		}
	}
	return false
}

// wanted reports whether the member of an ordinal is to be in the list, now.
func (s *state) wanted(ordinal int) bool {
	return ordinal < s.Goal.Size || ordinal == s.Goal.Size && s.surge()
}

// stays reports whether a member is to be in the list, now. One that was not declared is left alone.
func (s *state) stays(m *Member) bool {
	switch m.Owner {
	case Ours:
		return s.wanted(m.Ordinal) && !s.isLost(m) && !m.Stale && (!m.Learner || s.ordinal(m.Ordinal).Outdated == Nothing)
	case Source:
		return s.Goal.KeepSources
	default:
		return true
	}
}

// isLost reports whether the data of a member is gone: it can only come back as another member.
func (s *state) isLost(m *Member) bool { return m.Owner == Ours && !m.Serving && m.Lost }

// settled is the number of voters that have served for as long as etcd wants of a connection.
func (s *state) settled() int {
	return s.count(func(m *Member) bool { return m.Serving && m.Settled })
}

// count returns the number of voters that a function accepts.
func (s *state) count(accepts func(*Member) bool) (n int) {
	for i := range s.voters {
		if accepts(&s.voters[i]) {
			n++
		}
	}
	return n
}

// goalVotes reports whether every member of the goal, and the further one if it is needed, votes and serves.
func (s *state) goalVotes() bool {
	for i := range s.Goal.Size + 1 {
		if m := s.listed(i); s.wanted(i) && (m == nil || m.Learner || !m.Serving) {
			return false
		}
	}
	return true
}

// sources is the number of sources that vote.
func (s *state) sources() int {
	return s.count(func(m *Member) bool { return m.Owner == Source })
}

// finally is the number of voters once the goal is reached.
func (s *state) finally() int {
	if s.Goal.KeepSources {
		return s.Goal.Size + s.sources()
	}
	return s.Goal.Size
}

// relieved returns the only voter if it leaves as soon as the learner votes; otherwise nil. Two voters tolerate no failure, so
// whatever its removal has to wait for is waited for before the promotion.
func (s *state) relieved() *Member {
	learner := s.learner()
	if len(s.voters) != 1 || learner == nil || !s.stays(learner) {
		return nil
	}
	in := s.Input
	in.Members = slices.Clone(in.Members)
	for i := range in.Members {
		in.Members[i].Learner, in.Members[i].Serving = false, true
	}
	promoted := newState(in)
	if m := promoted.member(s.voters[0].ID); promoted.goalVotes() && promoted.leaves(m) {
		return s.member(m.ID)
	}
	return nil
}

// alone returns the only voter if it may consider itself the only member; otherwise nil. Its ConfigMap lists the ordinals up to the highest,
// so this can only be the first.
func (s *state) alone() *Member {
	if len(s.voters) != 1 || s.voters[0].Owner != Ours || s.voters[0].Ordinal > 0 {
		return nil
	}
	return &s.voters[0]
}

// quorumWith is the number of voters that a quorum takes with so many voters more, or fewer.
func (s *state) quorumWith(more int) int { return quorum.Size(len(s.voters) + more) }
