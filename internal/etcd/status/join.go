// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joined returns the record of a source cluster: its members once the Etcd's have joined, and its newest spec, until its members have left. The record
// ends if the Etcd's members leave instead.
// The Snapshot is nil if there are no members.
func joined(etcd *v1alpha1.Etcd, recorded *v1alpha1.BootstrapWithExistingClusterStatus, s *cluster.Snapshot, now metav1.Time) *v1alpha1.BootstrapWithExistingClusterStatus {
	switch {
	case etcd.LeavesSource() && s != nil && s.Quorate() && len(s.Cluster.Voters) > 0 && len(ownVoters(s)) == 0:
		return nil // it was given up, and may be joined once more
	case recorded == nil && (!etcd.SourceStays() || s == nil || !haveJoined(s)):
		return nil
	case recorded == nil:
		recorded = &v1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: now}
		for _, m := range etcd.Source().Members {
			recorded.Members = append(recorded.Members, v1alpha1.BootstrapJoinedMember(m))
		}
	}
	if etcd.SourceStays() {
		recorded.Source = etcd.Source().DeepCopy()
	} else if s != nil && s.Quorate() && len(ownVoters(s)) == len(s.Cluster.Voters) {
		recorded.Source = nil
	}
	return recorded
}

// haveJoined reports whether the members have joined a source cluster as far as they do before the cut-over: all vote, or as many vote as
// leave the source a quorum, and one more has caught up.
func haveJoined(s *cluster.Snapshot) bool {
	own, all := ownVoters(s), len(s.Cluster.Voters)
	if !s.Quorate() || s.Replicas() == 0 || slices.ContainsFunc(own, func(v cluster.Voter) bool { return !v.Serving }) {
		return false
	}
	return len(own) == s.Replicas() || all-len(own) < quorum.Size(all+1) && slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool {
		return o.Role == v1alpha1.RoleLearner && o.Serving && o.Lag <= membership.MaxLag
	})
}

func ownVoters(s *cluster.Snapshot) []cluster.Voter {
	return slices.DeleteFunc(slices.Clone(s.Cluster.Voters), func(v cluster.Voter) bool { return v.Ordinal < 0 })
}

// bootstrapped returns the condition BootstrappedWithExistingCluster; nil if the Etcd has no source cluster.
func bootstrapped(etcd *v1alpha1.Etcd, recorded *v1alpha1.BootstrapWithExistingClusterStatus, s *cluster.Snapshot) *metav1.Condition {
	const is = v1alpha1.ConditionBootstrappedWithExistingCluster
	var c metav1.Condition
	switch own := 0; {
	case recorded == nil && !etcd.SourceStays():
		return nil
	case recorded == nil && etcd.LeavesSource():
		c = conditions.False(is, v1alpha1.ReasonBootstrapInProgress, "spec.replicas is 0: the members leave the source cluster, or have left it. To join it once more, set spec.replicas; otherwise delete the Etcd.")
	case recorded == nil:
		if s != nil {
			own = len(ownVoters(s))
		}
		c = conditions.False(is, v1alpha1.ReasonBootstrapInProgress, "%d of %d members have joined the source cluster.", own, etcd.Spec.Replicas)
	case etcd.LeavesSource():
		c = conditions.True(is, v1alpha1.ReasonBootstrapSucceeded, "spec.replicas is 0: the members leave the source cluster. To join it once more, set spec.replicas; otherwise delete the Etcd.")
	case etcd.SourceStays():
		c = conditions.True(is, v1alpha1.ReasonBootstrapSucceeded, "The members have joined the source cluster, which keeps the quorum. To cut over, remove spec.etcd.bootstrapWithExistingCluster; to give up, set spec.replicas to 0.")
	case recorded.Source != nil:
		c = conditions.True(is, v1alpha1.ReasonBootstrapSucceeded, "The members of the source cluster leave, one at a time.")
	default:
		c = conditions.True(is, v1alpha1.ReasonBootstrapSucceeded, "The members of the source cluster have left.")
	}
	return &c
}
