// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
)

// guard is a condition that must be true before a step is carried out. Adding one: see TestEveryGuardIsEverywhere.
type guard struct {
	// name is the condition.
	name v1alpha1.GuardName
	// overridable guards are not evaluated if the task overrides them. The schema of the API repeats this.
	overridable bool
	// judges are the kinds of steps for which it is evaluated.
	judges kindOfStep
	// check returns why the condition is false and what to do, or nil if it is true. A guard that judges noStep gets no step.
	check func(s *state, step *Step) *Hold
}

// kindOfStep is a set of kinds of steps.
type kindOfStep uint

const (
	// noStep: before there is a step. Such guards ensure that the rollout sees the present state.
	noStep kindOfStep = 1 << iota
	// disruptions are removals and restarts of members, and what prepares them: handovers and the snapshot.
	disruptions
	// beginnings are first writes to a pod that is updated in place without disrupting its member.
	beginnings
	// continuations are the following writes, and the waits between them: the pod is between two revisions, and the update is completed, or
	// given up and reverted.
	continuations

	everyStep = disruptions | beginnings | continuations
)

// guards are evaluated in this order before a rollout acts. The first that blocks is shown first.
var guards = []guard{
	// The StatefulSet controller has seen the newest spec, so its update revision is current.
	{name: v1alpha1.GuardRevisionObserved, judges: noStep, check: revisionObserved},
	// Every recorded intent is visible, or has had the time to become so.
	{name: v1alpha1.GuardDeletionObserved, judges: noStep, check: deletionObserved},
	// The kubelet has carried out the write to the pod, and its member participates.
	{name: v1alpha1.GuardUpdateObserved, judges: everyStep, check: updateObserved},
	// The member is not a learner that is catching up.
	{name: v1alpha1.GuardLearnerPromoted, overridable: true, judges: disruptions, check: learnerPromoted},
	// The pod's replacement could attach its volume. It also blocks a handover, which would be in vain.
	{name: v1alpha1.GuardVolumeReachable, overridable: true, judges: disruptions, check: volumeReachable},
	// Every other ordinal participates, before one that participates is disrupted. An update that disturbs no member
	// begins only if those that were updated participate, since the template may be the cause. A pod that is halfway
	// waits for no other.
	{name: v1alpha1.GuardOthersParticipating, overridable: true, judges: disruptions | beginnings, check: othersParticipating},
	// Every other member serves, before leadership moves or a member is removed that serves although its probe fails.
	{name: v1alpha1.GuardOthersServing, overridable: true, judges: disruptions, check: othersServing},
	// No voter is restarted while members change and their number is even, which tolerates one failure fewer.
	{name: v1alpha1.GuardVotersOdd, overridable: true, judges: disruptions, check: votersOdd},
	// If a second member is to relieve the only one, no serving voter is disrupted before it has taken over.
	{name: v1alpha1.GuardMemberRelieved, overridable: true, judges: disruptions, check: memberRelieved},
	// No other serving member may be lost at any moment with its node, or is being evicted.
	{name: v1alpha1.GuardNodesStable, overridable: true, judges: disruptions, check: nodesStable},
	// etcd supports the change from every member's version to the new one.
	{name: v1alpha1.GuardVersionsCompatible, overridable: true, judges: disruptions, check: versionsCompatible},
	// While there is a leader: the remaining voters are a quorum.
	{name: v1alpha1.GuardQuorumKept, judges: disruptions, check: quorumKept},
	// While there is none: the quorum is certainly lost, and not only unreachable from the operator.
	{name: v1alpha1.GuardQuorumLossConfirmed, judges: disruptions, check: quorumLossConfirmed},
	// A member whose probe passes has not served the operator for the grace period.
	{name: v1alpha1.GuardUnreadyConfirmed, overridable: true, judges: disruptions, check: unreadyConfirmed},
	// The last attempt to move leadership has had the time to take effect.
	{name: v1alpha1.GuardHandoverObserved, judges: disruptions, check: handoverObserved},
	// The successor of the leader is not far behind it.
	{name: v1alpha1.GuardSuccessorCaughtUp, overridable: true, judges: disruptions, check: successorCaughtUp},
	// The API server has not just refused the same removal.
	{name: v1alpha1.GuardRemovalGranted, overridable: true, judges: disruptions, check: removalGranted},
	// The full snapshot before the rollout has been taken.
	{name: v1alpha1.GuardSnapshotTaken, overridable: true, judges: disruptions, check: snapshotTaken},
}

// Guards returns the names of all guards, in the order in which they are evaluated.
func Guards() []v1alpha1.GuardName {
	var names []v1alpha1.GuardName
	for _, g := range guards {
		names = append(names, g.name)
	}
	return names
}

// Overridable returns the names of the guards that a task may override, in the order in which they are evaluated.
func Overridable() []string {
	var names []string
	for _, g := range guards {
		if g.overridable {
			names = append(names, string(g.name))
		}
	}
	return names
}

// blocking returns the guards that block a step, with their messages; none if all allow it.
func (s *state) blocking(guards []guard, step *Step) []Hold {
	var holds []Hold
	kind := s.kindOf(step)
	for _, g := range guards {
		if g.judges&kind == 0 || g.overridable && s.overrides(g.name) {
			continue
		}
		if hold := g.check(s, step); hold != nil {
			hold.Guard = g.name
			holds = append(holds, *hold)
		}
	}
	return holds
}

func (s *state) kindOf(step *Step) kindOfStep {
	switch {
	case step == nil:
		return noStep
	case !step.isHarmless():
		return disruptions
	case s.ordinal(step.Ordinals[0]).Pod.Updating:
		return continuations
	}
	return beginnings
}

