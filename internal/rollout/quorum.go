// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/advice"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/timers"
)

// The guards of this file are the promise: no act of ours takes the quorum. None but the last can be overridden.

// isRunning reports whether the etcd of an ordinal is running. Removing one that is not costs no quorum.
func (s *state) isRunning(ordinal int) bool {
	class := s.ordinal(ordinal).Class
	return class == v1alpha1.ClassUnready || class == v1alpha1.ClassParticipating
}

// quorumKept judges the cluster as it will be without the pod. Only clusters of one or two cannot spare a member.
func quorumKept(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if !s.Snapshot.Cluster.LeaderKnown || !s.isRunning(next) || s.cannotSpareOne() {
		return nil
	}
	name, voters, rest := s.ordinal(next).Name, len(s.Snapshot.Cluster.Voters), s.Snapshot.ServingVotersWithout(next)
	if quorum.Exists(rest, voters) {
		return nil
	}
	return &Hold{Pod: name, Message: fmt.Sprintf("removing %s would leave %d of %d voters; quorum is %d. %s", name, rest, voters, s.Snapshot.Quorum(), advice.DownVoters(s.Snapshot, s.vouchedAfter()))}
}

// quorumLossConfirmed: where no leader is known, a running member goes only when the quorum is known to be lost, since it
// may be what the next leader needs; and one at a time (ADR 17).
func quorumLossConfirmed(s *state, step *Step) *Hold {
	next := step.Ordinals[0]
	if s.Snapshot.Cluster.LeaderKnown || !s.isRunning(next) {
		return nil
	}
	name, grace := s.ordinal(next).Name, s.Config.Grace()
	if names, quorate := s.Snapshot.Unreachable(); quorate {
		return &Hold{Pod: name, Message: s.mayBeCutOff(names)}
	}
	if since := s.Timers.LeaderlessSince; !timers.Lasted(since, s.now, grace) {
		return &Hold{Pod: name, Message: fmt.Sprintf("no member has known a leader since %s; %s is replaced if that lasts for %s", clockTime(since), name, grace)}
	}
	for i, o := range s.Snapshot.Ordinals {
		switch {
		case s.hasRun(i) || o.Pod != nil && o.Pod.Refusal != nil:
		case i == next:
			return &Hold{Pod: name, Message: fmt.Sprintf("no member knows a leader; %s is replaced if that lasts until it has been running for %s", name, grace)}
		default:
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("no member knows a leader, and %s is replaced only once %s has been running for %s: %s %s",
				name, o.Name, grace, o.Name, advice.For(o, s.Snapshot.StatefulSet.Name))}
		}
	}
	return nil
}

// mayBeCutOff says that members that do not answer may have a leader (ADR 14). The timer of a lost quorum does not run then.
func (s *state) mayBeCutOff(names []string) string {
	seen, then := "no member that answers the operator knows a leader", ""
	if !s.Snapshot.Cluster.Reachable {
		seen, then = "no member answers the operator", fmt.Sprintf(". If this persists for %s, the rollout goes by readiness probes", s.Config.Grace())
	}
	return fmt.Sprintf("%s, but %s may still have a leader that the operator cannot reach: their readiness probes pass, or their nodes are lost. Check NetworkPolicies and the network between the operator and them; if a node is gone for good, power off its machine, and only then taint it with node.kubernetes.io/out-of-service%s", seen, strings.Join(names, ", "), then)
}

// hasRun reports whether the etcd container of an ordinal has been running for the grace period, without a restart. The
// member need not answer: etcd opens its client port only once it has published itself through raft, and with a bad
// configuration on all members none does.
func (s *state) hasRun(ordinal int) bool {
	o := s.ordinal(ordinal)
	return o.Pod != nil && o.Class != v1alpha1.ClassTerminating && timers.Lasted(s.Timers.Running[o.Pod.UID].Since, s.now, s.Config.Grace())
}

// unreadyConfirmed: a member whose probe passes counts as sick only when it has not served the operator for a while.
func unreadyConfirmed(s *state, step *Step) *Hold {
	o, grace := s.ordinal(step.Ordinals[0]), s.Config.Grace()
	if !s.Snapshot.Cluster.LeaderKnown || !o.ReadyButNotServing() {
		return nil
	}
	since := s.Timers.NotServingSince[o.Pod.UID]
	if timers.Lasted(since, s.now, grace) {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s has not served the operator since %s although its readiness probe passes; it is replaced if that lasts for %s", o.Name, clockTime(since), grace)}
}
