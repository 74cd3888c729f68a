// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
)

func network(s *state) result {
	var r result
	alone := 0.0
	cutOff := slices.ContainsFunc(s.members, s.isCutOff)
	leaderWaits := slices.ContainsFunc(s.members, func(m reading) bool { return m.Leader && m.waits() })
	for _, m := range s.members {
		var found []Evidence
		d := m.distribution("etcd_network_peer_round_trip_time_seconds")
		// Of fewer, one that was late as the member started would be the median. Those to a member that is cut off are the last before that.
		if above, ok := d.above(0.5); ok && above >= roundTripThreshold && d.count >= enoughRoundTrips && !cutOff {
			found = append(found, Evidence{Member: m.Name, Signal: "median of round trips to peers", Value: above * 1000, Unit: "ms", AtLeast: true, Threshold: roundTripThreshold * 1000, Source: roundTripSource})
		}
		// A network that is slow makes every read late; a machine that is busy, some.
		gap := m.linearizable(0.25) - m.serializable(0.5)
		if len(s.members) > 1 && gap >= readThreshold && !leaderWaits && !m.waits() {
			found = append(found, Evidence{Member: m.Name, Signal: "linearizable reads are slower than serializable ones by", Value: milliseconds(gap), Unit: "ms", Threshold: milliseconds(readThreshold), Source: "the difference is the way to the leader and its peers"})
			alone = max(alone, milliseconds(m.serializable(0.5)))
		}
		if !cutOff {
			found = append(found, m.logged("messages dropped because the sending buffer is full, in the log", func(l *Logs) int { return l.Dropped }, 1)...)
		}
		if len(found) > 1 || len(m.starvedNode()) == 0 {
			// On a node that is busy, one figure says nothing about the network.
			r.evidence = append(r.evidence, found...)
		}
	}
	if alone > 0 {
		r.rulesOut = []string{fmt.Sprintf("the disks and the CPU: members answer what they know by themselves (serializable reads) in %s.", figure(alone, "ms"))}
	}
	return r.advise(Advice{"Look at zones, NetworkPolicies, MTU and the load of the network between the nodes of members. For members that are far apart, raise the heartbeat interval to 0.5 to 1.5 round trips, and the election timeout to ten (etcd's tuning guide). status names the nodes.", s.verb("status")})
}

// waits reports whether a member waits for its disk or its CPU, or has more to do than it can: then linearizable reads wait, too.
func (r reading) waits() bool {
	syncs := r.distribution("etcd_disk_wal_fsync_duration_seconds")
	above, _, ok := syncs.high()
	pending, _ := r.now("etcd_server_proposals_pending")
	return ok && above >= fsyncThreshold || r.serializable(0.5) >= readThreshold || len(r.starved())+len(r.starvedNode()) > 0 || pending >= pendingThreshold
}

func peerConnections(s *state) result {
	var r result
	cutOff := slices.ContainsFunc(s.members, s.isCutOff)
	for _, m := range s.members {
		r.evidence = append(r.evidence, m.logged("rejected connections in the log", func(l *Logs) int { return l.Rejected }, 3)...)
		if s.isCutOff(m) {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "linearizable reads without an answer in time, while it answers serializable ones", Value: float64(m.FailedReads), Source: "the other members have a leader", proves: true})
		}
		if len(m.starvedNode()) > 0 && !cutOff {
			// On a node that is busy, connections time out.
			continue
		}
		known, has := m.knownPeers()
		known -= s.joining()
		active, counted := m.now("etcd_network_active_peers")
		if everyone := s.Quorum != nil && s.Quorum.Serving == s.Quorum.Voters; has && counted && everyone && active < known {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "connected peers", Value: active, Threshold: known, Source: "peers that it knows"})
		}
		if n := m.rate("etcd_network_peer_sent_failures_total"); n >= 1 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "messages to peers that failed", Value: n, Unit: "/s", Threshold: 1, Source: ours})
		}
		r.evidence = append(r.evidence, m.logged("peers that could not be probed, in the log", func(l *Logs) int { return l.Unhealthy }, 3)...)
	}
	if len(r.evidence) > 0 {
		r.advice = []Advice{{"Check the names and CAs in the peer certificates, DNS of the headless Service, and NetworkPolicies.", s.verb("status")}}
	}
	return r
}

// isCutOff reports whether a voter does not serve although it runs, and answers what takes no peers: the others have a quorum, and do
// not reach it.
func (s *state) isCutOff(r reading) bool {
	return s.Quorum != nil && s.Quorum.Serving >= s.Quorum.Size && !r.Serving && r.votes() && r.FailedReads > 0 && len(r.Linearizable) == 0 && len(r.Serializable) >= enoughForMedian
}

// joining returns how many members do not vote yet and do not answer: they may be listed before they run.
func (s *state) joining() (n float64) {
	for _, m := range s.members {
		if m.NoVoter && m.Second.Status == nil {
			n++
		}
	}
	return n
}

// knownPeers returns how many peers a member has in its list. The metric counts the member itself, too.
func (r reading) knownPeers() (float64, bool) {
	n := 0.0
	for _, s := range r.Second.Metrics["etcd_network_known_peers"] {
		if s.Labels["Local"] != s.Labels["Remote"] {
			n += s.Value
		}
	}
	return n, len(r.Second.Metrics["etcd_network_known_peers"]) > 0
}
