// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import "fmt"

func goalVotes(s *state, step *Step) string {
	if m := s.member(step.Member); m.Owner == Source && !m.Learner && m.Serving && !s.goalVotes() {
		return m.Name + " serves, and leaves once all members that replace it vote and serve"
	}
	return ""
}

func sourcesPresent(s *state, step *Step) string {
	m, sources := s.member(step.Member), s.sources()
	if !s.Goal.KeepSources || s.Goal.Size > 0 || m.Learner || sources >= s.Sources {
		return ""
	}
	return fmt.Sprintf("only %d of %d members of the source cluster are left, so the migration can no longer be given up: complete it", sources, s.Sources)
}

func leaderStays(s *state, step *Step) string {
	m := s.member(step.Member)
	switch {
	case m.Learner:
		return ""
	case m.Leads:
		return m.Name + " leads and cannot hand over: if this persists, check its log and the network between it and the operator"
	case s.leader == nil:
		return fmt.Sprintf("no leader is known, and it may be %s", m.Name)
	}
	return ""
}

func successorCaughtUp(s *state, step *Step) string {
	if m := s.member(step.Successor); m.Lag > MaxLag {
		return fmt.Sprintf("%s is %d raft entries behind, and can lead at %d: writes would stop until then", m.Name, m.Lag, MaxLag)
	}
	return ""
}

// removalAnnounced asks about all members that serve and leave before the first of them is removed, and before the learner votes
// about the one that it relieves: an agent reads within a minute or so, which is not to pass while there are two voters. A member
// that does not serve is told when it starts.
func removalAnnounced(s *state, step *Step) string {
	m := s.member(step.Member)
	asked := []*Member{m}
	switch {
	case step.Action == PromoteLearner:
		asked = []*Member{s.relieved()}
	case m.Serving && !m.Learner:
		asked = s.leaving()
	}
	for _, m := range asked {
		if m != nil && m.Owner == Ours && (!m.Told || m.Serving && !m.Confirmed) {
			return unread(m, "that its member leaves")
		}
	}
	return ""
}

// successorReady has a member serve until clients reach another one: a learner is not ready, and gets its vote last. Two voters
// tolerate no failure, so a readiness probe is not waited for long (Member.Reached).
func successorReady(s *state, step *Step) string {
	m, waits := s.member(step.Member), ""
	if m.Owner != Ours || m.Learner || !m.Serving || s.Goal.KeepSources {
		return ""
	}
	for i := range s.voters {
		switch o := &s.voters[i]; {
		case o.Owner != Ours || !o.Serving || s.leaves(o):
		case o.Reached:
			return ""
		default:
			waits = o.Name
		}
	}
	if waits == "" {
		return ""
	}
	return fmt.Sprintf("clients do not reach %s through the Service yet: %s serves them until the readiness probe of %s has passed for a second", waits, m.Name, waits)
}

// backedUp asks before there are two voters, so that none of the two has to wait for a backup.
func backedUp(s *state, step *Step) string {
	m, n := s.member(step.Member), len(s.voters)
	switch {
	case s.BackedUp:
		return ""
	case step.Action == PromoteLearner && s.relieved() == nil:
		return ""
	case step.Action == RemoveMember && (m.Learner || n > 3 || n == 3 && s.finally() > 1):
		return ""
	}
	return "one voter will remain, and the newest backup is too old, or the last one failed (condition BackupReady): wait for the next snapshot. One that you request (kubectl etcdtask snapshot ETCD) is taken once this task is stalled"
}

func singleAgreed(s *state, step *Step) string {
	m := s.member(step.Member)
	if s.Goal.Single || s.finally() != 1 || len(s.voters) < 3 || m.Learner || !s.leaves(m) {
		return ""
	}
	say := "one member would remain, and no failure would be tolerated any more: to agree to that, annotate the Etcd with druid.gardener.cloud/allow-single-member=true"
	if s.Goal.Refusal != "" {
		say += fmt.Sprintf(" (it has the value %s)", s.Goal.Refusal)
	}
	return say
}
