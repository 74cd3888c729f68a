// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import "time"

// Report is everything that a Writer observed. Pure functions derive figures from it.
type Report struct {
	// Started is when the Writer was started. Stopped is when it was stopped or reached its limits.
	Started, Stopped time.Time
	// Writes are the acknowledged of the Attempted writes, in the order of their acknowledgement.
	Writes    []Write
	Attempted int
	// Sightings of leaders, in order.
	Sightings []Sighting
	// Pods and their states.
	Pods Life
}

// Figures summarize a part of a Report.
type Figures struct {
	// From and Until bound the part.
	From, Until time.Time
	// Acknowledged is the number of acknowledged writes.
	Acknowledged int
	// LongestGap is the longest time without an acknowledgement.
	LongestGap time.Duration
	// WithoutWrites is the sum of Gaps.
	WithoutWrites time.Duration
	// Gaps of more than 0.3 s, in order.
	Gaps []Gap
	// LeaderChanges is the number of won elections.
	LeaderChanges int
}

// Between summarizes the time between two moments, such as the template change and the end of the rollout. A gap that
// began earlier or ends later counts with the part in between. If the Writer was stopped before the end, the part ends
// there.
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

// acknowledgedBetween returns the times of acknowledgement after from and not after until.
func (r Report) acknowledgedBetween(from, until time.Time) []time.Time {
	var times []time.Time
	for _, w := range r.Writes {
		if w.Acknowledged.After(from) && !w.Acknowledged.After(until) {
			times = append(times, w.Acknowledged)
		}
	}
	return times
}
