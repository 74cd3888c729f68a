// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
)

// ReadyButNotServing reports whether the readiness probe of a member passes, and the member does not serve the operator.
func (o *Ordinal) ReadyButNotServing() bool {
	return o.Class == v1alpha1.ClassUnready && o.Pod.Ready
}

// ProvesQuorum reports whether a member does not serve the operator, and its probe passes: a linearizable read went through.
func (o *Ordinal) ProvesQuorum() bool {
	return o.ReadyButNotServing() && o.Pod.Probed && o.Pod.Stale() == ""
}

// Unreachable names the members that do not answer although their probes pass, as far as is known, and reports whether they
// may be part of a quorum (ADR 14). A probe that passes is a linearizable read that went through, so there was a quorum; it
// may include any member that may be running and does not answer, and foreign voters. On a lost node, any report is stale.
func (s *Snapshot) Unreachable() (names []string, quorate bool) {
	unreachable, voters, proven := 0, len(s.Cluster.Voters), false
	for _, o := range s.Ordinals {
		if o.Answers || !o.MayRun() {
			continue
		}
		unreachable++
		proven = proven || o.ProvesQuorum()
		if o.Class == v1alpha1.ClassUnready && o.Pod.Ready || o.Pod.Stale() != "" {
			names = append(names, o.Name)
		}
	}
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 && !v.Serving {
			unreachable++
		}
	}
	if voters == 0 {
		// No voter has returned the member list: every replica may be one.
		if proven {
			return names, true // however few they are: a recovered cluster has one voter at first
		}
		voters = s.Replicas()
	}
	return names, len(names) > 0 && quorum.Exists(unreachable, voters)
}
