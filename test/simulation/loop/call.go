// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"slices"
)

// Call parks a call of a goroutine that Start has started, or of one of its own, until it is drawn, carried out and released. It returns false
// for a call that was not carried out, because the run is over.
func (l *Loop) Call(a *Actor, who, what string, do func(release func())) bool {
	c := &call{actor: a, who: who, what: what, do: do, released: make(chan struct{})}
	l.mu.Lock()
	l.parked = append(l.parked, c)
	l.tally(who, 1)
	l.mu.Unlock()
	<-c.released
	return !c.refused
}

// draw takes one of the calls that are parked; nil if there is none. They are ordered by what they are, not by when they came: goroutines
// of one reconcile may run in any order.
func (l *Loop) draw() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var may []*call
	for _, c := range l.parked {
		if !c.actor.Paused {
			may = append(may, c)
		}
	}
	if len(may) == 0 {
		return nil
	}
	slices.SortFunc(may, func(a, b *call) int { return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what)) })
	c := may[l.turns.IntN(len(may))]
	l.parked = slices.DeleteFunc(l.parked, func(other *call) bool { return other == c })
	l.open = append(l.open, c)
	return c
}

func (l *Loop) release(c *call) {
	l.mu.Lock()
	l.tally(c.who, -1)
	l.open = slices.DeleteFunc(l.open, func(other *call) bool { return other == c })
	l.mu.Unlock()
	close(c.released)
}

// tally counts the calls of a goroutine that has not ended. The caller holds the mutex.
func (l *Loop) tally(who string, n int) {
	if _, runs := l.running[who]; runs {
		l.running[who] += n
	}
}
