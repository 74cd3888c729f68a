// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// results has all rollouts in the order of measurement, and what else was measured.
type results struct {
	rollouts []rollout
	// idleGaps are the longest gaps of minutes without a change.
	idleGaps []time.Duration
	// changes are nil, and so are the requests of an idle operator, if they were not measured.
	changes *series
	idle    requests
	// resizes of a cluster, in order.
	resizes []resize
}

// of returns the rollouts of one scenario in one way.
func (r results) of(s scenario, w way) []rollout {
	var some []rollout
	for _, one := range r.rollouts {
		if one.scenario.name == s.name && one.way.key == w.key {
			some = append(some, one)
		}
	}
	return some
}

// measured returns the scenarios with results.
func (r results) measured() []scenario {
	var some []scenario
	for _, s := range scenarios {
		if slices.ContainsFunc(r.rollouts, func(one rollout) bool { return one.scenario.name == s.name }) {
			some = append(some, s)
		}
	}
	return some
}

// medians are the printed figures of several rollouts.
type medians struct {
	WithoutWrites float64 `json:"secondsWithoutWrites"`
	LongestGap    float64 `json:"longestWriteGapSeconds"`
	LeaderChanges float64 `json:"leaderChanges"`
	Restarts      float64 `json:"restartsOfEtcd"`
	Took          float64 `json:"rolloutSeconds"`
	// Reaction is the time from the change of the template until the first pod was deleted.
	Reaction float64 `json:"firstDeletionSeconds"`
	// Overhead is the time from a pod being ready until the next was deleted, Handover the same if leadership was
	// moved first.
	Overhead float64 `json:"overheadPerPodSeconds"`
	Handover float64 `json:"overheadWithHandoverSeconds"`
}

func mediansOf(rollouts []rollout) medians {
	over := func(value func(rollout) float64) float64 {
		var all []float64
		for _, r := range rollouts {
			all = append(all, value(r))
		}
		return median(all)
	}
	var overheads, handovers []time.Duration
	for _, r := range rollouts {
		overheads, handovers = append(overheads, r.overheads...), append(handovers, r.handovers...)
	}
	return medians{
		WithoutWrites: over(func(r rollout) float64 { return r.figures.WithoutWrites.Seconds() }),
		LongestGap:    over(func(r rollout) float64 { return r.figures.LongestGap.Seconds() }),
		LeaderChanges: over(func(r rollout) float64 { return float64(r.figures.LeaderChanges) }),
		Restarts:      over(func(r rollout) float64 { return float64(r.restarts) }),
		Took:          over(func(r rollout) float64 { return r.took().Seconds() }),
		Reaction:      over(func(r rollout) float64 { return r.reaction.Seconds() }),
		Overhead:      median(overheads).Seconds(),
		Handover:      median(handovers).Seconds(),
	}
}

// median returns the median, the smaller of the two middle numbers, or 0 without numbers. It does not reorder them.
func median[N cmp.Ordered](numbers []N) N {
	var none N
	if len(numbers) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[(len(sorted)-1)/2]
}

// worst returns the highest figure of all rollouts of a scenario in its first way.
func (r results) worst(s scenario, figure func(rollout) int) float64 {
	worst := 0
	for _, one := range r.of(s, s.ways[0]) {
		worst = max(worst, figure(one))
	}
	return float64(worst)
}

// overheads returns those of all rollouts in one way, in order, whether or not leadership was moved.
func (r results) overheads(w way) []time.Duration {
	var all []time.Duration
	for _, one := range r.rollouts {
		if one.way.key == w.key {
			all = append(append(all, one.overheads...), one.handovers...)
		}
	}
	return all
}

// typicalRequests returns the median number of requests of each kind in the rollouts of a scenario in a way of ours.
func (r results) typicalRequests(s scenario, w way) requests {
	rollouts := r.of(s, w)
	kinds := requests{}
	for _, one := range rollouts {
		maps.Copy(kinds, one.requests)
	}
	for kind := range kinds {
		var counts []int
		for _, one := range rollouts {
			counts = append(counts, one.requests[kind])
		}
		kinds[kind] = median(counts)
	}
	return kinds
}
