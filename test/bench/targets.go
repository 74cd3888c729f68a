// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
)

const (
	// maxOverhead is the time that the operator may take from a pod being ready until it deletes the next.
	maxOverhead = 200 * time.Millisecond
	// maxSlowdown is the maximum duration of a rollout relative to the faster peer.
	maxSlowdown = 1.2
)

// maxRequests returns the maximum number of requests of a rollout. Ten of these occur once for each template change: live
// reads confirm the ownership of the Etcd's objects before the first of them is written (ADR 15). One of each member is the live read
// of the StatefulSet right before its pod is removed: after the intent was written, so the read that the decision rests on does not do.
func maxRequests(members int) int { return 9*members + 16 }

// targets returns the targets that have results.
func (r results) targets() []target.Target {
	var all []target.Target
	for _, s := range r.measured() {
		own := mediansOf(r.of(s, ways[0]))
		writes := r.betterPeer(s, func(m medians) float64 { return m.WithoutWrites })
		took := r.betterPeer(s, func(m medians) float64 { return m.Took })
		worst := 0
		for _, one := range r.of(s, ways[0]) {
			worst = max(worst, one.requests.total())
		}
		all = append(all,
			target.New(s.name+": time without writes, at most that of the better peer", "s", own.WithoutWrites, writes).Against(writes),
			target.New(s.name+": rollout time, at most 1.2 of the better peer", "s", own.Took, maxSlowdown*took).Against(took),
			target.New(s.name+": API requests of the worst rollout, at most 9n+16", "", float64(worst), float64(maxRequests(s.members))),
		)
	}
	if own := r.overheads(ways[0]); len(own) > 0 {
		// In the rollout by hand, the benchmark itself observes and acts: no measure for a controller.
		all = append(all, target.New("time from a pod being ready to the next deletion, with handovers", "s", median(own).Seconds(), maxOverhead.Seconds()).
			Against(median(r.overheads(ways[1])).Seconds()))
	}
	if r.idle != nil {
		all = append(all, target.New("writes in an idle minute, except leases", "", float64(r.idle.writes().total()), 0))
	}
	return all
}

// betterPeer returns the smaller of the peers' figures.
func (r results) betterPeer(s scenario, figure func(medians) float64) float64 {
	return min(figure(mediansOf(r.of(s, ways[1]))), figure(mediansOf(r.of(s, ways[2]))))
}
