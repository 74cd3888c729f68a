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

// Record is the status of the rollout after a decision. It is pure; the input is left as it is.
func Record(in Input, d Decision, now time.Time) v1alpha1.RolloutStatus {
	s := newState(in, now)
	w := recorder{s}
	r := *in.Recorded.DeepCopy()
	if s.Snapshot.StatefulSet.Observed {
		r.TargetRevision = s.target
	}
	if w.progresses(d) {
		r.LastProgressTime = &metav1.Time{Time: now}
	}
	r.MostParticipatingReplicas = max(mostParticipating(r), int32(s.Snapshot.Participating()))
	r.Replicas, r.UpdatedReplicas, r.ParticipatingReplicas = int32(s.Snapshot.Replicas()), w.updated(), int32(s.Snapshot.Participating())
	for i := range r.Pods {
		w.settle(&r.Pods[i])
	}
	if d.Step == nil || !w.repeats(d.Step) || !concerns(s, in.Recorded.HeldBy, d.Step) {
		r.HeldBy, r.BlockedBy = Held(in.Recorded.HeldBy, d.Hold(), now), d.Blocking
	}
	r.Snapshot = in.Backup.record(r.Snapshot, d.Step != nil && d.Step.Action == TakeSnapshot, now)
	if d.Step != nil {
		w.recordIntent(&r, d.Step)
	}
	return r
}

// recorder writes the status of a rollout.
type recorder struct {
	state *state
}

// progresses reports whether the rollout makes progress: leadership moves, a pod goes whose removal was recorded since the last
// progress, its replacement participates, or more members participate than ever before. A member that comes and goes is no
// progress, nor is an attempt that is refused, again and again.
func (w recorder) progresses(d Decision) bool {
	s := w.state
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
			(goes && p.Evidence.ObservedAt.After(r.LastProgressTime.Time) || w.replacement(p) != nil || w.isUpdated(p))
	})
}

// repeats reports whether a step was tried before.
func (w recorder) repeats(step *Step) bool {
	s := w.state
	return !slices.ContainsFunc(step.Ordinals, func(i int) bool { return s.recordOf(s.ordinal(i).Pod.UID).UID == "" })
}

// updated is the number of pods that need no replacement.
func (w recorder) updated() int32 {
	s := w.state
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
func (w recorder) settle(p *v1alpha1.RolloutPod) {
	s := w.state
	if p.LastOperation.State != v1alpha1.OperationStateInProgress {
		return
	}
	i := s.Snapshot.OrdinalOf(p.UID)
	if i < 0 {
		if o := w.replacement(*p); o != nil {
			w.transition(p, v1alpha1.OperationStateCompleted, fmt.Sprintf("its replacement at revision %s participates", o.Pod.Revision))
		}
		return
	}
	switch o := s.ordinal(i); {
	case o.Class == v1alpha1.ClassTerminating || s.mayStillHappen(*p):
	case w.isUpdated(*p):
		w.transition(p, v1alpha1.OperationStateCompleted, fmt.Sprintf("it was updated in place to revision %s and participates", o.Pod.Revision))
	case inplace.IsWrite(p.LastOperation.Name) && (!s.outdated(i) || o.Pod.Updating):
	default:
		why := "the pod has changed since"
		if refusal, refused := s.Refused[p.UID]; refused && !refusal.At.Before(p.Evidence.ObservedAt.Time) {
			why = refusal.Message
		}
		w.transition(p, v1alpha1.OperationStateFailed, "not carried out: "+why)
	}
}

// isUpdated reports whether an update in place that was recorded has come to its end.
func (w recorder) isUpdated(p v1alpha1.RolloutPod) bool {
	i := w.state.Snapshot.OrdinalOf(p.UID)
	return inplace.IsWrite(p.LastOperation.Name) && i >= 0 && !w.state.outdated(i) && w.state.ordinal(i).Class == v1alpha1.ClassParticipating
}

// replacement is the ordinal of a pod that is gone, once its replacement participates; nil before.
func (w recorder) replacement(p v1alpha1.RolloutPod) *cluster.Ordinal {
	s := w.state
	for i := range s.Snapshot.Ordinals {
		if o := s.ordinal(i); o.Name == p.Name && o.Class == v1alpha1.ClassParticipating && o.Pod.UID != p.UID {
			return o
		}
	}
	return nil
}

func (w recorder) transition(p *v1alpha1.RolloutPod, state v1alpha1.OperationState, why string) {
	s := w.state
	p.LastOperation.State = state
	p.LastOperation.LastTransitionTime = metav1.Time{Time: s.now}
	p.LastOperation.Reason = withEnd(p.LastOperation.Reason, why)
}

// concerns reports whether a step is about the pod of a hold: what blocked its removal most likely blocks it again.
func concerns(s *state, hold *v1alpha1.Hold, step *Step) bool {
	return hold != nil && slices.ContainsFunc(step.Ordinals, func(i int) bool { return s.Snapshot.Ordinals[i].Name == hold.Pod })
}

// Held is the hold to show. It has lasted since the same guard first blocked for the same pod.
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
func (w recorder) recordIntent(r *v1alpha1.RolloutStatus, step *Step) {
	s := w.state
	switch step.Action {
	case DeletePod, EvictPod, PatchMetadata, ResizePod, UpdateContainer:
		for _, i := range step.Ordinals {
			w.recordStep(r, step, i)
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

func (w recorder) recordStep(r *v1alpha1.RolloutStatus, step *Step, ordinal int) {
	s := w.state
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

// mostParticipating is the most members that have participated at once, as recorded. An operator of an earlier version recorded
// the present number alone.
func mostParticipating(r v1alpha1.RolloutStatus) int32 {
	return max(r.MostParticipatingReplicas, r.ParticipatingReplicas)
}
