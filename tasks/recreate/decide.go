// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package recreate implements the task type RecreateRollout: all pods of an etcd StatefulSet are stopped, and once the last one is gone,
// all are started at the target revision (KEP-3541). It is for clusters that are stuck, and costs downtime.
//
// The task does not touch pods. While its status has one of the first two phases, the Etcd controller holds the StatefulSet at zero
// replicas; in any other phase, or once the task is gone, it restores the replicas. So an interrupted operator leaves nothing to undo.
package recreate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Input is everything that a decision rests on.
type Input struct {
	Snapshot *cluster.Snapshot
	Config   rollout.RecreateConfig
	// Task is the UID of the task.
	Task types.UID
	// Overridden are the guards that the task overrides.
	Overridden []v1alpha1.OverridableGuard
	// Pausing: the task is to pause, if it has stopped nothing yet.
	Pausing bool
	// SpecApplied: the newest spec is applied to the StatefulSet, or its reconciliation is suspended.
	SpecApplied bool
	// SpecPending is why it is not applied, according to the Etcd's status; empty if the status does not say.
	SpecPending string
	// Obstacle is why the Etcd controller does not stop or start the pods (tasks.Obstacle); empty if nothing is known to keep it from that.
	Obstacle string
	// Hibernates: the spec asks for no members.
	Hibernates bool
	// Recorded is status.rollout of the task so far.
	Recorded v1alpha1.RolloutStatus
}

// Decision is the next status of the task, and the phase that it enters or stays in.
type Decision struct {
	// Outcome is Continue, Done or Reject; Code goes with Reject.
	Outcome tasks.Outcome
	Code    v1alpha1.ErrorCode
	Phase   v1alpha1.RecreatePhase
	// Message says what the task waits for, or how it has ended.
	Message string
	// Stranded is the pod because of which no pod is stopped: it could not come back with its data.
	Stranded string
	// Pauses: the task was to pause, and does.
	Pauses bool
}

// decide returns the next step of a recreation. It is pure.
func decide(in Input) Decision {
	set, phase := in.Snapshot.StatefulSet, in.Recorded.Phase
	stay := func(format string, args ...any) Decision {
		return Decision{Outcome: tasks.Continue, Phase: phase, Message: fmt.Sprintf(format, args...)}
	}
	enter := func(next v1alpha1.RecreatePhase, format string, args ...any) Decision {
		return Decision{Outcome: tasks.Continue, Phase: next, Message: fmt.Sprintf(format, args...)}
	}
	held := in.held()
	switch target := in.target(); {
	case !set.Observed:
		return stay("the StatefulSet controller has not seen the newest spec of StatefulSet %s yet", set.Name)
	case set.UpdateRevision != target:
		return Decision{Outcome: tasks.Reject, Code: v1alpha1.ErrSuperseded, Phase: phase, Message: rollout.SupersededMessage(set.Name, target, set.UpdateRevision)}
	case phase == "" && !in.SpecApplied && in.Config.TargetRevision == "":
		// Otherwise the pods would come back at the revision of a spec that has been fixed since.
		return stay("waiting until the newest spec of the Etcd is applied to StatefulSet %s%s", set.Name, because(cmp.Or(in.SpecPending, in.Obstacle)))
	case phase == "" && in.Snapshot.Replicas() == 0 && in.complete():
		return Decision{Outcome: tasks.Done, Phase: v1alpha1.RecreateComplete, Message: fmt.Sprintf("nothing to do: StatefulSet %s has no replicas", set.Name)}
	case phase == "" && in.complete():
		return Decision{Outcome: tasks.Done, Phase: v1alpha1.RecreateComplete, Message: fmt.Sprintf(
			"nothing to do: every pod of StatefulSet %s is at revision %s, and every member participates", set.Name, target)}
	case phase == "" && in.Pausing:
		return Decision{Outcome: tasks.Continue, Pauses: true}
	case (phase == "" || phase == v1alpha1.RecreateNeedsDeletion && !held) && in.stranded() != nil:
		// While nothing is stopped yet, the task goes back to its beginning.
		o := in.stranded()
		return Decision{Outcome: tasks.Continue, Stranded: o.Name, Message: fmt.Sprintf("no pod is stopped: the replacement of %s could not attach its volume: %s", o.Name, o.Pod.VolumeTrouble)}
	case phase == "" && in.Obstacle != "":
		return stay("no pod is stopped: %s", in.Obstacle)
	case phase == "":
		return enter(v1alpha1.RecreateNeedsDeletion, "all pods of StatefulSet %s are stopped, and then started at revision %s", set.Name, target)
	case phase == v1alpha1.RecreateNeedsDeletion && held:
		return enter(v1alpha1.RecreateWaitingTermination, "StatefulSet %s is scaled to zero%s", set.Name, left(in.Snapshot))
	case phase == v1alpha1.RecreateNeedsDeletion:
		return stay("waiting until StatefulSet %s is scaled to zero%s", set.Name, because(in.Obstacle))
	case phase == v1alpha1.RecreateWaitingTermination && !held:
		return stay("StatefulSet %s is no longer scaled to zero: waiting until it is%s", set.Name, because(in.Obstacle))
	case phase == v1alpha1.RecreateWaitingTermination && len(in.Snapshot.Surplus) > 0:
		return stay("StatefulSet %s is scaled to zero%s", set.Name, left(in.Snapshot))
	case phase == v1alpha1.RecreateWaitingTermination:
		return enter(v1alpha1.RecreateReadyForCreation, "the last pod of StatefulSet %s is gone: all start at revision %s", set.Name, target)
	}
	return in.starting()
}

