// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/projection"
)

// Plan is how a rollout continues, as far as it can be foreseen: what Decide says, step after step, of the state as it
// will be when everything goes well. It is no promise: the operator decides each time on what it sees.
type Plan struct {
	Entries []Entry
	// End is Finished, Superseded or Disengaged; Wait when nothing can be foreseen beyond the last entry.
	End Conclusion
	// Elections reports that leadership moves by an election on the way. The winner is assumed, not known.
	Elections bool
}

// Entry is one decision of a plan: a step to carry out, or a guard that blocks one.
type Entry struct {
	Decision
	// Before is the state that the decision rests on. That of the first entry was observed.
	Before *cluster.Snapshot
	// Meanwhile is the state while the pods of a removal are away; nil where none is removed.
	Meanwhile *cluster.Snapshot
}

// maxEntries bounds a plan: each ordinal is waited for, handed over and removed, and something may block before.
const maxEntries = 64

// Foresee makes the plan of a rollout. It assumes that every pod that is removed comes back and participates, and
// that what a guard waits for becomes true. The input is left as it is.
func Foresee(in Input, now time.Time) Plan {
	plan, f := Plan{End: Wait}, foresight{in: in, now: now}
	f.in.Snapshot = newState(in, now).Snapshot
	// The snapshot is that by readiness already, where no member answers.
	f.in.Timers.NoAnswerSince = time.Time{}
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
		next := projection.Of(f.in.Snapshot)
		if d.Hold != nil {
			f.resolve(next, d)
		} else {
			entry.Meanwhile = f.act(next, d.Step)
		}
		f.in.Snapshot = next.Snapshot
		plan.Elections = plan.Elections || next.Elected
		plan.Entries = append(plan.Entries, entry)
	}
	return plan
}

// heldBefore reports whether what the hold waits for was assumed to be true before, and it blocks again.
func (p Plan) heldBefore(hold Hold) bool {
	if len(p.Entries) == 0 {
		return false
	}
	last := p.Entries[len(p.Entries)-1].Hold
	return last != nil && last.Guard == hold.Guard && last.Pod == hold.Pod
}

// Holding are the guards that block the next step, all of them, not only the first.
func Holding(in Input, now time.Time) []Hold {
	s := newState(in, now)
	guards, step := sightGuards, (*Step)(nil)
	if next, found := s.first(precedes); found {
		guards, step = slices.Concat(sightGuards, stepGuards), s.candidate(next)
	}
	var holds []Hold
	for i := range guards {
		if hold := s.blocking(guards[i:i+1], step); hold != nil {
			holds = append(holds, *hold)
		}
	}
	return holds
}
