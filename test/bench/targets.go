// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

const (
	// maxOverhead is what the operator may take from a pod being back until it deletes the next.
	maxOverhead = 200 * time.Millisecond
	// maxSlowdown is by how much longer than RollingUpdate a rollout may take.
	maxSlowdown = 1.2
)

// maxRequests is how many requests a rollout may take.
func maxRequests(members int) int { return 8*members + 12 }

// target is something to reach.
type target struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Limit    float64 `json:"limit"`
	Unit     string  `json:"unit"`
	// Peer is the same of RollingUpdate, Ratio our part of it; absent where there is none, or it is 0.
	Peer  *float64 `json:"peer,omitempty"`
	Ratio *float64 `json:"ratio,omitempty"`
	Met   bool     `json:"met"`
}

func newTarget(name, unit string, measured, limit float64) target {
	return target{Name: name, Unit: unit, Measured: measured, Limit: limit, Met: measured <= limit}
}

// against adds the peer.
func (t target) against(peer float64) target {
	t.Peer = &peer
	if peer > 0 {
		ratio := t.Measured / peer
		t.Ratio = &ratio
	}
	return t
}

func met(targets []target) bool {
	for _, t := range targets {
		if !t.Met {
			return false
		}
	}
	return true
}

// targets are those that can be judged by the results.
func (r results) targets() []target {
	var all []target
	for _, s := range r.measured() {
		own, theirs := mediansOf(r.of(s, ways[0])), mediansOf(r.of(s, ways[1]))
		worst := 0
		for _, one := range r.of(s, ways[0]) {
			worst = max(worst, one.requests.total())
		}
		all = append(all,
			newTarget(s.name+": time without writes, no more than RollingUpdate", "s", own.WithoutWrites, theirs.WithoutWrites).against(theirs.WithoutWrites),
			newTarget(s.name+": rollout time, at most 1.2 of RollingUpdate", "s", own.Took, maxSlowdown*theirs.Took).against(theirs.Took),
			newTarget(fmt.Sprintf("%s: API requests of the worst rollout, at most 8n+12", s.name), "", float64(worst), float64(maxRequests(s.members))),
		)
	}
	if overheads := r.overheads(); len(overheads) > 0 {
		var theirs []time.Duration
		for _, one := range r.rollouts {
			if one.way.key == ways[1].key {
				theirs = append(theirs, one.overheads...)
			}
		}
		all = append(all, newTarget("time from a pod being back to the next deletion", "s", median(overheads).Seconds(), maxOverhead.Seconds()).
			against(median(theirs).Seconds()))
	}
	if r.idle != nil {
		all = append(all, newTarget("writes in a minute with nothing to do, but leases", "", float64(r.idle.writes().total()), 0))
	}
	return all
}
