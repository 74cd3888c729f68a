// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import "time"

// Report is everything that a Writer saw. What follows from it is computed by pure functions.
type Report struct {
	// Started is when the Writer was started. Stopped is when it was stopped, or came to its bounds.
	Started, Stopped time.Time
	// Writes that were acknowledged, in the order of their acknowledgement, of Attempted ones.
	Writes    []Write
	Attempted int
	// Sightings of leaders, in order.
	Sightings []Sighting
	// Pods and what became of them.
	Pods Life
}

// Figures sum up some part of a Report.
type Figures struct {
	// From and Until bound the part.
	From, Until time.Time
	// Acknowledged is the number of writes that were acknowledged.
	Acknowledged int
	// LongestGap is the longest time without an acknowledgement.
	LongestGap time.Duration
	// WithoutWrites is the sum of Gaps.
	WithoutWrites time.Duration
	// Gaps of more than 0.3 s, in order.
	Gaps []Gap
	// LeaderChanges is the number of elections that were won.
	LeaderChanges int
}

// Between sums up what happened between two moments, such as the change of the template and the end of the
// rollout. A gap that began earlier or ends later counts with the part in between. A Writer that was stopped
// before cannot know, so the part ends there.
func (r Report) Between(from, until time.Time) Figures {
	if until.After(r.Stopped) {
		until = r.Stopped
	}
	acknowledged := r.acknowledgedBetween(from, until)
	f := Figures{
		From: from, Until: until,
		Acknowledged:  len(acknowledged),
		LongestGap:    longestGap(acknowledged, from, until),
		Gaps:          gaps(acknowledged, from, until),
		LeaderChanges: leaderChanges(Reigns(r.Sightings, r.Stopped), from, until),
	}
	for _, g := range f.Gaps {
		f.WithoutWrites += g.Duration()
	}
	return f
}

// acknowledged are the times of acknowledgement after from and not after until.
func (r Report) acknowledgedBetween(from, until time.Time) []time.Time {
	var times []time.Time
	for _, w := range r.Writes {
		if w.Acknowledged.After(from) && !w.Acknowledged.After(until) {
			times = append(times, w.Acknowledged)
		}
	}
	return times
}
