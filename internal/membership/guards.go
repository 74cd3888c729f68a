// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
)

// Guard is the name of a condition that must be true before a step is carried out.
type Guard string

// The guards.
const (
	GuardListKnown        Guard = "ListKnown"
	GuardReplicasObserved Guard = "ReplicasObserved"
	GuardChangeObserved   Guard = "ChangeObserved"
	GuardMembersKnown     Guard = "MembersKnown"
	GuardUnlisted         Guard = "Unlisted"
	GuardDataElsewhere    Guard = "DataElsewhere"
	GuardOneLearner       Guard = "OneLearner"
	GuardStoreFree        Guard = "StoreFree"
	GuardOthersServing    Guard = "OthersServing"
	GuardQuorumKept       Guard = "QuorumKept"
	GuardMembersSettled   Guard = "MembersSettled"
	GuardLearnerCaughtUp  Guard = "LearnerCaughtUp"
	GuardGoalVotes        Guard = "GoalVotes"
	GuardLeaderStays      Guard = "LeaderStays"
	GuardRemovalAnnounced Guard = "RemovalAnnounced"
	GuardBackedUp         Guard = "BackedUp"
	GuardSingleAgreed     Guard = "SingleAgreed"
)

// MaxLag is how many raft entries a learner may have yet to apply when it gets its vote. etcd promotes at nine tenths of the
// leader's index, which may be a million entries behind; with two voters, every write waits for the slower one.
const MaxLag = 100

type guard struct {
	name Guard
	// overridable guards are not asked if the task overrides them.
	overridable bool
	// judges are the actions that it is asked about; none: it is asked before there is a step.
	judges []Action
	// check returns why the condition is false and what to do; empty if it is true.
	check func(s *state, step *Step) string
}

var (
	joins   = []Action{AddLearner, PromoteLearner}
	changes = []Action{AddLearner, PromoteLearner, RemoveMember}
	deletes = []Action{ScaleDown, DeleteClaim, DeletePod}
	// leaves are removals, and what prepares them.
	leaves = []Action{MoveLeader, Announce, RemoveMember}
)

// guards are what is asked before each step, in this order. The first that blocks is shown first.
var guards = []guard{
	// A member answers, and its list is linearizable.
	{name: GuardListKnown, check: listKnown},
	// The StatefulSet controller has seen the newest replicas.
	{name: GuardReplicasObserved, check: replicasObserved},
	// The change that was requested last shows in the list, or can no longer happen.
	{name: GuardChangeObserved, check: changeObserved},
	// Every member is ours, or was declared as a source.
	{name: GuardMembersKnown, judges: append(slices.Clone(changes), MoveLeader, Announce), check: membersKnown},
	// The ordinal whose pod or claim goes is not in the list.
	{name: GuardUnlisted, judges: deletes, check: unlisted},
	// What the claim holds is on a quorum of voters that serve.
	{name: GuardDataElsewhere, judges: []Action{DeleteClaim, DeletePod}, check: dataElsewhere},
	// There is no learner when one is added.
	{name: GuardOneLearner, judges: []Action{AddLearner}, check: oneLearner},
	// The volume of the newcomer has no data that it could start with.
	{name: GuardStoreFree, judges: []Action{AddLearner}, check: storeFree},
	// Every other voter serves.
	{name: GuardOthersServing, overridable: true, judges: append(slices.Clone(changes), MoveLeader, Announce), check: othersServing},
	// The voters that serve are a quorum before the change, and after it without the one that it is about.
	{name: GuardQuorumKept, judges: append(slices.Clone(changes), MoveLeader, Announce), check: quorumKept},
	// etcd would not refuse the change because connections are too young.
	{name: GuardMembersSettled, judges: changes, check: membersSettled},
	// The learner is close behind, and stays so.
	{name: GuardLearnerCaughtUp, judges: []Action{PromoteLearner}, check: learnerCaughtUp},
	// Every member of the goal votes before one that serves leaves.
	{name: GuardGoalVotes, overridable: true, judges: leaves, check: goalVotes},
	// The leader is not removed: it would not hand over.
	{name: GuardLeaderStays, judges: []Action{RemoveMember}, check: leaderStays},
	// The member knows that it leaves.
	{name: GuardRemovalAnnounced, judges: []Action{RemoveMember}, check: removalAnnounced},
	// Where two voters become one, everything is in a backup.
	{name: GuardBackedUp, overridable: true, judges: []Action{RemoveMember}, check: backedUp},
	// Where redundancy ends, a person has agreed.
	{name: GuardSingleAgreed, judges: leaves, check: singleAgreed},
}

func listKnown(s *state, _ *Step) string {
	if len(s.Members) > 0 {
		return ""
	}
	return "no member answers with a member list: members change only while the cluster has a quorum"
}

func replicasObserved(s *state, _ *Step) string {
	if s.Observed {
		return ""
	}
	return fmt.Sprintf("the StatefulSet controller has not seen %d replicas yet: if this persists, check kube-controller-manager", s.Replicas)
}

func changeObserved(s *state, _ *Step) string {
	if s.Pending == "" {
		return ""
	}
	return s.Pending + ", and that does not show in the member list yet"
}

func membersKnown(s *state, _ *Step) string {
	for _, m := range s.Members {
		if m.Owner == Unknown {
			return fmt.Sprintf("member %s (%x) is not of this cluster's StatefulSet and was not declared: remove it with etcdctl, or declare it", m.Name, m.ID)
		}
	}
	return ""
}

func unlisted(s *state, step *Step) string {
	if m := s.listed(step.Ordinal); m != nil {
		return fmt.Sprintf("%s is in the member list: it leaves the cluster before its pod or claim is removed", m.Name)
	}
	return ""
}

