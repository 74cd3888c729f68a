// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
)

const (
	// maxOverhead is the time that the operator may take from a pod being ready until it deletes the next.
	maxOverhead = 200 * time.Millisecond
	// maxSlowdown is the maximum duration of a rollout relative to the faster peer.
	maxSlowdown = 1.2
	// maxFrozenSlowdown is the maximum duration of a rollout with a frozen member relative to a healthy one.
	maxFrozenSlowdown = 1.4
	// maxOfNewPods is the maximum duration of a rollout in place relative to one with new pods.
	maxOfNewPods = 0.7
)

// maxInPlace is how long a change in place may take that restarts no etcd.
var maxInPlace = map[string]time.Duration{resources: 5 * time.Second, agentImage: 15 * time.Second}

// maxRequests returns the maximum number of requests of a rollout. Three of these occur once for each template change: live
// reads confirm the ownership of what changes and of what new pods start with (ADR 117). One of each member is the live read
// of the StatefulSet right before its pod is removed: after the intent was written, so the read that the decision rests on does not do.
// A pod that takes ten seconds or more to be replaced costs a write of the task's status that says so, which these do not.
func maxRequests(members int) int { return 9*members + 16 }

// targets returns the targets that have results.
func (r results) targets() []target.Target {
	var all []target.Target
	for _, s := range r.measured() {
		if s.ways[0].key == inPlace.key {
			all = append(all, r.inPlaceTargets(s)...)
		} else {
			all = append(all, r.newPodTargets(s)...)
		}
	}
	if own := r.overheads(quorumAware); len(own) > 0 {
		// In the rollout by hand, the benchmark itself observes and acts: no measure for a controller.
		all = append(all, target.New("time from a pod being ready to the next deletion, with handovers", "s", median(own).Seconds(), maxOverhead.Seconds()).
			Against(median(r.overheads(rollingUpdate)).Seconds()))
	}
	if r.changes != nil {
		all = append(all, target.New(fmt.Sprintf("%s: restarts of etcd in %d changes of resources", changes, numberOfChanges), "", float64(r.changes.restarts), 0))
	}
	if r.idle != nil {
		all = append(all, target.New("writes in an idle minute, except leases", "", float64(r.idle.writes().total()), 0))
	}
	return all
}

func (r results) newPodTargets(s scenario) []target.Target {
	own := mediansOf(r.of(s, quorumAware))
	writes := r.betterPeer(s, func(m medians) float64 { return m.WithoutWrites })
	took := r.betterPeer(s, func(m medians) float64 { return m.Took })
	all := []target.Target{
		target.New(s.name+": time without writes, at most that of the better peer", "s", own.WithoutWrites, writes).Against(writes),
		target.New(s.name+": rollout time, at most 1.2 of the better peer", "s", own.Took, maxSlowdown*took).Against(took),
		target.New(s.name+": API requests of the worst rollout, at most 9n+16", "", r.worst(s, func(one rollout) int { return one.requests.total() }), float64(maxRequests(s.members))),
	}
	if healthy := r.of(scenario{name: healthy3}, quorumAware); s.name == frozen3 && len(healthy) > 0 {
		all = append(all,
			target.New(s.name+": time without writes", "s", own.WithoutWrites, 0),
			target.New(s.name+": rollout time, at most 1.4 of the healthy one", "s", own.Took, maxFrozenSlowdown*mediansOf(healthy).Took),
		)
	}
	return all
}

// inPlaceTargets are those of changes that need no new pod.
func (r results) inPlaceTargets(s scenario) []target.Target {
	own, recreated, rolling := mediansOf(r.of(s, inPlace)), mediansOf(r.of(s, quorumAware)), mediansOf(r.of(s, rollingUpdate))
	if s.name == etcdImage {
		return []target.Target{
			target.New(s.name+": rollout time, at most 0.7 of that with new pods", "s", own.Took, maxOfNewPods*recreated.Took).Against(rolling.Took),
			target.New(s.name+": longest gap, at most that of RollingUpdate", "s", own.LongestGap, rolling.LongestGap).Against(rolling.LongestGap),
		}
	}
	all := []target.Target{
		target.New(s.name+": restarts of etcd in the worst rollout", "", r.worst(s, func(one rollout) int { return one.restarts }), 0).Against(rolling.Restarts),
		target.New(s.name+": leader changes in the worst rollout", "", r.worst(s, func(one rollout) int { return one.figures.LeaderChanges }), 0).Against(rolling.LeaderChanges),
		target.New(s.name+": rollout time", "s", own.Took, maxInPlace[s.name].Seconds()).Against(rolling.Took),
	}
	if s.idleMinute {
		all = append(all, target.New(s.name+": longest gap, at most that of an idle minute", "s", own.LongestGap, median(r.idleGaps).Seconds()).Against(rolling.LongestGap))
	}
	return all
}

// betterPeer returns the smaller of the peers' figures.
func (r results) betterPeer(s scenario, figure func(medians) float64) float64 {
	return min(figure(mediansOf(r.of(s, rollingUpdate))), figure(mediansOf(r.of(s, onDelete))))
}