// starting waits until every member is back.
func (in Input) starting() Decision {
	set, d := in.Snapshot.StatefulSet, Decision{Outcome: tasks.Continue, Phase: in.Recorded.Phase}
	switch none := in.Snapshot.Replicas() == 0; {
	case set.HeldAtZeroBy == "" && !none && in.complete():
		return Decision{Outcome: tasks.Done, Phase: v1alpha1.RecreateComplete, Message: fmt.Sprintf(
			"every pod of StatefulSet %s was stopped and started at revision %s, and every member participates", set.Name, set.UpdateRevision)}
	case set.HeldAtZeroBy == "" && in.Hibernates:
		d.Outcome, d.Code = tasks.Reject, v1alpha1.ErrHibernated
		d.Message = fmt.Sprintf("all pods of StatefulSet %s were stopped, and the Etcd was hibernated since, with spec.replicas 0: they start at the newest template once it wakes up", set.Name)
	case set.HeldAtZeroBy != "" || none:
		d.Message = fmt.Sprintf("waiting until StatefulSet %s is scaled up again%s", set.Name, because(in.Obstacle))
	default:
		d.Message = in.away()
	}
	return d
}

// held reports whether this task holds the StatefulSet at zero.
func (in Input) held() bool {
	return in.Snapshot.StatefulSet.HeldAtZeroBy == in.Task && in.Snapshot.Replicas() == 0
}

// awaitsController reports whether a task that is in a phase next waits for the Etcd controller, which does not say what it waits for itself.
func (in Input) awaitsController(next v1alpha1.RecreatePhase) bool {
	switch next {
	case "":
		return !in.SpecApplied && in.Config.TargetRevision == "" && in.SpecPending == ""
	case v1alpha1.RecreateNeedsDeletion, v1alpha1.RecreateWaitingTermination:
		return !in.held()
	case v1alpha1.RecreateReadyForCreation:
		return in.Snapshot.StatefulSet.HeldAtZeroBy != "" || in.Snapshot.Replicas() == 0
	}
	return false
}

// because adds to a sentence why that is so, if it is known.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// target returns the revision at which the pods come back.
func (in Input) target() string {
	return cmp.Or(in.Recorded.TargetRevision, in.Config.TargetRevision, in.Snapshot.StatefulSet.UpdateRevision)
}

