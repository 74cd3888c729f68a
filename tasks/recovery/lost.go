// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
)

// quorate tells whether there is a quorum: enough voters serve, or one that answers knows a leader.
func quorate(s *cluster.Snapshot) bool {
	return s.Cluster.LeaderKnown || len(s.Cluster.Voters) > 0 && s.HasQuorum()
}

// quorumLost tells whether it is certain that there is no quorum, and why, or why not. No member that answers knows a
// leader; and those that may run and do not answer are too few to be a quorum by themselves. Otherwise a cluster that
// the operator cannot reach would be taken for one that is lost.
func quorumLost(s *cluster.Snapshot) (lost bool, why string) {
	voters := max(len(s.Cluster.Voters), s.Replicas())
	if quorate(s) {
		return false, fmt.Sprintf("%d of %d voters serve", s.ServingVoters(), voters)
	}
	var silent, answering []string
	for _, o := range s.Ordinals {
		switch {
		case o.Answers:
			answering = append(answering, o.Name)
		case o.Pod != nil && !o.Pod.EtcdStarted.IsZero():
			silent = append(silent, o.Name)
		}
	}
	silent = append(silent, s.Surplus...)
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 {
			silent = append(silent, v.Name)
		}
	}
	if quorum.Exists(len(silent), voters) {
		return false, fmt.Sprintf("it cannot be said whether the quorum is lost: %s run, or may run, and do not answer, and would be a quorum: "+
			"bring them back, or make sure that they are stopped; a node that is gone is to be tainted with node.kubernetes.io/out-of-service", strings.Join(silent, ", "))
	}
	if len(answering) == 0 {
		return true, "no member serves"
	}
	return true, fmt.Sprintf("%s answer, and know no leader; of the others there is no quorum", strings.Join(answering, ", "))
}
