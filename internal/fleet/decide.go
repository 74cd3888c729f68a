// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"container/heap"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// notInLine returns the decision about a task that does not wait, or not any more: it has started by what another operator has written.
func notInLine() Decision {
	return Decision{Hold: &Hold{Reason: WaitingForSlot, Message: "the task is not in line"}}
}

// InLine reports whether a task waits.
func (in *Input) InLine(task types.UID) bool {
	return slices.ContainsFunc(in.Waiting, func(c Candidate) bool { return c.Task == task })
}

// Decide says whether a task that waits may take a slot now.
func Decide(in Input, task types.UID) Decision {
	s := newState(in)
	c := s.candidate(task)
	if c == nil {
		return notInLine()
	}
	d := Decision{Before: s.before(c)}
	// What objects now objects all the more once those ahead have taken their slots.
	if d.Hold = s.objection(c); d.Hold != nil {
		return d
	}
	s.pass(func(next *Candidate, hold *Hold, canary bool) bool {
		if next.Task == c.Task {
			d.Hold, d.Canary = hold, canary
		}
		return next.Task != c.Task
	})
	return d
}

// Again says whether a task that had a slot, and has not started, may still have it. No task goes ahead of it.
func Again(in Input, task types.UID) Decision {
	s := newState(in)
	c := s.candidate(task)
	if c == nil {
		return notInLine()
	}
	hold := s.objection(c)
	return Decision{Hold: hold, Canary: hold == nil && s.canary(c)}
}

// Next returns the tasks that may take slots now, all of them together, and since when tasks have waited for a slot of each policy and none
// was given. What waits because its namespace has its share does not count: its own tasks keep it, and those are its tenant's. What waits for
// the task of a canary does: its tenant may have suspended it.
func Next(in Input) (all []types.UID, awaited map[string]time.Time) {
	s := newState(in)
	awaited = map[string]time.Time{}
	s.pass(func(next *Candidate, hold *Hold, _ bool) bool {
		if hold == nil {
			all = append(all, next.Task)
		} else if first, known := awaited[hold.Policy]; (hold.Reason == WaitingForSlot && !hold.Share || hold.Runs) && (!known || next.Since.Before(first)) {
			awaited[hold.Policy] = next.Since
		}
		return true
	})
	for policy, since := range awaited {
		for i := range in.Ledger.Holders {
			if h := &in.Ledger.Holders[i]; slices.Contains(h.Policies, policy) {
				since = later(since, h.Granted)
			}
		}
		for i := range in.Ledger.Changes {
			if c := &in.Ledger.Changes[i]; c.Policy == policy {
				since = later(since, c.Last)
			}
		}
		awaited[policy] = since
	}
	return all, awaited
}

// Grant returns the holder that a decision makes of a task.
func Grant(in Input, task types.UID, d Decision) Holder {
	s := newState(in)
	return s.holder(s.candidate(task), d.Canary)
}

// candidate returns the task that waits with a UID; nil if none does.
func (s *state) candidate(task types.UID) *Candidate {
	for i := range s.Waiting {
		if s.Waiting[i].Task == task {
			return &s.Waiting[i]
		}
	}
	return nil
}

// before counts the tasks that are ahead.
func (s *state) before(c *Candidate) int {
	n := 0
	for i := range s.Waiting {
		if s.compare(&s.Waiting[i], c) < 0 {
			n++
		}
	}
	return n
}

// objection is why a task does not start now, by the policies that select its namespace; nil if it may.
func (s *state) objection(c *Candidate) *Hold {
	for _, ask := range rules {
		for _, name := range s.Covering[c.Namespace] {
			p := s.Policies[name]
			if p == nil {
				continue
			}
			if hold := ask(s, p, c); hold != nil {
				hold.Policy = name
				return hold
			}
		}
	}
	return nil
}

// pass asks each task in line, in its order, and gives those that may start their slots. One that may not is skipped. It ends when
// visit returns false.
func (s *state) pass(visit func(c *Candidate, hold *Hold, canary bool) bool) {
	line := &line{state: s}
	for i := range s.Waiting {
		line.all = append(line.all, place{&s.Waiting[i], s.served[s.Waiting[i].Namespace]})
	}
	heap.Init(line)
	for line.Len() > 0 {
		if head := &line.all[0]; head.served != s.served[head.Namespace] {
			head.served = s.served[head.Namespace]
			heap.Fix(line, 0)
			continue
		}
		c := heap.Pop(line).(place).Candidate
		hold := s.objection(c)
		canary := hold == nil && s.canary(c)
		if !visit(c, hold, canary) {
			return
		}
		if hold == nil {
			s.take(c, canary)
		}
	}
}

// canary reports whether a task that starts is a canary, by at least one policy.
func (s *state) canary(c *Candidate) bool {
	for _, name := range s.Covering[c.Namespace] {
		if p := s.Policies[name]; p != nil && s.Ledger.InCanaryStage(p, c.Change) {
			return true
		}
	}
	return false
}

// place is a task in line, and how much its namespace had been served when it was put there.
type place struct {
	*Candidate
	served float64
}

// line is a heap of tasks. What a namespace has been served only grows, so one whose place is out of date is further back.
type line struct {
	*state
	all []place
}

// Len implements heap.Interface.
func (l *line) Len() int { return len(l.all) }

// Less implements heap.Interface.
func (l *line) Less(i, j int) bool { return l.compareAt(l.all[i], l.all[j]) < 0 }

// Swap implements heap.Interface.
func (l *line) Swap(i, j int) { l.all[i], l.all[j] = l.all[j], l.all[i] }

// Push implements heap.Interface.
func (l *line) Push(x any) { l.all = append(l.all, x.(place)) }

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := l.all[len(l.all)-1]
	l.all = l.all[:len(l.all)-1]
	return last
}

// Used is how many slots of a policy are in use, including those of clusters that lack a member.
func Used(in Input, policy string) int {
	u := newState(in).usage[policy]
	if u == nil {
		return 0
	}
	return len(u.holders) + len(u.impaired)
}
