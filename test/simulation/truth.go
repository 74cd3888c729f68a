// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// truth is for how long a status may say what is not so: messages that change often are written only now and then, and a request that failed is
// repeated after up to half a minute. Time in which the operator cannot see or write does not count.
const truth = time.Minute

// truths remembers since when a statement has been untrue, by what it says.
type truths map[string]time.Duration

// judgeTruth judges what statuses say that tasks wait for.
func (j *judge) judgeTruth() {
	untrue := truths{}
	note := func(what string) { untrue[what] = j.world.Now() }
	if e := j.etcd(); j.clear() && e != nil {
		if ptr.Deref(e.Status.Ready, false) && !j.quorate.is && e.Spec.Replicas > 0 {
			note("the Etcd is ready, and no quorum serves")
		}
		for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](j.world.API.Live()) {
			if t.Spec.OwnerEtcdReference.Name == j.name && t.Status.State == v1alpha1.TaskStateInProgress {
				j.statements(t, note)
			}
		}
	}
	for what, now := range untrue {
		if since, before := j.untrue[what]; before {
			untrue[what] = since
			if now-since > truth && !j.told[what] {
				j.told[what] = true
				j.world.broke("untrue since %s: %s", since, what)
			}
		}
	}
	j.untrue = untrue
}

// clear reports whether one operator runs that sees and writes all.
func (j *judge) clear() bool {
	f := j.world.faults
	return f.rate == 0 && f.slow == 0 && len(f.held) == 0 && f.sight == nil && !slices.ContainsFunc(j.world.nodes, (*node).isSplit) && len(j.world.operators) == 1 && !j.world.operators[0].actor.Paused
}

// statements notes what the status of a task says that is not so.
func (j *judge) statements(t *v1alpha1.EtcdOperatorTask, note func(string)) {
	if r := t.Status.Recovery; r != nil && r.Phase == v1alpha1.RecoveryConfirming && r.LostSince != nil && j.quorate.is {
		note(fmt.Sprintf("task %s says that the quorum is lost since %s", t.Name, r.LostSince.Format(time.TimeOnly)))
	}
	hold, all := t.Status.Held()
	if hold == nil {
		return
	}
	for _, b := range all {
		if is, known := guards[b.Guard]; known && !is(j, b) {
			note(fmt.Sprintf("task %s is blocked by %s: %s", t.Name, b.Guard, b.Message))
		}
	}
}

// guards are what has to be so in the world while one of them blocks.
var guards = map[v1alpha1.GuardName]func(j *judge, b v1alpha1.BlockedBy) bool{
	"OthersParticipating": (*judge).someoneMissing, "OthersServing": (*judge).someoneMissing, "QuorumKept": (*judge).someoneMissing,
	"QuorumLossConfirmed": (*judge).someoneMissing, "UnreadyConfirmed": (*judge).someoneMissing, "NodesStable": (*judge).someoneMissing,
	"LearnerCaughtUp": (*judge).learns, "OneLearner": (*judge).learns, "LearnerPromoted": (*judge).learns,
	"ListKnown": (*judge).outOfSight,
	"RevisionObserved": func(j *judge, _ v1alpha1.BlockedBy) bool {
		set := j.set()
		return set == nil || set.Generation != set.Status.ObservedGeneration
	},
	"VotersOdd": func(j *judge, _ v1alpha1.BlockedBy) bool { return len(j.voters())%2 == 0 },
}

// unjudged are the guards of which no rule says what has to be so in the world: another one is a decision.
var unjudged = []v1alpha1.GuardName{
	// What they ask for is within the operator, or was a moment ago.
	"DeletionObserved", "ChangeObserved", "HandoverObserved", "NothingElseActs", "RemovalAnnounced", "JoinAnnounced", "MembersSettled",
	"VersionsCompatible",
	// They rest on who leads and on how far members are, which changes all the time.
	"AddressesSettled", "LeaderStays", "SuccessorCaughtUp", "SuccessorReady", "SnapshotTaken", "BackedUp",
	// They ask for what users do, which is waited for in the end.
	"VolumeReachable", "MemberRelieved", "RemovalGranted", "GoalOdd", "MembersKnown", "DataElsewhere", "StoreFree", "SingleAgreed",
	// They are not modeled.
	"UpdateObserved", "SourcesKeepQuorum", "GoalVotes", "SourcesPresent",
}

// outOfSight reports whether no member can give the operator its list: etcd answers that with a linearizable read, which takes a quorum, and a member
// that leads one may be cut off with it, as the only voter.
func (j *judge) outOfSight(v1alpha1.BlockedBy) bool {
	leader, _ := j.leader()
	return leader == nil || j.world.podOf(leader).node.silent()
}

func (j *judge) voters() []members.Peer {
	return slices.DeleteFunc(slices.Clone(j.list), func(p members.Peer) bool { return p.Learner })
}

// learns reports whether a member is a learner, by the leader's list or by its own: of a promotion that was committed, a member hears only from a leader.
func (j *judge) learns(v1alpha1.BlockedBy) bool {
	return len(j.voters()) < len(j.list) || slices.ContainsFunc(j.running(), (*members.Member).IsLearner)
}

// someoneMissing reports whether one of the members that a message names does not participate; any, if it names none.
func (j *judge) someoneMissing(b v1alpha1.BlockedBy) bool {
	set := j.set()
	if set == nil || !j.quorate.is || len(j.voters()) != int(ptr.Deref(set.Spec.Replicas, 1)) {
		return true
	}
	if slices.ContainsFunc(j.world.podsOf(set), func(p *corev1.Pod) bool { return ordinalOf(p.Name) >= int(ptr.Deref(set.Spec.Replicas, 1)) }) {
		return true // the StatefulSet controller may be slow, or the pod, or its node is lost
	}
	named := false
	for i := range ptr.Deref(set.Spec.Replicas, 1) {
		name := fmt.Sprintf("%s-%d", j.name, i)
		if strings.Contains(b.Message, name) {
			named = true
			if !j.participates(name) {
				return true
			}
		}
	}
	return !named && slices.ContainsFunc(j.voters(), func(p members.Peer) bool { return !j.participates(podOfURL(p.PeerURL)) })
}

// participates reports whether a pod is ready, on a node that is, and its member votes and serves.
func (j *judge) participates(name string) bool {
	p := apiserver.Find[*corev1.Pod](j.world.API.Live(), Namespace, name)
	if p == nil || p.DeletionTimestamp != nil || !isReady(p) || p.Spec.NodeName == "" || !j.world.isReady(j.world.node(p.Spec.NodeName)) || j.world.node(p.Spec.NodeName).silent() {
		return false
	}
	return slices.ContainsFunc(j.voters(), func(l members.Peer) bool { return podOfURL(l.PeerURL) == name && j.serves(l.ID) })
}
