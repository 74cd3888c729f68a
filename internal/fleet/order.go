// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"strconv"
	"time"
)

// maxWait is how long a task waits before its class goes up by one, so that none waits forever. The whole class goes up: otherwise a namespace
// with many old tasks would be served before one with a few new ones.
const maxWait = time.Hour

// compare orders two waiting tasks: the lesser one goes first.
func (s *state) compare(a, b *Candidate) int {
	return s.compareAt(place{a, s.served[a.Namespace]}, place{b, s.served[b.Namespace]})
}

// compareAt is compare with what each namespace had been served when its task was put in line.
func (s *state) compareAt(a, b place) int {
	return cmp.Or(
		cmp.Compare(s.class(a.Candidate), s.class(b.Candidate)),
		cmp.Compare(s.preference(a.Candidate), s.preference(b.Candidate)),
		compareWaves(a.Wave, b.Wave),
		cmp.Compare(a.served, b.served),
		// Then the namespace that has waited longest. What tenants set only counts within a namespace.
		s.oldest[a.Namespace].Compare(s.oldest[b.Namespace]),
		cmp.Compare(a.Namespace, b.Namespace),
		compareWaves(a.OwnWave, b.OwnWave),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Task, b.Task),
	)
}

// class returns the class of a task, raised by one if that class has waited for too long.
func (s *state) class(c *Candidate) Class {
	if s.aged[c.Class] {
		return c.Class - 1
	}
	return c.Class
}

// age determines which classes go up by one, and since when each namespace, and a task with each change, has waited.
func (s *state) age() {
	for i := range s.Waiting {
		c := &s.Waiting[i]
		if c.Class > Person && s.Now.Sub(c.Since) >= maxWait {
			s.aged[c.Class] = true
		}
		if oldest, known := s.oldest[c.Namespace]; !known || c.Since.Before(oldest) {
			s.oldest[c.Namespace] = c.Since
		}
		if first, known := s.asked[c.Change]; !known || c.ChangeSince.Before(first) {
			s.asked[c.Change] = c.ChangeSince
		}
	}
}

// preference is lowest for a cluster in which the last change failed, then for one that was chosen as a canary: a change begins with them.
func (s *state) preference(c *Candidate) int {
	if c.Change == "" {
		return 2
	}
	if _, failed := s.Failing[c.Etcd]; failed {
		return 0
	}
	for _, p := range s.Covering[c.Namespace] {
		if policy := s.Policies[p]; policy != nil && policy.Canary.Chosen[c.Etcd] {
			return 1
		}
	}
	return 2
}

// compareWaves orders the values of a label: numbers first, by their value, then names, and last those without one.
func compareWaves(a, b string) int {
	rank := func(s string) (int, int) {
		n, err := strconv.Atoi(s)
		switch {
		case s == "":
			return 2, 0
		case err != nil:
			return 1, 0
		}
		return 0, n
	}
	rankA, numberA := rank(a)
	rankB, numberB := rank(b)
	return cmp.Or(cmp.Compare(rankA, rankB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}
