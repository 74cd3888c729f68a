// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// situation is an Input at a moment, with what follows from it.
type situation struct {
	Input
	now time.Time
	// target is the revision that the pods are brought to.
	target string
	// announced are the ordinals whose deletion was announced, did not show, and may still come.
	announced []int
	// next is the ordinal of the pod that is to go next; -1 when there is none.
	next int
}

func situate(in Input, now time.Time) *situation {
	s := &situation{Input: in, now: now, next: -1, target: target(in)}
	if s.byReadiness() {
		s.Snapshot = s.Snapshot.ByReadiness()
	}
	for _, pod := range s.Recorded.Pods {
		if i := s.ordinalOf(pod.UID); i >= 0 && s.mayStillBeDeleted(pod) {
			s.announced = append(s.announced, i)
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

// byReadiness: no member has answered for as long as a loss of the quorum takes to count as lasting, and yet
// the probes of pods pass. Then the operator is cut off, not the cluster, and the rollout works as DEP-07
// describes.
func (s *situation) byReadiness() bool {
	return lasted(s.Spells.NoAnswerSince, s.now, s.Config.grace())
}

// mayStillBeDeleted tells of a deletion that was announced whether it may yet come: the pod is still there as
// it was then, and the API server has not refused.
func (s *situation) mayStillBeDeleted(pod v1alpha1.RolloutPod) bool {
	if pod.LastOperation.State != v1alpha1.OperationStateInProgress {
		return false
	}
	o := s.Snapshot.Ordinals[s.ordinalOf(pod.UID)]
	if o.Class == v1alpha1.ClassTerminating || changedSince(pod.Evidence.ResourceVersion, o.Pod.ResourceVersion) {
		return false
	}
	refusal, refused := s.Refused[pod.UID]
	return !refused || refusal.MayCome || refusal.At.Before(pod.Evidence.ObservedAt.Time)
}

// within tells whether something was less than a while ago. What lies in the future was not: its time was taken by a
// clock that was wrong, most likely that of another machine, and nobody waits until then.
func within(at, now time.Time, while time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age < while
}

// changedSince tells whether a resourceVersion is newer than that of a decision. An older one is that of a cache, which
// lags behind what the decision was made on.
func changedSince(decided, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, decided)
	if err != nil {
		return seen != decided
	}
	return order > 0
}

// ordinalOf is the ordinal of the pod with this UID; -1 when it is gone.
func (s *situation) ordinalOf(uid types.UID) int {
	for i, o := range s.Snapshot.Ordinals {
		if o.Pod != nil && o.Pod.UID == uid {
			return i
		}
	}
	return -1
}

// announcedBut are the announced deletions that a decision does not carry out.
func (s *situation) announcedBut(d Decision) []int {
	var rest []int
	for _, i := range s.announced {
		if d.Step == nil || !d.Step.removes(i) {
			rest = append(rest, i)
		}
	}
	return rest
}

func (s *Step) removes(ordinal int) bool {
	return s.isRemoval() && slices.Contains(s.Ordinals, ordinal)
}

func (d Decision) isRemoval() bool { return d.Conclusion == Act && d.Step.isRemoval() }

func (s *Step) isRemoval() bool { return s.Action == DeletePod || s.Action == EvictPod }
