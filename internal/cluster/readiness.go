// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/version"
)

// ByReadiness is the Snapshot as DEP-07 sees a cluster whose members do not answer the operator, although
// pods are ready: every replica is a voter, what is ready serves, and roles come from the member leases. A member that may
// be a learner although its probe passes does not serve.
func (s *Snapshot) ByReadiness() *Snapshot {
	v := *s
	v.Ordinals = slices.Clone(s.Ordinals)
	v.Cluster.Voters = nil
	for i := range v.Ordinals {
		o := &v.Ordinals[i]
		ready := o.Class == v1alpha1.ClassUnready && o.Pod.Ready
		// A linearizable read went through, or the probe would not pass.
		v.Cluster.LeaderKnown = v.Cluster.LeaderKnown || ready
		votes := ready && probeProvesVote(o.Pod.EtcdVersion)
		if votes {
			o.Class = v1alpha1.ClassParticipating
		}
		o.Role, o.Serving, o.Unproven = o.LeaseRole, votes, ready && !votes
		v.Cluster.Voters = append(v.Cluster.Voters, Voter{Name: o.Name, Ordinal: i, Serving: votes})
	}
	return &v
}

// FirstNonLearnerProbe is the first release of etcd whose /readyz fails at a learner (its check non_learner).
const FirstNonLearnerProbe = "3.5.19"

// probeProvesVote reports whether the readiness probe of a version of etcd passes at voters alone.
func probeProvesVote(etcd string) bool {
	v, err := version.ParseGeneric(etcd)
	return err == nil && v.AtLeast(version.MustParseGeneric(FirstNonLearnerProbe))
}
