// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/projection"
)

// guard is a condition that must be true before a step is carried out.
type guard struct {
	name v1alpha1.GuardName
	// overridable reports whether a task may override it. This is the rule; the schema of the API repeats it.
	overridable bool
	// check returns why the condition is not true, and what a person can do; nil when it is true.
	check func(s *state, step *Step) *Hold
	// resolve makes the condition true in a plan, by what would make it true in a cluster.
	resolve func(f *foresight, next *projection.Projection, hold *Hold, step *Step)
}

// sightGuards make sure that the rollout sees the present state. They are asked before there is a step.
var sightGuards = []guard{
	{v1alpha1.GuardRevisionObserved, false, revisionObserved, (*foresight).observeRevision},
	{v1alpha1.GuardDeletionObserved, false, deletionObserved, (*foresight).observeDeletion},
}

// stepGuards judge a step, in this order.
var stepGuards = []guard{
	{v1alpha1.GuardUpdateObserved, false, updateObserved, (*foresight).observeUpdate},
	{v1alpha1.GuardLearnerPromoted, true, learnerPromoted, (*foresight).recoverPod},
	{v1alpha1.GuardVolumeReachable, true, volumeReachable, (*foresight).reachVolume},
	{v1alpha1.GuardOthersParticipating, true, othersParticipating, (*foresight).recoverPod},
	{v1alpha1.GuardOthersServing, true, othersServing, (*foresight).recoverPod},
	{v1alpha1.GuardNodesStable, true, nodesStable, (*foresight).settleNodes},
	{v1alpha1.GuardVersionsCompatible, true, versionsCompatible, (*foresight).agreeOnVersions},
	{v1alpha1.GuardQuorumKept, false, quorumKept, (*foresight).recoverVoters},
	{v1alpha1.GuardQuorumLossConfirmed, false, quorumLossConfirmed, (*foresight).confirmLoss},
	{v1alpha1.GuardUnreadyConfirmed, true, unreadyConfirmed, (*foresight).passGrace},
	{v1alpha1.GuardHandoverObserved, false, handoverObserved, (*foresight).observeHandover},
	{v1alpha1.GuardSuccessorCaughtUp, true, successorCaughtUp, (*foresight).catchUp},
	{v1alpha1.GuardRemovalGranted, true, removalGranted, (*foresight).grantRemoval},
	{v1alpha1.GuardSnapshotTaken, true, snapshotTaken, (*foresight).takeSnapshot},
}

// Overridable are the names of the guards that a task may override, in the order in which they are asked.
func Overridable() []string {
	var names []string
	for _, g := range slices.Concat(sightGuards, stepGuards) {
		if g.overridable {
			names = append(names, string(g.name))
		}
	}
	return names
}

// blocking returns what the first of some guards to block a step says; nil when all allow it.
func (s *state) blocking(guards []guard, step *Step) *Hold {
	for _, g := range guards {
		if g.overridable && s.overrides(g.name) || step != nil && step.disturbsNobody() && !forAll[g.name] {
			continue
		}
		if hold := g.check(s, step); hold != nil {
			hold.Guard = g.name
			return hold
		}
	}
	return nil
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
		if Within(s.recordOf(o.Pod.UID).Evidence.ObservedAt.Time, s.now, intentWindow) {
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("the %s of %s does not show yet: after %s it is repeated or revoked", inplace.Describe(s.recordOf(o.Pod.UID).LastOperation.Name), o.Name, intentWindow)}
		}
	}
	return nil
}

func learnerPromoted(s *state, step *Step) *Hold {
	o := s.ordinal(step.Ordinals[0])
	if o.Role != v1alpha1.RoleLearner {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is a learner that is catching up with the leader; it is replaced once it is promoted to a voter. If it never is, add %s to spec.overrideGuards of the task", o.Name, v1alpha1.GuardLearnerPromoted)}
}

// volumeReachable: a pod whose replacement could not have its data is kept, whatever state it is in; nor is leadership
// moved away from it for nothing.
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
	if step.disturbsNobody() {
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

// othersServing: before leadership moves, and before a member goes that serves although its probe fails, every other serves.
// Leadership moves as soon as they do, while the probe of the pod that came back last has yet to pass.
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

// nodesStable: a serving member does not go while another one, which the quorum counts on, may be lost at any moment.
// Removing a member that does not serve costs nothing, and its replacement may help.
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

// removalRetry is how long a removal that was refused waits before it is tried again.
const removalRetry = 10 * time.Second

// removalGranted: the API server has not refused the removal, or the disruption, a moment ago. A budget is not asked about a deletion.
func removalGranted(s *state, step *Step) *Hold {
	o := s.ordinal(step.Ordinals[0])
	refusal, refused := s.Refused[o.Pod.UID]
	if !refused || refusal.Update || !step.IsRemoval() && !step.AsksBudget || refusal.ByBudget && step.Action == DeletePod || !Within(refusal.At, s.now, removalRetry) {
		return nil
	}
	if step.AsksBudget {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("the API server does not allow a disruption of %s (%s); retrying every %s", o.Name, refusal.Message, removalRetry)}
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("the API server refused to remove %s (%s); retrying every %s", o.Name, refusal.Message, removalRetry)}
}