func dataElsewhere(s *state, _ *Step) string {
	if s.serving >= s.quorumWith(0) {
		return ""
	}
	return fmt.Sprintf("%d of %d voters serve, fewer than a quorum: their data may be needed", s.serving, len(s.voters))
}

func oneLearner(s *state, _ *Step) string {
	if m := s.learner(); m != nil {
		return fmt.Sprintf("%s is a learner, and etcd has one at a time", m.Name)
	}
	return ""
}

func storeFree(s *state, step *Step) string {
	switch s.ordinal(step.Ordinal).Store {
	case Free:
		return ""
	case Left:
		return fmt.Sprintf("the volume of ordinal %d holds the data of a member that was removed, which its agent sets aside first", step.Ordinal)
	default:
		return fmt.Sprintf("the agent of ordinal %d does not say yet that its volume is free: see the events and the log of its pod", step.Ordinal)
	}
}

func othersServing(s *state, step *Step) string {
	var down []string
	for _, m := range s.voters {
		if m.ID != step.Member && !m.Serving && !(step.Action != AddLearner && step.Action != PromoteLearner && !s.stays(&m)) {
			down = append(down, m.Name)
		}
	}
	if len(down) == 0 {
		return ""
	}
	return fmt.Sprintf("%s does not serve: members change while every other one does", strings.Join(down, ", "))
}

// quorumKept is the promise. A learner counts as nothing until it votes, and a new voter as one that does not serve, since a
// write may have to wait for it; only where there is one voter the two have to serve together.
func quorumKept(s *state, step *Step) string {
	before, after, needed := s.serving, s.serving, s.quorumWith(0)
	switch m := s.member(step.Member); {
	case step.Action == PromoteLearner:
		needed = s.quorumWith(1)
		if len(s.voters) == 1 && m.Serving {
			after++
		}
	case step.Action == RemoveMember || step.Action == Announce || step.Action == MoveLeader:
		if !m.Learner {
			needed = s.quorumWith(-1)
			after = s.servingWithout(m.ID)
		}
	}
	switch {
	case before < s.quorumWith(0):
		return fmt.Sprintf("%d of %d voters serve, fewer than a quorum", before, len(s.voters))
	case len(s.voters) == 1 && (step.Action == RemoveMember || step.Action == Announce):
		if m := s.member(step.Member); !m.Learner {
			return m.Name + " is the only voter"
		}
	case after < needed:
		return fmt.Sprintf("%d voters would be sure to serve afterwards, and a quorum takes %d", after, needed)
	}
	return ""
}

// servingWithout is the number of other voters that serve.
func (s *state) servingWithout(id uint64) int {
	n := 0
	for _, m := range s.voters {
		if m.Serving && m.ID != id {
			n++
		}
	}
	return n
}

// membersSettled is etcd's own rule (--strict-reconfig-check), which looks at connections: what it would refuse is not asked.
func membersSettled(s *state, step *Step) string {
	settled, needed := s.settled(), s.quorumWith(0)
	m := s.member(step.Member)
	switch {
	case step.Action == AddLearner && len(s.voters) > 1:
		needed = s.quorumWith(1)
	case step.Action == RemoveMember && !m.Learner && m.Serving:
		needed = s.quorumWith(-1) + 1
	}
	if settled >= needed {
		return ""
	}
	return fmt.Sprintf("%d of %d voters have been connected for long enough, and etcd wants %d", settled, len(s.voters), needed)
}

func learnerCaughtUp(s *state, step *Step) string {
	switch m := s.member(step.Member); {
	case !m.Serving:
		return fmt.Sprintf("%s does not serve yet: it has no vote until it has caught up", m.Name)
	case m.Lag > MaxLag:
		return fmt.Sprintf("%s is %d raft entries behind, and gets its vote at %d: if the distance does not shrink, check its disk and network", m.Name, m.Lag, MaxLag)
	case !m.Steady:
		return fmt.Sprintf("%s has caught up a moment ago, and gets its vote if that lasts", m.Name)
	}
	return ""
}

func goalVotes(s *state, step *Step) string {
	if m := s.member(step.Member); m.Learner || !m.Serving || s.goalVotes() {
		return ""
	}
	return "a member that serves leaves only once all that are to stay vote and serve"
}

func leaderStays(s *state, step *Step) string {
	m := s.member(step.Member)
	switch {
	case m.Leads:
		return fmt.Sprintf("%s leads, and no other voter can: it would leave without handing over", m.Name)
	case s.leader == nil && !m.Learner:
		return fmt.Sprintf("no leader is known, and it may be %s", m.Name)
	}
	return ""
}

func removalAnnounced(s *state, step *Step) string {
	m := s.member(step.Member)
	if m.Owner != Ours || m.Told && (m.Confirmed || !m.Serving) {
		return ""
	}
	return fmt.Sprintf("the agent of %s has not read yet that its member leaves: the kubelet passes that on within about a minute", m.Name)
}

func backedUp(s *state, step *Step) string {
	if s.member(step.Member).Learner || len(s.voters) > 2 || s.BackedUp {
		return ""
	}
	return "two voters become one, and the newest backup is too old: wait for the next snapshot, or create one with kubectl etcdtask snapshot"
}

func singleAgreed(s *state, step *Step) string {
	m := s.member(step.Member)
	if s.Goal.Single || s.Goal.Size != 1 || m.Learner || s.Goal.KeepSources {
		return ""
	}
	return "one member would remain, and nothing would be redundant: that has to be agreed to"
}
