// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"k8s.io/apimachinery/pkg/types"
)

// Input is everything that a decision rests on.
type Input struct {
	Snapshot *cluster.Snapshot
	Config   Config
	// Created is when the task was created. A restart replaces the pods that are not newer.
	Created time.Time
	// Overridden are the guards that the task overrides.
	Overridden []v1alpha1.OverridableGuard
	// Recorded is status.rollout of the task so far.
	Recorded v1alpha1.RolloutStatus
	Timers   Timers
	// Refused are the removals that the API server refused, by the UID of the pod.
	Refused map[types.UID]RefusedWrite
	// Updates is how pods can be updated in place.
	Updates inplace.Updates
	// Backup is what is known of the snapshot before the rollout.
	Backup Backup
	// Surges: the only member is not disrupted before another one has taken over from it.
	Surges bool
	// HasSource: members of another cluster, which readiness probes do not cover, may vote too.
	HasSource bool
	// Pausing: the rollout has to pause as soon as the cluster is whole.
	Pausing bool
}

// RefusedWrite is the API server's answer to a removal, or an update in place, that it did not carry out.
type RefusedWrite struct {
	At time.Time
	// ByBudget reports that a PodDisruptionBudget does not allow the eviction now.
	ByBudget bool
	// MayStillHappen reports that the same removal was an intent before, whose request may still be under way.
	MayStillHappen bool
	// Update: the API server refused an update in place, not a removal.
	Update  bool
	Message string
}

func (in Input) overrides(guard v1alpha1.GuardName) bool {
	return slices.Contains(in.Overridden, v1alpha1.OverridableGuard(guard))
}

// state is an Input at a moment, with what follows from it. It is immutable.
type state struct {
	Input
	now time.Time
	// target is the revision to which the pods are brought.
	target string
	// intents are the ordinals with a removal or a write that is recorded, is not visible, and may still be carried out.
	intents []int
	// byReadiness: the operator cannot reach the members, so probes and leases replace their answers.
	byReadiness bool
}

func newState(in Input, now time.Time) *state {
	s := &state{Input: in, now: now, target: target(in), byReadiness: !in.HasSource && in.Timers.cutOff(now, in.Config.Grace())}
	if s.byReadiness {
		s.Snapshot = s.Snapshot.ByReadiness()
	} else if vouched := in.Timers.vouched(in.Snapshot, now, in.Config.Grace()); len(vouched) > 0 {
		s.Snapshot = s.Snapshot.Vouch(vouched)
	}
	for _, pod := range s.Recorded.Pods {
		if i := s.Snapshot.OrdinalOf(pod.UID); i >= 0 && s.mayStillHappen(pod) {
			s.intents = append(s.intents, i)
		}
	}
	return s
}

// target is the revision to bring the pods to: a restart follows the StatefulSet's, every other rollout keeps
// the one it began with.
func target(in Input) string {
	current := in.Snapshot.StatefulSet.UpdateRevision
	if in.Config.Restart {
		return current
	}
	return cmp.Or(in.Recorded.TargetRevision, in.Config.TargetRevision, current)
}

// mayStillHappen reports whether a removal or a write that was recorded as an intent may yet be carried out: the pod is still
// there as it was then, and the API server has not refused.
func (s *state) mayStillHappen(pod v1alpha1.RolloutPod) bool {
	if pod.LastOperation.State != v1alpha1.OperationStateInProgress {
		return false
	}
	o := s.ordinal(s.Snapshot.OrdinalOf(pod.UID))
	if o.Class == v1alpha1.ClassTerminating || changedSince(pod.Evidence.ResourceVersion, o.Pod.ResourceVersion) {
		return false
	}
	refusal, refused := s.Refused[pod.UID]
	return !refused || refusal.MayStillHappen || refusal.At.Before(pod.Evidence.ObservedAt.Time)
}

// IsIntent reports whether the removal of a pod was recorded before, and may still be carried out by the operator that recorded it.
func IsIntent(in Input, pod types.UID, now time.Time) bool {
	s := newState(in, now)
	return slices.Contains(s.intents, s.Snapshot.OrdinalOf(pod))
}

// View is what a decision makes of its input before it decides.
type View struct {
	// Snapshot is that of the input, or one from probes and leases if the operator cannot reach the members.
	Snapshot *cluster.Snapshot
	// Intents are the ordinals of recorded removals and writes that are not visible and may still be carried out.
	Intents []int
	// Canary is the updated pod whose member has to say which version of etcd the template has; empty if that is known.
	Canary string
}

// ViewOf returns the view of an input.
func ViewOf(in Input, now time.Time) View {
	s := newState(in, now)
	_, canary := targetVersion(s.Snapshot, s.outdated)
	return View{Snapshot: s.Snapshot, Intents: s.intents, Canary: canary}
}

func (s *state) ordinal(i int) *cluster.Ordinal { return &s.Snapshot.Ordinals[i] }

// recordOf is the record of the pod with this UID; the zero value when there is none.
func (s *state) recordOf(uid types.UID) v1alpha1.RolloutPod {
	i := slices.IndexFunc(s.Recorded.Pods, func(p v1alpha1.RolloutPod) bool { return p.UID == uid })
	if i < 0 {
		return v1alpha1.RolloutPod{}
	}
	return s.Recorded.Pods[i]
}

// outdated reports whether the pod of an ordinal is to be replaced, or updated in place.
func (s *state) outdated(ordinal int) bool {
	o := s.ordinal(ordinal)
	if o.Pod == nil || o.Class == v1alpha1.ClassTerminating {
		return false
	}
	return !o.Pod.At(s.target) || s.Config.Restart && !o.Pod.Created.After(s.Created) && !s.isReplacement(ordinal)
}

// isReplacement reports whether the pod of an ordinal replaced one that this rollout removed. Timestamps have a resolution of a second, so
// a replacement created in the same second as the task would count as older than the task.
func (s *state) isReplacement(ordinal int) bool {
	o := s.ordinal(ordinal)
	return slices.ContainsFunc(s.Recorded.Pods, func(p v1alpha1.RolloutPod) bool {
		return p.Name == o.Name && p.UID != o.Pod.UID && p.LastOperation.State != v1alpha1.OperationStateFailed
	})
}

// cannotSpareOne reports whether the cluster has one or two replicas and as many voters, so that losing any member costs the quorum. A
// cluster of two that is to have three is rolled once it has three.
func (s *state) cannotSpareOne() bool {
	voters := len(s.Snapshot.Cluster.Voters)
	return voters == s.Snapshot.Replicas() && (voters == 1 || voters == 2 && !s.Snapshot.Changing)
}