func revisionObserved(s *state, _ *Step) *Hold {
	set := s.Snapshot.StatefulSet
	if set.Observed {
		return nil
	}
	return &Hold{Message: fmt.Sprintf("the StatefulSet controller has not seen the newest spec of StatefulSet %s yet: if this persists, check kube-controller-manager", set.Name)}
}

func deletionObserved(s *state, _ *Step) *Hold {
	for _, i := range s.intents {
		o := s.ordinal(i)
		if within(s.recordOf(o.Pod.UID).Evidence.ObservedAt.Time, s.now, IntentWindow) {
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("the %s of %s does not show yet: after %s it is repeated or revoked", inplace.Describe(s.recordOf(o.Pod.UID).LastOperation.Name), o.Name, IntentWindow)}
		}
	}
	return nil
}

func learnerPromoted(s *state, step *Step) *Hold {
	o := s.ordinal(step.Ordinals[0])
	if o.Role != v1alpha1.RoleLearner {
		return nil
	}
	if !s.Snapshot.Cluster.LeaderKnown {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is a learner, and no leader is known that could promote it to a voter: check the other members; if they are permanently lost, create a task of type %s", o.Name, v1alpha1.QuorumLossRecovery)}
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is a learner that is catching up with the leader; it is replaced once it is promoted to a voter. If it never is, add %s to spec.overrideGuards of the task", o.Name, v1alpha1.GuardLearnerPromoted)}
}

func volumeReachable(s *state, step *Step) *Hold {
	o := s.ordinal(step.Ordinals[0])
	if o.Pod.VolumeTrouble == "" {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is kept: its replacement could not attach its volume: %s", o.Name, o.Pod.VolumeTrouble)}
}

// othersParticipating is DEP-07, step 3, and more: a pod that was deleted and is not back yet blocks too.
func othersParticipating(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if step.isHarmless() {
		return s.updatedParticipating(next)
	}
	if !step.disturbs() || s.ordinal(next).Class != v1alpha1.ClassParticipating {
		return nil
	}
	if laggard := s.Snapshot.NotParticipating(next); laggard != "" {
		return s.waitFor(laggard)
	}
	return nil
}

// othersServing: before leadership moves, and before a member is removed that serves although its probe fails, every other member serves.
// Leadership moves as soon as they do, even if the probe of the newest pod has yet to pass.
func othersServing(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if o := s.ordinal(next); !o.Serving || step.disturbs() && o.Class == v1alpha1.ClassParticipating {
		return nil
	}
	if laggard := s.Snapshot.NotServing(next); laggard != "" {
		return s.waitFor(laggard)
	}
	return nil
}

// votersOdd: a change of members passes through even numbers of voters, and two tolerate no failure at all. A pod whose member does not
// serve may be why the change waits. A permanent even number blocks nothing.
func votersOdd(s *state, step *Step) *Hold {
	o, voters := s.ordinal(step.Ordinals[0]), len(s.Snapshot.Cluster.Voters)
	if !step.disturbs() || voters%2 > 0 || !o.Serves() || o.Role == v1alpha1.RoleLearner || !s.membersChange() {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("the members change, and the cluster has %d voters now, which tolerate no more failures than %d: %s is restarted once their number is odd. If that does not come about, see the task of type %s", voters, voters-1, o.Name, v1alpha1.MembershipChange)}
}

// membersChange reports whether members are being added or removed: the replicas differ from the spec, a source cluster leaves, or not every
// ordinal votes.
func (s *state) membersChange() bool {
	return s.Snapshot.Changing || s.ownVoters() != s.Snapshot.Replicas()
}

// ownVoters is the number of voters in pods of the StatefulSet.
func (s *state) ownVoters() int {
	own := 0
	for _, v := range s.Snapshot.Cluster.Voters {
		if v.Ordinal >= 0 {
			own++
		}
	}
	return own
}

// nodesStable: a serving member is not removed while another one, on which the quorum depends, may be lost at any moment. Removing a member
// that does not serve costs nothing, and its replacement may help.
func nodesStable(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if !s.ordinal(next).Serving {
		return nil
	}
	for i, o := range s.Snapshot.Ordinals {
		switch {
		case i == next || !o.Serving:
		case o.Pod.Disrupted:
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is being evicted or preempted, not by this rollout, which continues when its replacement participates", o.Name)}
		case o.Pod.Node.Trouble != "":
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("node %s of %s is %s, so %s may be lost at any moment: if the node does not come back, power off its machine, and only then taint it with node.kubernetes.io/out-of-service", o.Pod.Node.Name, o.Name, o.Pod.Node.Trouble, o.Name)}
		}
	}
	return nil
}

// removalRetry is how long a refused removal waits before it is retried.
const removalRetry = 10 * time.Second

// removalGranted: the API server has not just refused the removal or the disruption. Deletions are not subject to a budget.
func removalGranted(s *state, step *Step) *Hold {
	o := s.ordinal(step.Ordinals[0])
	refusal, refused := s.Refused[o.Pod.UID]
	if !refused || refusal.Update || !step.IsRemoval() && !step.AsksBudget || refusal.ByBudget && step.Action == DeletePod || !within(refusal.At, s.now, removalRetry) {
		return nil
	}
	if step.AsksBudget {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("the API server does not allow a disruption of %s (%s); retrying every %s", o.Name, refusal.Message, removalRetry)}
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("the API server refused to remove %s (%s); retrying every %s", o.Name, refusal.Message, removalRetry)}
}
