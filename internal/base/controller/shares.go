// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package controller

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// shares records how the workers of a controller are distributed.
type shares struct {
	// free workers work on nothing.
	free int
	// of is how many workers a namespace has, and slow how many work on objects that were slow the last time.
	of   map[string]int
	slow int
}

// look is the next reconcile of an object.
type look struct {
	namespace string
	// slow: it took long the last time, most likely because members hang.
	slow bool
}

// admits reports whether an object may get a worker now: more workers must be free than its namespace has and, if it is slow, than twice
// the number that all slow objects have together. So one namespace has at most half of the workers, two have a third each, slow objects
// have a third, and another namespace always finds free workers.
func (s *shares) admits(l look) bool {
	return s.of[l.namespace] < s.free && (!l.slow || 2*s.slow < s.free)
}

// take gives a worker to an object.
func (s *shares) take(l look) {
	s.free--
	s.of[l.namespace]++
	if l.slow {
		s.slow++
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
}

// heldBack is an object that waits for its share.
type heldBack struct {
	look
	object   reconcile.Request
	priority int
}

// next returns the index of the object to resume among those held back, which are in the order of their arrival; -1 if there is none. It
// prefers namespaces with the fewest workers, then objects that are not slow, and then the highest priority.
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
	case a.slow != b.slow:
		return b.slow
	}
	return a.priority > b.priority
}
