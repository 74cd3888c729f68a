// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// maxRecordedPods bounds status.rollout.pods.
const maxRecordedPods = 50

// Record returns the status of the rollout after a decision. It is pure, and does not modify the input.
func Record(in Input, d Decision, now time.Time) v1alpha1.RolloutStatus {
	s := newState(in, now)
	r := *in.Recorded.DeepCopy()
	if s.Snapshot.StatefulSet.Observed {
		r.TargetRevision = s.target
	}
	if s.progresses(d) {
		r.LastProgressTime = &metav1.Time{Time: now}
	}
	r.MostParticipatingReplicas = max(mostParticipating(r), int32(s.Snapshot.Participating()))
	r.Replicas, r.UpdatedReplicas, r.ParticipatingReplicas = int32(s.Snapshot.Replicas()), s.updated(), int32(s.Snapshot.Participating())
	for i := range r.Pods {
		s.settle(&r.Pods[i])
	}
	if d.Step == nil || !s.wasTried(d.Step) || !concerns(s, in.Recorded.HeldBy, d.Step) {
		r.HeldBy, r.BlockedBy = Held(in.Recorded.HeldBy, d.Hold(), now), d.Blocking
	}
	if r.Relieve = s.relief(); d.Conclusion == Paused || s.Pausing && s.Snapshot.Replicas() == 1 {
		// No second member begins to take over.
		r.Relieve = ""
	}
	r.Snapshot = in.Backup.record(r.Snapshot, d.Step != nil && d.Step.Action == TakeSnapshot, now)
	if d.Step != nil {
		s.recordIntent(&r, d.Step)
	}
	return r
}

// progresses reports whether the rollout makes progress: leadership moves, a pod is removed whose removal was recorded since the last
// progress, its replacement participates, or more members participate than ever before. A flapping member is no progress, nor are
// repeatedly refused attempts.
func (s *state) progresses(d Decision) bool {
	r := s.Recorded
	switch {
	case r.LastProgressTime == nil || r.LastProgressTime.After(s.now):
		return true
	case d.Step != nil && d.Step.Action == MoveLeader:
		return true
	case int32(s.Snapshot.Participating()) > mostParticipating(r):
		return true
	}
	return slices.ContainsFunc(r.Pods, func(p v1alpha1.RolloutPod) bool {
		i := s.Snapshot.OrdinalOf(p.UID)
		goes := i < 0 || s.ordinal(i).Class == v1alpha1.ClassTerminating
		return p.LastOperation.State == v1alpha1.OperationStateInProgress &&
			(goes && p.Evidence.ObservedAt.After(r.LastProgressTime.Time) || s.replacement(p) != nil || s.isUpdated(p))
	})
}

// wasTried reports whether a step was tried before.
func (s *state) wasTried(step *Step) bool {
	return !slices.ContainsFunc(step.Ordinals, func(i int) bool { return s.recordOf(s.ordinal(i).Pod.UID).UID == "" })
}

// updated is the number of pods that need no replacement.
func (s *state) updated() int32 {
	n := int32(0)
	for i, o := range s.Snapshot.Ordinals {
		if o.Pod != nil && o.Class != v1alpha1.ClassTerminating && !s.outdated(i) {
			n++
		}
	}
	return n
}

// settle ends the operation of a pod that was removed, once its replacement participates or the removal has become
// impossible.
func (s *state) settle(p *v1alpha1.RolloutPod) {
	if p.LastOperation.State != v1alpha1.OperationStateInProgress {
		return
	}
	i := s.Snapshot.OrdinalOf(p.UID)
	if i < 0 {
		if o := s.replacement(*p); o != nil {
			s.transition(p, v1alpha1.OperationStateCompleted, fmt.Sprintf("its replacement at revision %s participates", o.Pod.Revision))
		}
		return
	}
	switch o := s.ordinal(i); {
	case o.Class == v1alpha1.ClassTerminating || s.mayStillHappen(*p):
	case s.isUpdated(*p):
		s.transition(p, v1alpha1.OperationStateCompleted, fmt.Sprintf("it was updated in place to revision %s and participates", o.Pod.Revision))
	case inplace.IsWrite(p.LastOperation.Name) && (!s.outdated(i) || o.Pod.Updating):
	default:
		why := "the pod has changed since"
		if refusal, refused := s.Refused[p.UID]; refused && !refusal.At.Before(p.Evidence.ObservedAt.Time) {
			why = refusal.Message
		}
		s.transition(p, v1alpha1.OperationStateFailed, "not carried out: "+why)
	}
}

