// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package controller

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// shares records how the workers of a controller are distributed.
type shares struct {
	// free workers, of all, work on nothing.
	free, all int
	// of is how many work for a namespace, slow how many on objects that were slow the last time, and unhurried how many on what has the
	// priority Unhurried.
	of              map[string]int
	slow, unhurried int
}

// look is the next reconcile of an object.
type look struct {
	namespace string
	// slow: it took long the last time, most likely because members hang. What is unhurried is not slow: nothing else waits for its share.
	slow, unhurried bool
}

// admits reports whether a worker may take up an object now: as long as more workers are free than its namespace has, and, if it is slow, as long
// as all that are slow have less than a third of the workers. So one namespace has at most half of the workers, two have a third each, and one
// that needs none finds some free whatever the others do. What is slow has its third also while others are at work: all is slow while the API
// server is. What is unhurried has what the slow leave of this third, and a tenth in any case: each keeps the other from nothing but speed.
func (s *shares) admits(l look) bool {
	switch {
	case s.of[l.namespace] >= s.free:
		return false
	case l.slow:
		return 3*s.slow < s.all
	case l.unhurried:
		return 3*(s.slow+s.unhurried) < s.all || 10*s.unhurried < s.all
	}
	return true
}

// take gives a worker to an object.
func (s *shares) take(l look) {
	s.free--
	s.of[l.namespace]++
	if l.slow {
		s.slow++
	}
	if l.unhurried {
		s.unhurried++
	}
}

// giveBack ends what take began.
func (s *shares) giveBack(l look) {
	s.free++
	if s.of[l.namespace]--; s.of[l.namespace] == 0 {
		delete(s.of, l.namespace)
	}
	if l.slow {
		s.slow--
	}
	if l.unhurried {
		s.unhurried--
	}
}

// heldBack is an object that waits for its share.
type heldBack struct {
	look
	object   reconcile.Request
	priority int
}

// next returns the index of the one to take up of those held back, which are in the order in which they came; -1 if there is none.
// First are those whose namespace has the fewest workers, of these those with the highest priority, and then those that are not slow.
func (s *shares) next(all []heldBack) int {
	best := -1
	for i, h := range all {
		if s.admits(h.look) && (best < 0 || s.before(h, all[best])) {
			best = i
		}
	}
	return best
}

func (s *shares) before(a, b heldBack) bool {
	switch of, other := s.of[a.namespace], s.of[b.namespace]; {
	case of != other:
		return of < other
	case a.priority != b.priority:
		return a.priority > b.priority
	}
	return b.slow && !a.slow
}
