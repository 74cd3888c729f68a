// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"
)

func down(m *Member)     { m.Serving, m.Unready = false, true }
func lost(m *Member)     { m.Lost = true }
func fresh(m *Member)    { m.Reached = false }
func silent(m *Member)   { m.Silent = true }
func unsteady(m *Member) { m.Steady = false }

func readdressed(in *Input) { in.Readdressed = true }

func atLag(lag uint64) func(*Member) { return func(m *Member) { m.Lag = lag } }

// blocked is what the first guard that blocks says; the action if none does.
func blocked(d Decision) string {
	switch d.Conclusion {
	case Wait:
		return string(d.Blocking[0].Guard) + ": " + d.Blocking[0].Message
	case Act:
		return string(d.Step.Action) + ": " + d.Step.Reason
	}
	return string(d.Conclusion)
}

// Each guard says why it blocks, and what to do; and allows what is just enough.
func TestMessages(t *testing.T) {
	three := func(goal Goal, members ...Member) Input { return observed(3, goal, members...) }
	join := func(store Store, members ...Member) Input {
		return observed(3, Goal{Size: 3}, members...).at(2, Ordinal{Pod: true, Claim: true, Store: store})
	}
	set := func(in Input, change func(*Input)) Input { change(&in); return in }
	// A member has yet to join again while a pod beyond the goal has the data of another cluster.
	beyond := func(of1 Ordinal) Input {
		return observed(4, Goal{Size: 3}, ours(0, leads), ours(2)).at(1, of1).at(3, Ordinal{Pod: true, Claim: true, Store: Other})
	}
	grow := three(Goal{Size: 5}, ours(0, leads), ours(1), ours(2))
	for _, c := range []struct {
		in   Input
		want string
	}{
		{set(grow, func(in *Input) { in.Members = nil }), "ListKnown: no member answers the operator with a member list: members change only while a quorum answers. If the quorum is lost, restore it first"},
		{set(grow, func(in *Input) { in.Observed = false }), "RevisionObserved: the StatefulSet controller has not observed the newest spec of the StatefulSet: if this persists, check kube-controller-manager"},
		{set(grow, func(in *Input) { in.Acting = "A rollout replaces pods" }), "NothingElseActs: A rollout replaces pods: members change after that"},
		{set(grow, readdressed), "AddressesSettled: a rollout that changes how members are reached (clientPort, or TLS for clients or peers) comes before further members, which would not find the present ones. If none begins, see TLSReady and the errors in the status of the Etcd"},
		{set(three(Goal{Size: 5}, ours(0, leads), ours(1, lost, down), ours(2)), readdressed), "Announce: the data of m-1 is gone, so it rejoins as a new member; its agent must know before that"},
		{set(observed(4, Goal{Size: 5}, ours(0, leads), ours(1), ours(2)).at(3, Ordinal{Pod: true, Claim: true, Store: Free}), readdressed), "AddLearner: ordinal 3 joins the cluster"},
		{set(observed(2, Goal{Size: 3}, ours(0, leads), ours(1)), readdressed), "ScaleUp: ordinal 2 needs a pod before its member can join"},
		{set(observed(1, Goal{Size: 3}, ours(0, leads), ours(1)), readdressed), "ScaleUp: m-1 is in the member list and has no pod among 1 replicas"},
		{three(Goal{}, ours(0, leads), ours(1), ours(2)), "GoalOdd: no voter would remain: keep at least one member, or the source cluster"},
		{three(Goal{Size: 2}, ours(0, leads), ours(1), ours(2)), "GoalOdd: 2 voters tolerate no more failures than 1: choose a size that leads to 1 or 3"},
		{join(Free, ours(0, leads), ours(1), Member{ID: 0xab, Name: "x"}), "MembersKnown: x (ab) is not a member of this StatefulSet and was not declared: remove it (etcdctl member remove ab)"},
		{set(join(Free, ours(0, leads), source(1), Member{ID: 0xab, Name: "x"}), func(in *Input) { in.Sources = 2 }), "MembersKnown: x (ab) is not a member of this StatefulSet and was not declared: remove it (etcdctl member remove ab)"},
		{set(observed(1, Goal{KeepSources: true}, source(0, leads), source(1), ours(0), Member{ID: 0xab, Name: "x"}), func(in *Input) { in.Sources = 2 }), "MembersKnown: x (ab) is not a member of this StatefulSet and was not declared: remove it (etcdctl member remove ab); or if it belongs to the source cluster, name it in spec.etcd.bootstrapWithExistingCluster"},
		{set(join(Free, source(0, leads), source(1), Member{ID: 0xab, Name: "x"}), func(in *Input) { in.Sources, in.Goal.KeepSources = 2, true }), "MembersKnown: x (ab) is not a member of this StatefulSet and was not declared: remove it (etcdctl member remove ab); or if it belongs to the source cluster, name it in spec.etcd.bootstrapWithExistingCluster once BootstrappedWithExistingCluster is True, or while spec.replicas is 0"},
		{join(Free, source(0, leads), source(1), Member{ID: 0xab, Name: "m-0", Elsewhere: "http://x"}), "MembersKnown: m-0 (ab) has the name of a member of this StatefulSet, and other peer URLs (http://x): a second Etcd of this name may have joined the source cluster, and its members are left alone. Delete one of the two Etcds; or, if it is this one's, name its URL in spec.etcd.additionalAdvertisedURLs"},
		{join(Free, ours(0, leads), ours(1), ours(1, func(m *Member) { m.ID = 0xab })), "MembersKnown: two members are listed for ordinal 1 (b and ab): remove the one that does not run with etcdctl"},
		{observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)).at(3, Ordinal{Pod: true, Claim: true, Store: Other}), "DataElsewhere: the volume of ordinal 3 holds the data of another cluster: copy what you need of it, and delete its claim"},
		{set(observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)), func(in *Input) { in.Ordinals = append(in.Ordinals, Ordinal{Pod: true, Claim: true}) }), "DataElsewhere: the pod of ordinal 3 is not gone yet, and its claim goes after it"},
		{set(three(Goal{Size: 3}, ours(0, leads), ours(1, down), ours(2, down)), func(in *Input) { in.Ordinals = append(in.Ordinals, Ordinal{Claim: true}) }), "DataElsewhere: 1 of 3 voters serve, which is not a quorum: the data of ordinal 3 may be needed"},
		{observed(4, Goal{Size: 3}, ours(0, leads), ours(1, down), ours(2, down)), "ScaleDown: the member of ordinal 3 has left"},
		{beyond(Ordinal{Pod: true, Claim: true, Store: Free}), "AddLearner: ordinal 1 joins the cluster"},
		{beyond(Ordinal{Pod: true, Claim: true, Store: Left, Outdated: Volume}), "DeleteClaim: ordinal 1 gets another volume"},
		{beyond(Ordinal{Pod: true, Claim: true, Store: Left, Outdated: Pod}), "DeletePod: ordinal 1 gets another pod"},
		{beyond(Ordinal{Pod: true, Claim: true}), "StoreFree: the agent of ordinal 1 has not reported yet that its volume is free: if this persists, see the events and the log of its pod"},
		{set(beyond(Ordinal{Pod: true, Claim: true, Store: Free}), func(in *Input) { in.Ordinals[3].Store = Free }), "ScaleDown: the member of ordinal 3 has left"},
		{set(beyond(Ordinal{Pod: true, Claim: true, Store: Free}), func(in *Input) { in.Replicas = 3 }), "AddLearner: ordinal 1 joins the cluster"},
		{set(three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2)), func(in *Input) { in.Ordinals = append(in.Ordinals, Ordinal{Claim: true, Foreign: "it is another's"}) }), "Finished"},
		{set(observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2)), func(in *Input) { in.Ordinals = append(in.Ordinals, Ordinal{Claim: true, Foreign: "it is another's"}) }), "ScaleDown: the member of ordinal 3 has left"},
		{set(join(Free, ours(0, leads), ours(1), source(0, learner)), func(in *Input) { in.Goal.KeepSources = true }), "OneLearner: s-0 is a learner, and etcd has one at a time"},
		{join(InUse, ours(0, leads), ours(1)), "StoreFree: the agent of ordinal 2 has not reported yet that its volume is free: if this persists, see the events and the log of its pod"},
		{join(Left, ours(0, leads), ours(1)), "StoreFree: the volume of ordinal 2 holds the data of a removed member, which its agent sets aside first"},
		{join(Other, ours(0, leads), ours(1)), "StoreFree: the volume of ordinal 2 holds the data of another cluster: copy what you need of it, and delete its claim"},
		{join(Free, ours(0, leads), ours(1)).at(2, Ordinal{Claim: true, Terminating: true, Store: Free}), "StoreFree: the claim of ordinal 2 is being deleted"},
		{join(Free, ours(0, leads), ours(1)), "AddLearner: ordinal 2 joins the cluster"},
		{join(Free, ours(0, leads), ours(1, down)), "OthersServing: m-1 does not serve: members change while every other one serves"},
		{set(join(Free, ours(0, leads), ours(1), source(0, down), source(1, down), source(2)), func(in *Input) { in.Goal.KeepSources = true }), "OthersServing: s-0, s-1 do not serve: members change while every other one serves"},
		{set(join(Free, ours(0, leads), ours(1, down)), func(in *Input) { in.Overridden = []Guard{GuardOthersServing} }), "QuorumKept: 1 of 2 voters serve, which is not a quorum"},
		{set(join(Left, ours(0, leads), ours(1)), func(in *Input) { in.Overridden = []Guard{GuardStoreFree} }), "StoreFree: the volume of ordinal 2 holds the data of a removed member, which its agent sets aside first"},
		{observed(4, Goal{Size: 5}, ours(0, leads), ours(1, down), ours(2), ours(3, learner)), "QuorumKept: of 4 voters, only 2 would be certain to serve, and a quorum is 3"},
		{observed(5, Goal{Size: 5}, ours(0, leads), ours(1), ours(2), ours(3, learner)), "PromoteLearner: m-3 has caught up"},
		{observed(4, Goal{Size: 5}, ours(0, leads), ours(1), ours(2), ours(3, learner)), "ScaleUp: ordinal 4 needs a pod before its member can join"},
		{set(observed(4, Goal{Size: 5}, ours(0, leads), ours(1), ours(2), ours(3, learner)), func(in *Input) {
			in.Ordinals = append(in.Ordinals, Ordinal{Claim: true, Foreign: "the claim is another's"})
		}), "PromoteLearner: m-3 has caught up"},
		{set(observed(2, Goal{Size: 3}, ours(0, leads), ours(1, learner)), func(in *Input) { in.Sources = 1 }), "PromoteLearner: m-1 has caught up"},
		{set(three(Goal{Size: 1, Single: true}, ours(0, leads), ours(1, told), ours(2, told)), func(in *Input) {
			in.Members[0].Serving = false
			in.Overridden = []Guard{GuardOthersServing}
		}), "QuorumKept: of 2 voters, only 1 would be certain to serve, and a quorum is 2"},
		{join(Free, ours(0, leads), ours(1, young)), "MembersSettled: 1 of 2 voters have been connected for long enough, and etcd wants 2"},
		{join(Free, ours(0, leads), ours(1, young, down)), "OthersServing: m-1 does not serve: members change while every other one serves"},
		{set(join(Free, ours(0, leads, young)), func(in *Input) {
			in.Members[0].Read, in.Ordinals[1] = true, Ordinal{Pod: true, Claim: true, Store: Free, Told: true}
		}), "AddLearner: ordinal 1 joins the cluster"},
		{set(join(Free, ours(0, leads)), func(in *Input) { in.Ordinals[1] = Ordinal{Pod: true, Claim: true, Store: Free} }), "AnnounceJoin: m-0 must know before ordinal 1 joins that it is not the only member any more"},
		{set(join(Free, ours(0, leads)), func(in *Input) { in.Ordinals[1] = Ordinal{Pod: true, Claim: true, Store: Free, Told: true} }), "JoinAnnounced: the agent of m-0 has not read yet that another member joins: the kubelet passes that on within about a minute"},
		{observed(2, Goal{Size: 1}, ours(0, leads, fresh), ours(1, told)), "SuccessorReady: clients do not reach m-0 through the Service yet: m-1 serves them until the readiness probe of m-0 has passed for a second"},
		{observed(2, Goal{Size: 1}, ours(0, leads), ours(1, told, fresh)), "RemoveMember: m-1 is not part of the goal"},
		{observed(3, Goal{Size: 3}, ours(0, leads), ours(1, fresh), ours(2, down, told, lost)).at(2, Ordinal{Pod: true, Claim: true, Store: Free}), "RemoveMember: the data of m-2 is gone, so it rejoins as a new member"},
		{observed(1, Goal{KeepSources: true}, source(0, leads), source(1, fresh), ours(0, told)), "RemoveMember: m-0 is not part of the goal"},
		{observed(1, Goal{Size: 1}, source(0), ours(0, leads, fresh)), "RemoveMember: s-0 belongs to the source cluster, and the members that replace it vote"},
		{set(join(Free, ours(0, leads, silent)), func(in *Input) { in.Ordinals[1] = Ordinal{Pod: true, Claim: true, Store: Free, Told: true} }), "JoinAnnounced: the agent of m-0 has to know that another member joins, and has never reported what it reads. If this persists for two minutes, it is older than this operator: roll out a newer image of it. That rollout waits for no second member, so the writes of a single one stop until it is back"},
		{three(Goal{Size: 1, Single: true}, ours(0, leads), ours(1, told), ours(2, silent, func(m *Member) { m.Told = true })), "RemovalAnnounced: the agent of m-2 has to know that its member leaves, and has never reported what it reads. If this persists for two minutes, it is older than this operator: roll out a newer image of it. That rollout waits for no second member, so the writes of a single one stop until it is back"},
		{set(join(Free, ours(0, leads)), func(in *Input) {
			in.Members[0].Read, in.Ordinals[1] = true, Ordinal{Pod: true, Claim: true, Store: Free, Told: true}
		}), "AddLearner: ordinal 1 joins the cluster"},
		{set(join(Free, ours(1, leads)), func(in *Input) { in.Ordinals[0] = Ordinal{Pod: true, Claim: true, Store: Free} }), "AddLearner: ordinal 0 joins the cluster"},
		{observed(5, Goal{Size: 3}, ours(0, leads), ours(1, young), ours(2, young), ours(3, told), ours(4, told)), "MembersSettled: 3 of 5 voters have been connected for long enough, and etcd wants 4"},
		{observed(5, Goal{Size: 3}, ours(0, leads), ours(1), ours(2, young), ours(3, told), ours(4, told)), "RemoveMember: m-4 is not part of the goal"},
		{observed(5, Goal{Size: 3}, ours(0, leads), ours(1, young), ours(2, young), ours(3, told), ours(4, told, down)), "RemoveMember: m-4 leaves and does not serve"},
		{observed(4, Goal{Size: 3}, ours(0, leads, young), ours(1, young), ours(2, young), ours(3, told, learner)), "RemoveMember: m-3 is not part of the goal"},
		{observed(5, Goal{Size: 5}, ours(0, leads), ours(1), ours(2), ours(3, learner, young)), "MembersSettled: m-3 has not been connected for long enough yet: etcd would refuse the next change"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, young)), "PromoteLearner: m-2 has caught up"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, func(m *Member) { m.Serving = false })), "LearnerCaughtUp: m-2 does not serve yet: if this persists, see the events and the log of its pod"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, atLag(101))), "LearnerCaughtUp: m-2 is 101 raft entries behind, and gets its vote at 100: if the distance does not shrink, check its disk and network"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, atLag(100))), "PromoteLearner: m-2 has caught up"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, unsteady)), "LearnerCaughtUp: m-2 has just caught up, and gets its vote if it keeps up"},
		{observed(3, Goal{Size: 3, KeepSources: true}, source(0, leads), source(1), source(2), ours(0), ours(1), ours(2, learner)), "SourcesKeepQuorum: the source cluster has 3 of 5 voters, and would not be a quorum on its own beside one more: m-2 gets its vote at the cut-over"},
		{observed(2, Goal{Size: 2, KeepSources: true}, source(0, leads), source(1), source(2), ours(0), ours(1, learner)), "PromoteLearner: m-1 has caught up"},
		{observed(1, Goal{Size: 1, KeepSources: true}, source(0, leads), ours(0, learner)), "SourcesKeepQuorum: the source cluster has 1 of 1 voters, and would not be a quorum on its own beside one more: m-0 gets its vote at the cut-over"},
		{set(observed(1, Goal{KeepSources: true}, source(0, leads), source(1), ours(0)), func(in *Input) { in.Sources = 3 }), "SourcesPresent: only 2 of 3 members of the source cluster are left, so the migration can no longer be given up: complete it"},
		{set(observed(1, Goal{KeepSources: true}, source(0, leads), source(1), ours(0, learner)), func(in *Input) { in.Sources = 3 }), "Announce: m-0 is not part of the goal; its agent must know before that"},
		{observed(4, Goal{Size: 3}, ours(0), ours(1), ours(2), ours(3, told, down, leads)), "LeaderStays: m-3 leads and cannot hand over: if this persists, check its log and the network between it and the operator"},
		{observed(4, Goal{Size: 3}, ours(0), ours(1), ours(2), ours(3, told)), "LeaderStays: no leader is known, and it may be m-3"},
		{observed(4, Goal{Size: 3}, ours(0), ours(1), ours(2), ours(3, told, learner)), "RemoveMember: m-3 is not part of the goal"},
		{observed(4, Goal{Size: 3}, ours(0, atLag(101)), ours(1, atLag(102)), ours(2, atLag(103)), ours(3, told, leads)), "SuccessorCaughtUp: m-0 is 101 raft entries behind, and can lead at 100: writes would stop until then"},
		{observed(4, Goal{Size: 3}, ours(0, atLag(102)), ours(1, atLag(100)), ours(2, atLag(103)), ours(3, told, leads)), "MoveLeader: m-3 leads and leaves, so leadership moves to m-1"},
		{observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3, func(m *Member) { m.Told = true })), "RemovalAnnounced: the agent of m-3 has not read yet that its member leaves: the kubelet passes that on within about a minute"},
		{observed(4, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3, down, func(m *Member) { m.Told = true })), "RemoveMember: m-3 leaves and does not serve"},
		{observed(5, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3), ours(4, down, told)), "RemoveMember: m-4 leaves and does not serve"},
		{observed(5, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3), ours(4, learner, told)), "RemoveMember: m-4 is not part of the goal"},
		{observed(2, Goal{Size: 1}, ours(0, leads), ours(1, told)).unsaved(), "BackedUp: one voter will remain, and the newest backup is too old, or the last one failed (condition BackupReady): wait for the next snapshot. One that you request (kubectl etcdtask snapshot ETCD) is taken once this task is stalled"},
		{observed(2, Goal{Size: 1}, ours(0, leads), ours(1, told, learner)).unsaved(), "RemoveMember: m-1 is not part of the goal"},
		{set(observed(2, Goal{Size: 1}, ours(0, leads), ours(1, told)).unsaved(), func(in *Input) { in.Overridden = []Guard{GuardBackedUp} }), "RemoveMember: m-1 is not part of the goal"},
		{observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2, down, told, lost)).at(2, Ordinal{Pod: true, Claim: true, Store: Free}).unsaved(), "RemoveMember: the data of m-2 is gone, so it rejoins as a new member"},
		{observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, down, told, lost)), "RemoveMember: the data of m-2 is gone, so it rejoins as a new member"},
		{observed(4, Goal{Size: 1, Single: true}, ours(0, leads), ours(1, told), ours(2, told), ours(3, told)).unsaved(), "RemoveMember: m-3 is not part of the goal"},
		{observed(3, Goal{Size: 3}, ours(0, leads), ours(1, learner)).unsaved(), "PromoteLearner: m-1 has caught up"},
		{three(Goal{Size: 1}, ours(0, leads), ours(1), ours(2)), "SingleAgreed: one member would remain, and no failure would be tolerated any more: to agree to that, annotate the Etcd with druid.gardener.cloud/allow-single-member=true"},
		{three(Goal{Size: 1, Refusal: `"false"`}, ours(0, leads), ours(1), ours(2)), "SingleAgreed: one member would remain, and no failure would be tolerated any more: to agree to that, annotate the Etcd with druid.gardener.cloud/allow-single-member=true (it has the value \"false\")"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2, told)), "Retract: m-2 was told that it leaves, but it stays"},
		{observed(1, Goal{Size: 3}, ours(0, leads), ours(1, down)), "ScaleUp: m-1 is in the member list and has no pod among 1 replicas"},
		{set(observed(2, Goal{Size: 1}, ours(0, leads, told), ours(1)), func(in *Input) { in.Ordinals[0].Outdated = Pod }), "MoveLeader: m-0 leads and leaves, so leadership moves to m-1"},
		{set(observed(2, Goal{Size: 1}, ours(0, told), ours(1, leads)), func(in *Input) { in.Ordinals[0].Outdated = Pod }), "RemoveMember: m-0 rejoins in another pod"},
		{set(three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2)), func(in *Input) { in.Acting = "A rollout replaces pods" }), "NothingElseActs: A rollout replaces pods: members change after that"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2)), "Finished"},
		{three(Goal{Size: 3}, ours(0, leads), ours(1), ours(2), Member{ID: 99, Name: "x"}), "Finished"},
		{observed(0, Goal{Size: 2}, source(0, leads), source(1), source(2)), "GoalOdd: 2 voters tolerate no more failures than 1: choose a size that leads to 1 or 3"},
		{set(observed(0, Goal{Size: 2, KeepSources: true}, source(0, leads), source(1)), func(in *Input) { in.Sources = 3 }), "GoalOdd: 4 voters tolerate no more failures than 3: choose a size that leads to 3 or 5"},
		{observed(2, Goal{Size: 2, KeepSources: true}, ours(0, leads), ours(1)), "GoalOdd: 2 voters tolerate no more failures than 1: choose a size that leads to 1 or 3"},
		{observed(0, Goal{Size: 1, KeepSources: true}, source(0, leads)), "ScaleUp: ordinal 0 needs a pod before its member can join"},
		{observed(5, Goal{Size: 5}, ours(0, leads), ours(1), ours(2), ours(3, young)).at(4, Ordinal{Pod: true, Claim: true, Store: Free}), "MembersSettled: 3 of 4 voters have been connected for long enough, and etcd wants 4"},
		{set(observed(5, Goal{Size: 5}, ours(0, leads), ours(1), ours(2), ours(3, down)).at(4, Ordinal{Pod: true, Claim: true, Store: Free}), func(in *Input) { in.Overridden = []Guard{GuardOthersServing} }), "AddLearner: ordinal 4 joins the cluster"},
		{set(observed(2, Goal{Size: 1, KeepSources: true}, source(0, leads), source(1), ours(0), ours(1)), func(in *Input) { in.Sources = 3 }), "Announce: m-1 is not part of the goal; its agent must know before that"},
		{observed(1, Goal{KeepSources: true}, source(0, leads), source(1), ours(0, told)).unsaved(), "RemoveMember: m-0 is not part of the goal"},
		{observed(4, Goal{Size: 3}, ours(0, down, told), ours(1, leads), ours(2), ours(3)).at(0, Ordinal{Pod: true, Claim: true, Outdated: Volume}), "RemoveMember: m-0 leaves and does not serve"},
		{observed(4, Goal{Size: 3}, ours(0), ours(1, down, told), ours(2, leads), ours(3)).at(0, Ordinal{Pod: true, Claim: true, Outdated: Volume}).at(1, Ordinal{Pod: true, Claim: true, Outdated: Volume}), "RemoveMember: m-1 leaves and does not serve"},
		{observed(5, Goal{Size: 3}, ours(0, leads), ours(1), ours(3), ours(4)).at(2, Ordinal{Pod: true, Claim: true, Store: Free}), "AddLearner: ordinal 2 joins the cluster"},
		{observed(6, Goal{Size: 3}, ours(0, leads), ours(1), ours(2), ours(3), ours(4)), "ScaleDown: the member of ordinal 5 has left"},
		{set(observed(1, Goal{Size: 3}, ours(0, leads)), func(in *Input) { in.Ordinals = append(in.Ordinals, Ordinal{Claim: true}) }), "ScaleUp: ordinal 1 needs a pod before its member can join"},
		{set(observed(1, Goal{Size: 3}, ours(0, leads)), func(in *Input) { in.Ordinals = append(in.Ordinals, Ordinal{Pod: true, Claim: true, Outdated: Volume}) }), "ScaleUp: ordinal 1 needs a pod before its member can join"},
		{three(Goal{Size: 3}, ours(0, told), ours(1, leads), ours(2)).at(0, Ordinal{Pod: true, Claim: true, Outdated: Volume}), "Retract: m-0 was told that it leaves, but it stays"},
		{observed(4, Goal{Size: 3}, ours(0, told), ours(2, leads), ours(3)).at(0, Ordinal{Pod: true, Claim: true, Outdated: Volume}), "Retract: m-0 was told that it leaves, but it stays"},
		{observed(3, Goal{Size: 3}, ours(1, learner), ours(0, leads)), "PromoteLearner: m-1 has caught up"},
		{observed(4, Goal{Size: 3}, ours(1, leads), ours(2), ours(3, down)).at(0, Ordinal{Pod: true, Claim: true, Store: Free}), "OthersServing: m-3 does not serve: members change while every other one serves"},
		{observed(4, Goal{Size: 3}, ours(1, leads), ours(2), ours(3, learner)).at(0, Ordinal{Pod: true, Claim: true, Store: Free}), "Announce: m-3 is not part of the goal; its agent must know before that"},
		{observed(3, Goal{Size: 3}, ours(0, leads), ours(1), ours(2, learner, down)).at(2, Ordinal{Pod: true, Claim: true, Store: Free}), "LearnerCaughtUp: m-2 does not serve yet: if this persists, see the events and the log of its pod"},
		{observed(1, Goal{Size: 1}, source(0, leads), source(1, down), source(2)).at(0, Ordinal{Pod: true, Claim: true, Store: Free}), "SingleAgreed: one member would remain, and no failure would be tolerated any more: to agree to that, annotate the Etcd with druid.gardener.cloud/allow-single-member=true"},
		{observed(1, Goal{Size: 1, Single: true}, source(0, leads), source(1, down), source(2)).at(0, Ordinal{Pod: true, Claim: true, Store: Free}), "RemoveMember: s-1 leaves and does not serve"},
		{set(observed(1, Goal{Size: 1, Single: true}, source(0, leads), source(1), source(2), ours(0, down)), func(in *Input) { in.Overridden = []Guard{GuardOthersServing} }), "GoalVotes: s-2 serves, and leaves once all members that replace it vote and serve"},
		{set(observed(1, Goal{Size: 1, Single: true}, source(0, leads), source(1), source(2, down), ours(0, down)), func(in *Input) { in.Overridden = []Guard{GuardOthersServing} }), "QuorumKept: 2 of 4 voters serve, which is not a quorum"},
		{set(observed(3, Goal{Size: 3}, source(0, leads), source(1), source(2, down), ours(0, down), ours(1), ours(2)), func(in *Input) { in.Overridden = []Guard{GuardOthersServing} }), "RemoveMember: s-2 leaves and does not serve"},
		{set(observed(5, Goal{Size: 3}, ours(0, leads), ours(1, down), ours(2), ours(3, told), ours(4, told)), func(in *Input) { in.Overridden = []Guard{GuardOthersServing} }), "RemoveMember: m-4 is not part of the goal"},
		{observed(1, Goal{Size: 3}, source(0, leads), ours(0, learner)).unsaved(), "PromoteLearner: m-0 has caught up"},
		{observed(4, Goal{Size: 3}, ours(0, atLag(9)), ours(1, leads), ours(2, atLag(5)), ours(3)).at(0, Ordinal{Pod: true, Claim: true}).at(1, Ordinal{Pod: true, Claim: true, Outdated: Volume}), "Announce: m-1 rejoins on another volume; its agent must know before that"},
		{observed(4, Goal{Size: 3}, ours(0, atLag(9)), ours(1, leads, told), ours(2, atLag(5)), ours(3)).at(1, Ordinal{Pod: true, Claim: true, Outdated: Volume}), "MoveLeader: m-1 leads and leaves, so leadership moves to m-2"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := blocked(Decide(c.in)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
