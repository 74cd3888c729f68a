// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
)

// keptWithoutLeader is QuorumKept where no member that answers knows a leader. A running member may be what the next
// leader needs, so it goes only when the quorum is known to be lost, and one at a time.
func (s *situation) keptWithoutLeader() *Hold {
	if hold := s.leaderOutOfReach(); hold != nil {
		return hold
	}
	o, grace := s.subject(), s.Config.grace()
	if since := s.Spells.LeaderlessSince; !lasted(since, s.now, grace) {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("no member has known a leader since %s; %s is replaced if that lasts for %s", clockTime(since), o.Name, grace)}
	}
	for i, other := range s.Snapshot.Ordinals {
		switch {
		case s.hasRun(i) || other.Pod != nil && other.Pod.Refusal != nil:
		case i == s.next:
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("no member knows a leader; %s is replaced if that lasts until it has been running for %s", o.Name, grace)}
		default:
			return &Hold{Pod: other.Name, Message: fmt.Sprintf("no member knows a leader, and %s is replaced only once %s has been running for %s: %s %s",
				o.Name, other.Name, grace, other.Name, advice(other, s.Snapshot.StatefulSet.Name))}
		}
	}
	return nil
}

// hasRun reports whether the etcd container of an ordinal has been running for the grace period, without a restart. The
// member need not answer: etcd opens its client port only once it has published itself through raft, and with a bad
// configuration on all members none does.
func (s *situation) hasRun(ordinal int) bool {
	o := s.Snapshot.Ordinals[ordinal]
	return o.Pod != nil && o.Class != v1alpha1.ClassTerminating && lasted(s.Spells.Running[o.Pod.UID].Since, s.now, s.Config.grace())
}

// leaderOutOfReach holds while members may have a leader that do not answer the operator (ADR 14).
func (s *situation) leaderOutOfReach() *Hold {
	unreached, quorate := outOfReach(s.Snapshot)
	if !quorate {
		return nil
	}
	seen, then := "no member that answers the operator knows a leader", ""
	if !s.Snapshot.Cluster.Reachable {
		seen, then = "no member answers the operator", fmt.Sprintf(". If this persists, and probes pass, the rollout goes by these after %s", s.Config.grace())
	}
	return &Hold{Pod: s.subject().Name, Message: fmt.Sprintf("%s, but %s may still have a leader that the operator cannot reach: their readiness probes pass, or their nodes are lost. Check NetworkPolicies and the network between the operator and them; taint a node that is gone for good with node.kubernetes.io/out-of-service%s", seen, strings.Join(unreached, ", "), then)}
}

// notServingThoughReady reports whether the probe of a member passes that does not serve the operator.
func notServingThoughReady(o *observe.Ordinal) bool {
	return o.Class == v1alpha1.ClassUnready && o.Pod.Ready
}
