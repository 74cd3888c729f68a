// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package clustertest builds Snapshots for tests.
package clustertest

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// Healthy returns a cluster that is healthy: every pod at revision "new", member 0 leads.
func Healthy(replicas int) *cluster.Snapshot {
	s := &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Observed: true, UpdateRevision: "new", OnDelete: true}}
	if replicas == 0 {
		return s
	}
	s.Cluster = cluster.Cluster{Reachable: true, ID: 0xcafe, Term: 2, Leader: 1, LeaderKnown: true}
	for i := range replicas {
		o := cluster.Ordinal{
			Name: fmt.Sprintf("etcd-main-%d", i), Member: fmt.Sprintf("etcd-main-%d", i), Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower,
			MemberID: uint64(i + 1), Answers: true, Serving: true,
			Pod: &cluster.Pod{Revision: "new", Ready: true, AllContainersReady: true},
		}
		if i == 0 {
			o.Role = v1alpha1.RoleLeader
		}
		s.Ordinals = append(s.Ordinals, o)
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i, Serving: true})
	}
	return s
}

// Away makes a member stop serving, its pod in a class.
func Away(s *cluster.Snapshot, ordinal int, class v1alpha1.PodClass, trouble string) {
	o := &s.Ordinals[ordinal]
	o.Class, o.Role, o.Answers, o.Serving = class, v1alpha1.RoleUnknown, false, false
	s.Cluster.Voters[ordinal].Serving = false
	if class == v1alpha1.ClassMissing {
		o.Pod, o.MemberID = nil, 0
		return
	}
	o.Pod.Ready, o.Pod.AllContainersReady, o.Pod.Trouble = false, false, trouble
}

// Unreachable makes no member answer, whatever the pods are like.
func Unreachable(s *cluster.Snapshot) {
	s.Cluster = cluster.Cluster{}
	for i := range s.Ordinals {
		o := &s.Ordinals[i]
		o.Role, o.MemberID, o.Answers, o.Serving = v1alpha1.RoleUnknown, 0, false, false
		if o.Class == v1alpha1.ClassParticipating {
			o.Class = v1alpha1.ClassUnready
		}
	}
}
