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

// Unreachable names the members that do not answer although their probes pass, as far as is known, and reports whether they
// may be part of a quorum (ADR 14). A probe that passes is a linearizable read that went through, so there was a quorum; it
// may include any member that may be running and does not answer, and foreign voters. On a lost node, any report is stale.
func (s *Snapshot) Unreachable() (names []string, quorate bool) {
	unreachable, voters := 0, len(s.Cluster.Voters)
	for _, o := range s.Ordinals {
		if o.Answers || !o.MayRun() {
			continue
		}
		unreachable++
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
		voters = s.Replicas()
	}
	return names, len(names) > 0 && quorum.Exists(unreachable, voters)
}
