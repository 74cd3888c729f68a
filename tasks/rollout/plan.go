// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"k8s.io/apimachinery/pkg/types"
)

// Plan is how a rollout would go on, as far as it can be foreseen: what Decide says, step after step, of the
// state as it will be when everything goes well. It is a plan and no promise: the operator decides anew on what
// it sees each time.
type Plan struct {
	Entries []Entry
	// End is Finished, Superseded or Disengaged; Wait when nothing can be foreseen beyond the last entry.
	End Conclusion
	// Elections tells that leadership moves by an election on the way. Who wins is assumed, not known.
	Elections bool
}

// Entry is one decision of a plan: a step to carry out, or a guard that holds.
type Entry struct {
	Decision
	// Before is the state that the decision rests on. That of the first entry was observed.
	Before *observe.Snapshot
	// Meanwhile is the state while the pods of a removal are away; nil where none is removed.
	Meanwhile *observe.Snapshot
}

// maxEntries bounds a plan: each ordinal is waited for, handed over and removed, and something may hold before.
const maxEntries = 64

// Foresee makes the plan of a rollout. It assumes that every pod that is removed comes back and participates, and
// that what a guard waits for comes about. It is pure; the input is left as it is.
func Foresee(in Input, now time.Time) Plan {
	plan, f := Plan{End: Wait}, foresight{in: in, now: now}
	f.in.Snapshot = situate(in, now).Snapshot
	// The snapshot is that by readiness already, where no member answers.
	f.in.Spells.NoAnswerSince = time.Time{}
	for range maxEntries {
		d := Decide(f.in, f.now)
		if d.Conclusion != Act && d.Conclusion != Wait {
			plan.End = d.Conclusion
			break
		}
		entry := Entry{Decision: d, Before: f.in.Snapshot}
		if d.Hold != nil && plan.heldBefore(*d.Hold) {
			break
		}
		f.in.Recorded = Record(f.in, d, f.now)
		next := project(f.in.Snapshot)
		if d.Hold != nil {
			f.wait(next, d.Hold)
		} else {
			entry.Meanwhile = f.act(next, d.Step)
		}
		f.in.Snapshot = next.Snapshot
		plan.Elections = plan.Elections || next.elected
		plan.Entries = append(plan.Entries, entry)
	}
	return plan
}

// heldBefore: what the hold waits for was assumed to come about, and it still holds.
func (p Plan) heldBefore(hold Hold) bool {
	if len(p.Entries) == 0 {
		return false
	}
	last := p.Entries[len(p.Entries)-1].Hold
	return last != nil && last.Guard == hold.Guard && last.Pod == hold.Pod
}

// Holding are the guards that hold the next pod back, all of them, not only the first.
func Holding(in Input, now time.Time) []Hold {
	s := situate(in, now)
	guards := observedGuards
	if s.next = s.nextPod(precedes); s.next >= 0 {
		guards = slices.Concat(observedGuards, safetyGuards)
	}
	var holds []Hold
	for i := range guards {
		if hold := s.first(guards[i : i+1]); hold != nil {
			holds = append(holds, *hold)
		}
	}
	return holds
}

// foresight is the input of the decision that comes next.
type foresight struct {
	in  Input
	now time.Time
}

// act carries a step out, and returns the state while pods are away.
func (f *foresight) act(next *projection, step *Step) *observe.Snapshot {
	f.now = f.now.Add(deletionWindow)
	switch step.Action {
	case MoveLeader:
		next.lead(step.Successor)
	case RevokeDeletion:
		for _, i := range step.Ordinals {
			next.Ordinals[i].Pod.ResourceVersion += "+"
		}
	case DeletePod, EvictPod:
		next.remove(step.Ordinals)
		meanwhile := project(next.Snapshot).Snapshot
		next.comeBack(step.Ordinals, f.now)
		return meanwhile
	}
	return nil
}

// wait brings about what a guard waits for.
func (f *foresight) wait(next *projection, hold *Hold) {
	s := situate(f.in, f.now)
	s.next = s.nextPod(precedes)
	switch hold.Guard {
	case v1alpha1.GuardRevisionObserved:
		next.StatefulSet.Observed = true
	case v1alpha1.GuardDeletionObserved:
		next.remove(s.announced)
		next.comeBack(s.announced, f.now)
	case v1alpha1.GuardLearnerPromoted, v1alpha1.GuardUpdatedPodsParticipating:
		next.recover(hold.Pod, f.now)
		if !next.Cluster.LeaderKnown {
			next.recoverVoters(-1, f.now)
		}
	case v1alpha1.GuardVolumeReachable:
		next.Ordinals[s.next].Pod.VolumeTrouble = ""
	case v1alpha1.GuardNodesStable:
		next.settle()
	case v1alpha1.GuardQuorumKept:
		if f.in.Snapshot.Cluster.LeaderKnown {
			next.recoverVoters(s.next, f.now)
			return
		}
		unreached, _ := outOfReach(f.in.Snapshot)
		for _, pod := range unreached {
			next.recover(pod, f.now)
		}
		if hold.Pod != f.in.Snapshot.Ordinals[s.next].Name {
			next.recover(hold.Pod, f.now)
		}
		f.last(s.next)
	case v1alpha1.GuardUnreadyConfirmed:
		f.last(s.next)
	case v1alpha1.GuardLeaderHandedOver:
		f.now = f.now.Add(handoverRetry)
		next.catchUp()
	case v1alpha1.GuardEvictionBlocked:
		f.in.Refused = nil
	}
}

// last lets what is the matter with the pod that is next last for the grace period.
func (f *foresight) last(ordinal int) {
	pod := f.in.Snapshot.Ordinals[ordinal].Pod
	f.in.Spells.LeaderlessSince = f.now
	f.in.Spells.SilentSince = map[types.UID]time.Time{pod.UID: f.now}
	f.in.Spells.Running = map[types.UID]Run{}
	for _, o := range f.in.Snapshot.Ordinals {
		if o.Pod != nil {
			f.in.Spells.Running[o.Pod.UID] = Run{Since: f.now}
		}
	}
	f.now = f.now.Add(f.in.Config.grace())
}