// isUpdated reports whether an update in place that was recorded has come to its end.
func (s *state) isUpdated(p v1alpha1.RolloutPod) bool {
	i := s.Snapshot.OrdinalOf(p.UID)
	return inplace.IsWrite(p.LastOperation.Name) && i >= 0 && !s.outdated(i) && s.ordinal(i).Class == v1alpha1.ClassParticipating
}

// replacement returns the ordinal of a pod that is gone once its replacement participates; nil before that.
func (s *state) replacement(p v1alpha1.RolloutPod) *cluster.Ordinal {
	for i := range s.Snapshot.Ordinals {
		if o := s.ordinal(i); o.Name == p.Name && o.Class == v1alpha1.ClassParticipating && o.Pod.UID != p.UID {
			return o
		}
	}
	return nil
}

func (s *state) transition(p *v1alpha1.RolloutPod, to v1alpha1.OperationState, why string) {
	p.LastOperation.State = to
	p.LastOperation.LastTransitionTime = metav1.Time{Time: s.now}
	p.LastOperation.Reason = withEnd(p.LastOperation.Reason, why)
}

// concerns reports whether a step is about the pod of a hold: what blocked its removal most likely blocks it again.
func concerns(s *state, hold *v1alpha1.Hold, step *Step) bool {
	return hold != nil && slices.ContainsFunc(step.Ordinals, func(i int) bool { return s.Snapshot.Ordinals[i].Name == hold.Pod })
}

// Held returns the hold to show. It has lasted since the same guard first blocked for the same pod.
func Held(before *v1alpha1.Hold, hold *Hold, now time.Time) *v1alpha1.Hold {
	if hold == nil {
		return nil
	}
	h := &v1alpha1.Hold{Guard: hold.Guard, Pod: hold.Pod, Message: hold.Message, Since: metav1.Time{Time: now}}
	if before != nil && before.Guard == h.Guard && before.Pod == h.Pod {
		h.Since = before.Since
	}
	return h
}

// recordIntent records what a step is about to do.
func (s *state) recordIntent(r *v1alpha1.RolloutStatus, step *Step) {
	switch step.Action {
	case DeletePod, EvictPod, PatchMetadata, ResizePod, UpdateContainer:
		for _, i := range step.Ordinals {
			s.recordStep(r, step, i)
		}
	case MoveLeader:
		r.LeaderHandover = &v1alpha1.LeaderHandover{
			From: s.Snapshot.Ordinals[step.Ordinals[0]].Name, To: s.Snapshot.Ordinals[step.Successor].Name,
			Attempts: 1, LastAttemptTime: metav1.Time{Time: s.now},
		}
		if before := s.Recorded.LeaderHandover; before != nil && before.From == r.LeaderHandover.From {
			r.LeaderHandover.Attempts = before.Attempts + 1
		}
	}
}

func (s *state) recordStep(r *v1alpha1.RolloutStatus, step *Step, ordinal int) {
	o := s.Snapshot.Ordinals[ordinal]
	pod := v1alpha1.RolloutPod{
		Name: o.Name, UID: o.Pod.UID, Role: o.Role, Class: o.Class, Revision: o.Pod.Revision,
		LastOperation: v1alpha1.LastOperation{
			Name: string(step.Action), State: v1alpha1.OperationStateInProgress,
			LastTransitionTime: metav1.Time{Time: s.now}, Reason: step.Reason,
		},
		Evidence: evidenceOf(s.Snapshot, o, s.now),
	}
	if period, short := step.Grace[ordinal]; short {
		pod.GracePeriodSeconds = ptr.To(int64(period.Seconds()))
	}
	r.Pods = slices.DeleteFunc(r.Pods, func(p v1alpha1.RolloutPod) bool { return p.UID == pod.UID })
	r.Pods = append(r.Pods, pod)
	r.Pods = slices.Delete(r.Pods, 0, max(len(r.Pods)-maxRecordedPods, 0))
}

// mostParticipating returns the recorded highest number of members that have participated at once. Earlier versions only recorded the
// present number.
func mostParticipating(r v1alpha1.RolloutStatus) int32 {
	return max(r.MostParticipatingReplicas, r.ParticipatingReplicas)
}
