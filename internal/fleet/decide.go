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

// notInLine returns the decision about a task that is not waiting, for example because another operator has started it.
func notInLine() Decision {
	return Decision{Hold: &Hold{Reason: WaitingForSlot, Message: "the task is not in line"}}
}

// InLine reports whether a task is waiting.
func (in *Input) InLine(task types.UID) bool {
	return slices.ContainsFunc(in.Waiting, func(c Candidate) bool { return c.Task == task })
}

// Decide decides whether a waiting task may take a slot now.
func Decide(in Input, task types.UID) Decision {
	s := newState(in)
	c := s.candidate(task)
	if c == nil {
		return notInLine()
	}
	d := Decision{Before: s.before(c)}
	// An objection also holds once the tasks ahead have taken their slots.
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

// Again decides whether a task that had a slot and has not started may keep it. No task goes ahead of it.
func Again(in Input, task types.UID) Decision {
	s := newState(in)
	c := s.candidate(task)
	if c == nil {
		return notInLine()
	}
	hold := s.objection(c)
	return Decision{Hold: hold, Canary: hold == nil && s.canary(c)}
}

// Bypass is the decision about a waiting task that starts whatever the policies say. It is a canary as any other is: others wait for it.
func Bypass(in Input, task types.UID) Decision {
	s := newState(in)
	return Decision{Canary: s.canary(s.candidate(task))}
}

// Next returns the tasks that may take slots now, all of them together, and since when tasks have waited for a slot of each policy and none
// was given. What waits because its namespace has its share does not count: its own tasks keep it, and those are its tenant's. What waits for
// a canary that is late does: its tenant may have suspended its task, or have its members change again and again.
func Next(in Input) (all []types.UID, awaited map[string]time.Time) {
	s := newState(in)
	awaited = map[string]time.Time{}
	s.pass(func(next *Candidate, hold *Hold, _ bool) bool {
		if hold == nil {
			all = append(all, next.Task)
		} else if first, known := awaited[hold.Policy]; (hold.Reason == WaitingForSlot && !hold.Share || hold.Late) && (!known || next.Since.Before(first)) {
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

// candidate returns the waiting task with a UID; nil if there is none.
func (s *state) candidate(task types.UID) *Candidate {
	return find(s.Waiting, func(c *Candidate) bool { return c.Task == task })
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

// objection returns why the policies of its namespace keep a task from starting now; nil if they do not.
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

// pass visits the waiting tasks in order, and gives a slot to each that may start. It ends when visit returns false.
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

// line is a heap of tasks. What a namespace has been served only grows, so a task with an outdated place belongs further back.
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

// Push implements heap.Interface. All tasks are in line from the beginning.
func (l *line) Push(any) {}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := l.all[len(l.all)-1]
	l.all = l.all[:len(l.all)-1]
	return last
}

// Used returns how many slots of a policy are in use, including those of clusters that lack a member.
func Used(in Input, policy string) int {
	u := newState(in).usage[policy]
	if u == nil {
		return 0
	}
	return len(u.holders) + len(u.impaired)
}
