// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package plan foresees how a rollout continues. It repeats rollout.Decide and rollout.Record on the state that each step
// leaves behind, and has every guard that blocks be resolved by what resolves it in a cluster (resolve.go). It is pure.
package plan

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
)

// Plan is how a rollout continues if everything goes well, as far as that can be foreseen. It is no promise: the operator decides
// each time on what it observes.
type Plan struct {
	Entries []Entry
	// End is Finished, Superseded or Disengaged; Wait if nothing can be predicted after the last entry.
	End rollout.Conclusion
	// Elections reports that leadership moves by an election on the way. The winner is assumed, not known.
	Elections bool
}

// Entry is one decision of a plan: a step to carry out, or a guard that blocks one.
type Entry struct {
	rollout.Decision
	// Before is the state that the decision rests on. The first entry's was observed.
	Before *cluster.Snapshot
	// Meanwhile is the state while the pods of a removal are away; nil if none is removed.
	Meanwhile *cluster.Snapshot
}

// maxEntries bounds a plan: each ordinal is waited for, handed over and removed, and something may block before.
const maxEntries = 64

// Foresee returns the plan of a rollout. It assumes that every pod that is removed comes back and participates, and that what a guard
// waits for becomes true. The input is left as it is.
func Foresee(in rollout.Input, now time.Time) Plan {
	plan, f := Plan{End: rollout.Wait}, foresight{in: in, now: now}
	f.in.Snapshot = rollout.ViewOf(in, now).Snapshot
	// The snapshot is that by readiness already, where no member answers.
	f.in.Timers.NoAnswerSince = time.Time{}
	for range maxEntries {
		d := rollout.Decide(f.in, f.now)
		if d.Conclusion != rollout.Act && d.Conclusion != rollout.Wait {
			plan.End = d.Conclusion
			break
		}
		entry, hold := Entry{Decision: d, Before: f.in.Snapshot}, d.Hold()
		if hold != nil && plan.heldBefore(*hold) {
			break
		}
		f.in.Recorded = rollout.Record(f.in, d, f.now)
		next := projectionOf(f.in.Snapshot)
		if hold != nil {
			resolvers[hold.Guard](&f, next, *hold, d.Blocked)
		} else {
			entry.Meanwhile = f.act(next, d.Step)
		}
		f.in.Snapshot = next.Snapshot
		plan.Elections = plan.Elections || next.Elected
		plan.Entries = append(plan.Entries, entry)
	}
	return plan
}

// heldBefore reports whether the entry before already assumed that what the hold waits for becomes true.
func (p Plan) heldBefore(hold rollout.Hold) bool {
	if len(p.Entries) == 0 {
		return false
	}
	last := p.Entries[len(p.Entries)-1].Hold()
	return last != nil && last.Guard == hold.Guard && last.Pod == hold.Pod
}

// foresight is the input of the next decision of a plan.
type foresight struct {
	in  rollout.Input
	now time.Time
}

// act carries out a step, and returns the state while pods are away.
func (f *foresight) act(next *projection, step *rollout.Step) *cluster.Snapshot {
	f.now = f.now.Add(rollout.IntentWindow)
	switch step.Action {
	case rollout.MoveLeader:
		next.lead(step.Successor)
	case rollout.RevokeDeletion:
		for _, i := range step.Ordinals {
			next.Ordinals[i].Pod.ResourceVersion += "+"
		}
	case rollout.TakeSnapshot:
		f.in.Backup.Taken = "snapshot"
	case rollout.PatchMetadata, rollout.ResizePod, rollout.UpdateContainer:
		return f.update(next, step)
	case rollout.DeletePod, rollout.EvictPod:
		next.remove(step.Ordinals)
		meanwhile := projectionOf(next.Snapshot).Snapshot
		next.replace(step.Ordinals, f.now)
		return meanwhile
	}
	return nil
}

// update carries out a write to a pod, and returns the state while its member is disrupted; nil if it is not.
func (f *foresight) update(next *projection, step *rollout.Step) *cluster.Snapshot {
	o := &next.Ordinals[step.Ordinals[0]]
	f.in.Updates = f.in.Updates.Foresee(o, next.StatefulSet, f.now)
	if !step.Write.Disrupts {
		return nil
	}
	meanwhile := projectionOf(next.Snapshot)
	meanwhile.remove(step.Ordinals)
	next.Elected = next.Elected || meanwhile.Elected
	return meanwhile.Snapshot
}
