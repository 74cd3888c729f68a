// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
)

// Action is a kind of step.
type Action string

// The actions.
const (
	DeletePod      Action = "DeletePod"
	EvictPod       Action = "EvictPod"
	MoveLeader     Action = "MoveLeader"
	RevokeDeletion Action = "RevokeDeletion"
	TakeSnapshot   Action = "TakeSnapshot"

	PatchMetadata   = Action(inplace.PatchMetadata)
	ResizePod       = Action(inplace.ResizePod)
	UpdateContainer = Action(inplace.UpdateContainer)
)

// Step is one action on a cluster.
type Step struct {
	Action Action
	// Ordinals of the pods to remove or revoke, in their order; for MoveLeader the leader's, and for TakeSnapshot that of the next pod.
	// There is more than one only with nonParticipatingPods: AllAtOnce, and for RevokeDeletion.
	Ordinals []int
	// Successor is the ordinal to which leadership moves, with MoveLeader.
	Successor int
	// Grace are the grace periods of pods that are not deleted with their own, by ordinal, with DeletePod.
	Grace map[int]time.Duration
	// Write is the write to the pod, if it is updated in place.
	Write *inplace.Write
	// AsksBudget: the API server has to allow an eviction of the pod before it is written to.
	AsksBudget bool
	// wait is why nothing is written yet, and disrupts whether a write that is left disrupts the member.
	wait     string
	disrupts bool
	// Reason is a sentence: why these, and why now.
	Reason string
}

// IsRemoval reports whether the step removes pods.
func (s *Step) IsRemoval() bool { return s.Action == DeletePod || s.Action == EvictPod }

// isHarmless reports whether the step, and the rest of the update, disrupts no member.
func (s *Step) isHarmless() bool { return (s.Write != nil || s.wait != "") && !s.disrupts }

// disturbs reports whether the step removes pods, or disrupts members.
func (s *Step) disturbs() bool { return s.IsRemoval() || s.disrupts }

// IntentWindow is how long a removal that was recorded as an intent may take to become visible. It is longer than the deadline of the
// request, so that the operator's own request has ended by then.
const IntentWindow = configv1alpha1.StepTimeout + time.Second

// candidate returns the step for the pod that goes first, if every guard allows it.
func (s *state) candidate(next int) *Step {
	choice := s.Updates.Of(s.ordinal(next), s.now)
	harmless := choice.InPlace() && !choice.Disrupts
	if reason, wanted := s.snapshot(); wanted && (!harmless || s.Config.SnapshotBefore == SnapshotAlways) {
		return &Step{Action: TakeSnapshot, Ordinals: []int{next}, Reason: reason}
	}
	if harmless {
		// It changes no version.
		return s.update(next, choice)
	}
	if h := (handover{s, next}); h.isWanted() {
		if successor, found := h.successor(); found {
			return &Step{Action: MoveLeader, Ordinals: []int{next}, Successor: successor, Reason: fmt.Sprintf(
				"%s leads and is next: leadership goes to %s, which is updated and has caught up", s.ordinal(next).Name, s.ordinal(successor).Name)}
		}
	}
	if choice.InPlace() {
		return s.update(next, choice)
	}
	step := &Step{Action: s.removal(next), Ordinals: s.alongWith(next)}
	step.Reason = s.reason(next)
	if choice.Replace != "" {
		step.Reason += "; it needs a new pod: " + choice.Replace
	}
	return step
}

// removal returns how a pod is removed. An eviction counts pod readiness, so only a healthy pod of a cluster that can spare one is evicted;
// any other eviction would always be refused (DEP-06).
func (s *state) removal(ordinal int) Action {
	o := s.ordinal(ordinal)
	if s.Config.PodRemoval != Evict || o.Class != v1alpha1.ClassParticipating || !o.Pod.AllContainersReady || s.Snapshot.Replicas() <= 2 {
		return DeletePod
	}
	if refusal, refused := s.Refused[o.Pod.UID]; refused && refusal.ByBudget && s.overrides(v1alpha1.GuardRemovalGranted) {
		return DeletePod
	}
	return EvictPod
}

// alongWith returns the pods that are removed in the same step: one, or with AllAtOnce every outdated pod that is not running.
func (s *state) alongWith(next int) []int {
	all := []int{next}
	if s.Config.NonParticipatingPods != AllAtOnce || !s.ordinal(next).IsDown() {
		return all
	}
	for i, o := range s.Snapshot.Ordinals {
		if i != next && s.outdated(i) && o.IsDown() && o.Pod.VolumeTrouble == "" && !s.Updates.Of(&o, s.now).InPlace() {
			all = append(all, i)
		}
	}
	return all
}

// gracePeriod returns the grace period that the pod of an ordinal is deleted with, if it is shorter than the pod's own, and why;
// 0 if the pod keeps its own. A pod keeps its own unless everything says that its member does not serve: the kubelet, whose
// word is not stale, and the member itself. If the operator is cut off from all members, nothing is known of one that is
// running.
func gracePeriod(o *cluster.Ordinal, short time.Duration, cutOff bool) (period time.Duration, why string) {
	if o.Pod == nil || o.Pod.GracePeriod <= short || o.Pod.Stale() != "" {
		return 0, ""
	}
	switch {
	case o.IsDown():
		return short, "its etcd is not running"
	case o.Class != v1alpha1.ClassUnready || cutOff || o.Serving || o.Pod.Ready:
		return 0, ""
	case !o.Answers:
		return short, "its readiness probe fails and it does not answer"
	case o.Lag <= cluster.MaxLag:
		return short, "its readiness probe fails and it knows no leader"
	}
	// A member that is catching up is at work.
	return 0, ""
}

// shorten gives the pods of a removal whose members do not serve a short grace period, and says so. An eviction is for members
// that serve.
func (s *state) shorten(step *Step, period func(*cluster.Ordinal, time.Duration, bool) (time.Duration, string)) {
	if step.Action != DeletePod {
		return
	}
	for _, i := range step.Ordinals {
		o := s.ordinal(i)
		if short, why := period(o, s.Config.shortGrace(), s.byReadiness); short > 0 {
			if step.Grace == nil {
				step.Grace = map[int]time.Duration{}
			}
			step.Grace[i] = short
			step.Reason += fmt.Sprintf("; %s gets a grace period of %s (its own is %s): %s", o.Name, short, o.Pod.GracePeriod, why)
		}
	}
}