// stranded returns an ordinal whose pod could not come back with its data; nil if there is none, or if the guard is overridden.
func (in Input) stranded() *cluster.Ordinal {
	if slices.Contains(in.Overridden, v1alpha1.OverridableGuard(v1alpha1.GuardVolumeReachable)) {
		return nil
	}
	i := slices.IndexFunc(in.Snapshot.Ordinals, func(o cluster.Ordinal) bool { return o.Pod != nil && o.Pod.VolumeTrouble != "" })
	if i < 0 {
		return nil
	}
	return &in.Snapshot.Ordinals[i]
}

// complete reports whether every pod is at the target revision, and every member participates.
func (in Input) complete() bool {
	return len(in.Snapshot.Surplus) == 0 && int(in.updated()) == in.Snapshot.Replicas() && in.Snapshot.Participating() == in.Snapshot.Replicas()
}

// updated returns the number of pods at the target revision that are not terminating.
func (in Input) updated() int32 {
	return int32(in.Snapshot.CountOrdinals(func(o cluster.Ordinal) bool {
		return o.Pod != nil && o.Class != v1alpha1.ClassTerminating && o.Pod.At(in.target())
	}))
}

// away describes the members that are not back yet, with the kubelet's message if there is one.
func (in Input) away() string {
	var away []string
	for _, o := range in.Snapshot.Ordinals {
		switch {
		case o.Class == v1alpha1.ClassParticipating && o.Pod.At(in.target()):
		case o.Pod != nil && o.Pod.Trouble != "":
			away = append(away, fmt.Sprintf("%s is %s (%s)", o.Name, o.Class, o.Pod.Trouble))
		default:
			away = append(away, fmt.Sprintf("%s is %s", o.Name, o.Class))
		}
	}
	return "waiting until every member participates: " + strings.Join(append(away, in.Snapshot.Surplus...), "; ")
}

func left(s *cluster.Snapshot) string {
	if len(s.Surplus) == 0 {
		return ""
	}
	return ": waiting until these are gone: " + strings.Join(s.Surplus, ", ") + "; if a node is gone, power off its machine, and only then taint it with node.kubernetes.io/out-of-service; if a pod has finalizers, check what set them"
}

// record returns the status of the rollout after a decision. It is pure, and does not modify the input.
func record(in Input, d Decision, now time.Time) v1alpha1.RolloutStatus {
	r := *in.Recorded.DeepCopy()
	updated, participating := in.updated(), int32(in.Snapshot.Participating())
	// The highest number that have participated at once in this phase: a flapping member makes no progress.
	most := max(r.MostParticipatingReplicas, r.ParticipatingReplicas)
	if d.Phase != r.Phase {
		most = 0
	}
	if r.LastProgressTime == nil || d.Phase != r.Phase || participating > most {
		r.LastProgressTime = &metav1.Time{Time: now}
	}
	r.MostParticipatingReplicas = max(most, participating)
	if in.Snapshot.StatefulSet.Observed && d.Phase != "" {
		r.TargetRevision = in.target()
	} else if d.Phase == "" {
		// It has gone back to its beginning, and begins at the newest revision.
		r.TargetRevision = ""
	}
	r.HeldBy, r.BlockedBy = nil, nil
	if d.Stranded != "" {
		hold := rollout.Hold{Guard: v1alpha1.GuardVolumeReachable, Pod: d.Stranded, Message: d.Message}
		r.HeldBy, r.BlockedBy = rollout.Held(in.Recorded.HeldBy, &hold, now), []rollout.Hold{hold}
	}
	r.Phase, r.UpdatedReplicas, r.ParticipatingReplicas = d.Phase, updated, participating
	if in.Snapshot.Replicas() > 0 {
		// While the pods are stopped, this is how many there will be again.
		r.Replicas = int32(in.Snapshot.Replicas())
	}
	return r
}
