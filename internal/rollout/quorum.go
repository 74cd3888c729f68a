// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
)

// The guards in this file keep the promise that no action of the operator costs the quorum. Only the last one can be overridden.

// quorumKept judges the cluster as it will be without the pod. Removing a member that is certainly not running costs no quorum; one on a
// lost node may be running, regardless of its last report (ADR 46). Only clusters of one or two cannot spare a member.
func quorumKept(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if !s.Snapshot.Cluster.LeaderKnown || s.cannotSpareOne() {
		return nil
	}
	if !s.ordinal(next).MayRun() {
		return s.leaderCanDoWithout(next)
	}
	name, voters, rest := s.ordinal(next).Name, len(s.Snapshot.Cluster.Voters), s.Snapshot.ServingVotersWithout(next)
	if quorum.Exists(rest, voters) {
		return nil
	}
	vouchAfter := vouchedAfter(s.Config.Grace())
	if s.byReadiness {
		vouchAfter = 0 // probes vouch for members already
	}
	message := fmt.Sprintf("%s %s would leave %d of %d voters; quorum is %d. %s", map[bool]string{true: "restarting", false: "removing"}[step.Write != nil], name, rest, voters, s.Snapshot.Quorum(), downVoters(s.Snapshot, vouchAfter))
	if lost := lostNode(*s.ordinal(next)); lost != "" {
		message += ". " + name + " " + lost
	}
	return &Hold{Pod: name, Message: message}
}

// leaderCanDoWithout: a leader steps down within an election timeout of losing its quorum. If it cannot have a quorum without a member that
// was reported as down, it is about to step down, or the report is stale: the node of that member may be lost and not marked yet.
func (s *state) leaderCanDoWithout(next int) *Hold {
	others := s.Snapshot.CountVoters(func(v cluster.Voter) bool {
		return v.Serving || v.Ordinal < 0 || v.Ordinal != next && s.ordinal(v.Ordinal).MayRun()
	})
	o, voters := s.ordinal(next), len(s.Snapshot.Cluster.Voters)
	if unproven := s.byReadiness && s.Snapshot.ServingVoters() == 0; unproven || quorum.Exists(others, voters) {
		return nil // that a pod is ready proves no leader if it has no probe
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s was reported as %s, but a leader is known, which without it could have at most %d of %d voters; quorum is %d. It steps down within seconds if the report is true; if this persists, check the node of %s", o.Name, o.Describe(), others, voters, s.Snapshot.Quorum(), o.Name)}
}

// quorumLossConfirmed: where no leader is known, a member that may be running goes only when the quorum is known to be lost, since it
// may be what the next leader needs; and one at a time (ADR 17).
func quorumLossConfirmed(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if s.Snapshot.Cluster.LeaderKnown || !s.ordinal(next).MayRun() {
		return nil
	}
	name, grace := s.ordinal(next).Name, s.Config.Grace()
	if names, quorate := s.Snapshot.Unreachable(); quorate {
		return &Hold{Pod: name, Message: s.mayHaveLeader(names)}
	}
	if since := s.Timers.LeaderlessSince; !lasting.Since(since, s.now, grace) {
		return &Hold{Pod: name, Message: fmt.Sprintf("no member has known a leader since %s; %s is replaced if that lasts for %s", clockTime(since), name, grace)}
	}
	for i, o := range s.Snapshot.Ordinals {
		switch {
		case s.Timers.hasRun(&o, s.now, grace) || o.Pod != nil && o.Pod.Refusal != nil:
		case i == next && o.Pod.Stale() != "":
			return &Hold{Pod: name, Message: fmt.Sprintf("no member knows a leader, and %s %s", name, lostNode(o))}
		case i == next:
			return &Hold{Pod: name, Message: fmt.Sprintf("no member knows a leader; %s is replaced if that lasts until it has been running for %s", name, grace)}
		default:
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("no member knows a leader, and %s is replaced only once %s has been running for %s: %s %s",
				name, o.Name, grace, o.Name, adviceFor(o, s.Snapshot.StatefulSet.Name))}
		}
	}
	return nil
}

// unreadyConfirmed: a member whose probe passes only counts as sick once it has not served the operator for the grace period, and one that
// answers only once it has had the time to hear of a new leader.
func unreadyConfirmed(s *state, step *Step) *Hold {
	o, grace, led := s.ordinal(step.Ordinals[0]), s.Config.Grace(), s.Timers.LedSince
	if !s.Snapshot.Cluster.LeaderKnown {
		return nil
	}
	if o.Answers && !o.Serving && !lasting.Since(led, s.now, electionWindow) {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s answers and does not serve, but there is a leader only since %s; it is replaced if it still does not serve %s after that", o.Name, clockTime(led), electionWindow)}
	}
	since := s.Timers.NotServingSince[o.Pod.UID]
	if !o.ReadyButNotServing() || lasting.Since(since, s.now, grace) {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s has not served the operator since %s although its readiness probe passes; it is replaced if that lasts for %s", o.Name, clockTime(since), grace)}
}
