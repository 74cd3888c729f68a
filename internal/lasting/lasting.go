// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package lasting answers one question: has this lasted without a gap? What permits a destructive step has to have been
// observed for its whole length by this process, so timers live in memory alone. A gap between two observations resets a
// timer, and so does a time that goes back: nothing is known of the time between. It imports the standard library only.
package lasting

import "time"

// Unbroken reports whether nothing can have happened unseen between two observations: the later one follows the earlier one
// within maxGap. It is false if there was no earlier one.
func Unbroken(earlier, later time.Time, maxGap time.Duration) bool {
	gap := later.Sub(earlier)
	return !earlier.IsZero() && gap >= 0 && gap <= maxGap
}

// Since reports whether what has been the case since a time has lasted for a while; a zero time says that it is not the case.
func Since(since, now time.Time, while time.Duration) bool {
	return !since.IsZero() && now.Sub(since) >= while
}

// Timer is how long one value has been observed. The zero V stands for "not the case", or "not known": it never lasts. The
// zero Timer has observed nothing. Timers are values: Next returns another one.
type Timer[V comparable] struct {
	value     V
	since, at time.Time
}

// Next returns the timer after an observation of value. Another value than before, and a gap of more than maxGap, start it
// again.
func (t Timer[V]) Next(value V, now time.Time, maxGap time.Duration) Timer[V] {
	if value != t.value || !Unbroken(t.at, now, maxGap) {
		t.value, t.since = value, now
	}
	t.at = now
	return t
}

// Since returns the first observation of what lasts now; zero if nothing does.
func (t Timer[V]) Since() time.Time {
	var none V
	if t.value == none {
		return time.Time{}
	}
	return t.since
}

// For returns how long the value had lasted when it was observed last; 0 if nothing lasts.
func (t Timer[V]) For() time.Duration {
	if since := t.Since(); !since.IsZero() {
		return t.at.Sub(since)
	}
	return 0
}

// Lasted reports whether something lasts, and has for at least d when it was observed last.
func (t Timer[V]) Lasted(d time.Duration) bool { return !t.Since().IsZero() && t.For() >= d }

// Timers are those of several things that are observed together, by their names. Values: Next returns others.
type Timers[K, V comparable] map[K]Timer[V]

// Next returns the timers after an observation of everything there is. What is not among it is forgotten.
func (t Timers[K, V]) Next(observed map[K]V, now time.Time, maxGap time.Duration) Timers[K, V] {
	next := make(Timers[K, V], len(observed))
	for name, value := range observed {
		next[name] = t[name].Next(value, now, maxGap)
	}
	return next
}
