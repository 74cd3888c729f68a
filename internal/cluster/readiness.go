// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"k8s.io/apimachinery/pkg/util/version"
)

// ByReadiness returns the Snapshot that DEP-07 assumes if members do not answer the operator although pods are ready: every replica is a
// voter, ready members serve, and roles come from the member leases. A member that may be a learner although its probe passes does not
// serve.
func (s *Snapshot) ByReadiness() *Snapshot {
	v := *s
	v.Ordinals = slices.Clone(s.Ordinals)
	v.Cluster.Voters = nil
	for i := range v.Ordinals {
		o := &v.Ordinals[i]
		ready := o.ReadyButNotServing()
		// The probe only passes if a linearizable read went through.
		v.Cluster.LeaderKnown = v.Cluster.LeaderKnown || ready
		votes := ready && o.Pod.probeProvesVote()
		if votes {
			o.Class = v1alpha1.ClassParticipating
		}
		o.Role, o.Serving, o.Unproven = o.LeaseRole, votes, ready && !votes
		v.Cluster.Voters = append(v.Cluster.Voters, Voter{Name: o.Name, Ordinal: i, Serving: votes})
	}
	return &v
}

// Vouch returns the Snapshot in which the given ordinals, whose voters do not answer but whose probes pass, serve. An ordinal whose probe
// proves nothing, or may be stale because of its node, stays unchanged.
func (s *Snapshot) Vouch(ordinals []int) *Snapshot {
	v := *s
	v.Cluster.Voters = slices.Clone(s.Cluster.Voters)
	for i, voter := range v.Cluster.Voters {
		if !slices.Contains(ordinals, voter.Ordinal) {
			continue
		}
		if pod := s.Ordinals[voter.Ordinal].Pod; pod != nil && pod.Ready && pod.Stale() == "" && !pod.Disrupted && pod.probeProvesVote() {
			v.Cluster.Voters[i].Serving = true
		}
	}
	return &v
}

// FirstNonLearnerProbe is the first release of etcd whose /readyz fails for a learner (its check non_learner).
const FirstNonLearnerProbe = "3.5.19"

// probeProvesVote reports whether the readiness probe of a pod only passes for voters.
func (p *Pod) probeProvesVote() bool {
	v, err := version.ParseGeneric(p.EtcdVersion)
	return p.Probed && err == nil && v.AtLeast(version.MustParseGeneric(FirstNonLearnerProbe))
}

// ReadyButNotServing reports whether the readiness probe of a member passes, and the member does not serve the operator.
func (o *Ordinal) ReadyButNotServing() bool {
	return o.Class == v1alpha1.ClassUnready && o.Pod.Ready
}

// ProvesQuorum reports whether a member does not serve the operator, and its probe passes: a linearizable read went through.
func (o *Ordinal) ProvesQuorum() bool {
	return o.ReadyButNotServing() && o.Pod.Probed && o.Pod.Stale() == ""
}

// Unreachable returns the names of the members that do not answer although their probes pass, and reports whether they may be part of a
// quorum (ADR 14). A passing probe is a linearizable read that went through, so there was a quorum; it may include foreign voters, and any
// member that may be running without answering. Reports from a lost node are stale.
func (s *Snapshot) Unreachable() (names []string, quorate bool) {
	unreachable, voters, proven := 0, len(s.Cluster.Voters), false
	for _, o := range s.Ordinals {
		if o.Answers || !o.MayRun() {
			continue
		}
		unreachable++
		proven = proven || o.ProvesQuorum()
		if o.ReadyButNotServing() || o.Pod.Stale() != "" {
			names = append(names, o.Name)
		}
	}
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 && !v.Serving {
			unreachable++
		}
	}
	if voters == 0 {
		// No voter has returned the member list: every replica may be one, as far as so many voted when a quorum was seen last.
		if proven {
			return names, true // however few they are: a recovered cluster has one voter at first
		}
		voters = s.Replicas()
		if s.LastVoters > 0 {
			voters = min(voters, s.LastVoters) // the others may have yet to join
		}
	}
	return names, len(names) > 0 && quorum.Exists(unreachable, voters)
}
