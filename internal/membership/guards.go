// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

// Guard is the name of a condition that must be true before a step is carried out.
type Guard string

// The guards. Those that a rollout has as well have its names.
const (
	GuardListKnown         Guard = "ListKnown"
	GuardRevisionObserved  Guard = "RevisionObserved"
	GuardChangeObserved    Guard = "ChangeObserved"
	GuardNothingElseActs   Guard = "NothingElseActs"
	GuardGoalOdd           Guard = "GoalOdd"
	GuardMembersKnown      Guard = "MembersKnown"
	GuardDataElsewhere     Guard = "DataElsewhere"
	GuardOneLearner        Guard = "OneLearner"
	GuardAddressesSettled  Guard = "AddressesSettled"
	GuardStoreFree         Guard = "StoreFree"
	GuardJoinAnnounced     Guard = "JoinAnnounced"
	GuardOthersServing     Guard = "OthersServing"
	GuardQuorumKept        Guard = "QuorumKept"
	GuardMembersSettled    Guard = "MembersSettled"
	GuardUnreadyConfirmed  Guard = "UnreadyConfirmed"
	GuardLearnerCaughtUp   Guard = "LearnerCaughtUp"
	GuardSourcesKeepQuorum Guard = "SourcesKeepQuorum"
	GuardGoalVotes         Guard = "GoalVotes"
	GuardSourcesPresent    Guard = "SourcesPresent"
	GuardLeaderStays       Guard = "LeaderStays"
	GuardSuccessorCaughtUp Guard = "SuccessorCaughtUp"
	GuardRemovalAnnounced  Guard = "RemovalAnnounced"
	GuardSuccessorReady    Guard = "SuccessorReady"
	GuardBackedUp          Guard = "BackedUp"
	GuardSingleAgreed      Guard = "SingleAgreed"
)

type guard struct {
	name Guard
	// overridable guards are not asked if the task overrides them.
	overridable bool
	// judges are the actions that it is asked about; none: it is asked before there is a step.
	judges []Action
	// check returns why the condition is false and what to do; empty if it is true.
	check func(s *state, step *Step) string
}

// guards are what is asked before each step, in this order. The first that blocks is shown first.
var guards = []guard{
	// A member answers, and its list is linearizable.
	{name: GuardListKnown, check: listKnown},
	// The StatefulSet controller has observed the newest spec of the StatefulSet.
	{name: GuardRevisionObserved, check: revisionObserved},
	// The request that was sent last shows in the list, or can no longer take effect.
	{name: GuardChangeObserved, check: changeObserved},
	// No rollout, recovery or hibernation acts on the members.
	{name: GuardNothingElseActs, check: nothingElseActs},
	// The goal is an odd number of voters.
	{name: GuardGoalOdd, check: goalOdd},
	// Every member is ours, at an ordinal of its own, or was declared as a source.
	{name: GuardMembersKnown, judges: []Action{ScaleUp, AnnounceJoin, AddLearner, PromoteLearner, MoveLeader, Announce, RemoveMember, ScaleDown, DeleteClaim, DeletePod}, check: membersKnown},
	// What the claim holds is of this cluster, and on a quorum of voters that serve.
	{name: GuardDataElsewhere, judges: []Action{ScaleDown, DeleteClaim, DeletePod}, check: dataElsewhere},
	// There is no learner when one is added.
	{name: GuardOneLearner, judges: []Action{AddLearner}, check: oneLearner},
	// Members are reached where pods with the newest template look for them.
	{name: GuardAddressesSettled, judges: []Action{ScaleUp}, check: addressesSettled},
	// The claim of the newcomer is the Etcd's own, its volume has no data that it could start with, and its pod stays.
	{name: GuardStoreFree, judges: []Action{ScaleUp, AnnounceJoin, AddLearner}, check: storeFree},
	// The agent of the only member has read that it is not the only one any more.
	{name: GuardJoinAnnounced, judges: []Action{AddLearner}, check: joinAnnounced},
	// Every other voter that stays serves.
	{name: GuardOthersServing, overridable: true, judges: []Action{AddLearner, MoveLeader, RemoveMember}, check: othersServing},
	// The voters that serve are a quorum before the change, and after it without the one that it is about.
	{name: GuardQuorumKept, judges: []Action{AddLearner, PromoteLearner, RemoveMember}, check: quorumKept},
	// etcd would refuse neither this change nor the next one because connections are too young.
	{name: GuardMembersSettled, judges: []Action{AddLearner, PromoteLearner, RemoveMember}, check: membersSettled},
	// A voter that is removed because it does not serve has not served for the grace period.
	{name: GuardUnreadyConfirmed, judges: []Action{RemoveMember}, check: unreadyConfirmed},
	// The learner is close behind, and stays so.
	{name: GuardLearnerCaughtUp, judges: []Action{PromoteLearner}, check: learnerCaughtUp},
	// Until the cut-over, the sources are a quorum without the members that join them.
	{name: GuardSourcesKeepQuorum, judges: []Action{PromoteLearner}, check: sourcesKeepQuorum},
	// A source that serves leaves only once every member of the goal votes and serves, whatever is overridden.
	{name: GuardGoalVotes, judges: []Action{RemoveMember}, check: goalVotes},
	// A migration is given up only while every source votes.
	{name: GuardSourcesPresent, judges: []Action{MoveLeader, Announce, RemoveMember}, check: sourcesPresent},
	// The leader is not removed: it would not hand over.
	{name: GuardLeaderStays, judges: []Action{RemoveMember}, check: leaderStays},
	// The member that leadership goes to is not far behind the leader.
	{name: GuardSuccessorCaughtUp, judges: []Action{MoveLeader}, check: successorCaughtUp},
	// The agents of members that leave have read it.
	{name: GuardRemovalAnnounced, judges: []Action{PromoteLearner, RemoveMember}, check: removalAnnounced},
	// Clients that come through the Service reach a member that stays.
	{name: GuardSuccessorReady, judges: []Action{RemoveMember}, check: successorReady},
	// Where one voter will remain, everything is in a backup.
	{name: GuardBackedUp, overridable: true, judges: []Action{PromoteLearner, RemoveMember}, check: backedUp},
	// Where no failure will be tolerated, a person has agreed.
	{name: GuardSingleAgreed, judges: []Action{MoveLeader, Announce, RemoveMember}, check: singleAgreed},
}

// Overridable returns the names of the guards that a task may override, in the order in which they are asked.
func Overridable() []string {
	var names []string
	for _, g := range guards {
		if g.overridable {
			names = append(names, string(g.name))
		}
	}
	return names
}
