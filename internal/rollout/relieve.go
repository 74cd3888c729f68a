// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// Surges reports whether a second member takes over from the only one before its pod is replaced. The agent of the second one looks for the
// first at the address in the newest template, from which etcd copies the database. If the address changes, it would never find the first. While
// the cluster is to hibernate, none is added, but the second one may vote by now, and to replace the first would cost the quorum.
func Surges(etcd *v1alpha1.Etcd, s *cluster.Snapshot) bool {
	surges := etcd.MaySurge() && etcd.Spec.Replicas <= 1
	if !surges || len(s.Ordinals) == 0 || s.Ordinals[0].Pod == nil || s.Ordinals[0].Pod.Endpoint == "" {
		return surges
	}
	return s.Ordinals[0].Pod.ReachedAs(etcd)
}

// memberRelieved: a serving voter waits for the change of members that first adds another one (ADR 67). A voter that does not serve need
// not be relieved, and members cannot change without it.
func memberRelieved(s *state, step *Step) *Hold {
	i := step.Ordinals[0]
	votes := slices.ContainsFunc(s.Snapshot.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == i })
	if !s.surges() || !needsRelief(step) || !votes || !s.ordinal(i).Serves() || s.bringsAgent(i) {
		return nil
	}
	name := s.ordinal(i).Name
	first := fmt.Sprintf("%s is the only member, and with surgePolicy %s a second one takes over first", name, v1alpha1.SurgeSingleMember)
	if s.byReadiness {
		// The member serves its clients, and what is between it and the operator may be no matter of the template.
		return &Hold{Pod: name, Message: fmt.Sprintf("%s; the operator reaches no member, and until it does none can join: check NetworkPolicies and TLS. To replace the pod at once, while writes stop, if only this rollout can fix that, add %s to spec.overrideGuards of the rollout",
			first, v1alpha1.GuardMemberRelieved)}
	}
	return &Hold{Pod: name, Message: fmt.Sprintf("%s: see the task of type %s, which waits while the spec is suspended. To replace it at once, while writes stop, add %s to spec.overrideGuards of the rollout",
		first, v1alpha1.MembershipChange, v1alpha1.GuardMemberRelieved)}
}

// agentPatience is how long an agent has to report what it has read about members, which it does with each heartbeat.
const agentPatience = 2 * time.Minute

// bringsAgent reports whether the rollout gives the only member another agent, and the present one is too old to report what it has read.
// No member joins beside such an agent, so the rollout would wait for something that only the new agent can do.
func (s *state) bringsAgent(i int) bool {
	o := s.ordinal(i)
	return len(s.Snapshot.Cluster.Voters) == 1 && o.Pod.AgentOutdated && o.Read == (cluster.Read{}) && lasting.Since(s.Timers.Running[o.Pod.UID].Since, s.now, agentPatience)
}

// surges reports whether a second member is to stand in. While several vote that are to become one, each of them can be spared, and members do
// not change before the rollout has ended.
func (s *state) surges() bool { return s.Surges && len(s.Snapshot.Cluster.Voters) <= 2 }

// needsRelief reports whether another member has to take over before a step.
func needsRelief(step *Step) bool { return step.disturbs() || step.Action == MoveLeader }

// relief returns the UID of the pod whose member is to be replaced by way of a second one; empty if there is none. A snapshot that comes
// before the rollout comes before the second member, too, and a version of etcd that is refused is refused for both. A canary is not
// waited for: the second member is it.
func (s *state) relief() types.UID {
	if !s.surges() || len(s.Snapshot.Ordinals) == 0 || !s.outdated(0) || s.overrides(v1alpha1.GuardMemberRelieved) || s.bringsAgent(0) {
		return ""
	}
	target, _ := targetVersion(s.Snapshot, s.outdated)
	_, refused := RefusedVersion(VersionsOf(s.Snapshot), target)
	if !needsRelief(s.candidate(0)) || refused != "" && !s.overrides(v1alpha1.GuardVersionsCompatible) {
		return ""
	}
	return s.ordinal(0).Pod.UID
}
