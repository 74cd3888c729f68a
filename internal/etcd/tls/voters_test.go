// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
)

// changed returns a cluster at the stage prepared, with a change.
func changed(n int, change func(*cluster.Snapshot)) *cluster.Snapshot {
	s := peersAt(n, prepared)
	change(s)
	return s
}

// A member that has peers, wherever they are, does not switch to TLS at once: they could not connect to it.
func TestAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot *cluster.Snapshot
		want     bool
	}{
		"a single member": {clustertest.Healthy(1), true},
		"beside a foreign voter": {changed(1, func(s *cluster.Snapshot) {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 9, Ordinal: -1})
		}), false},
		"a foreign voter instead": {changed(1, func(s *cluster.Snapshot) { s.Cluster.Voters[0].Ordinal = -1 }), false},
		"three, and one votes":    {changed(3, func(s *cluster.Snapshot) { s.Cluster.Voters = s.Cluster.Voters[:1] }), false},
		"three":                   {clustertest.Healthy(3), false},
		"none":                    {clustertest.Healthy(0), false},
	} {
		if got := alone(tc.snapshot); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Everybody that votes has to be known to have come this far before the next step.
func TestEveryMemberAt(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot *cluster.Snapshot
		want     bool
	}{
		"all":                   {changed(3, func(*cluster.Snapshot) {}), true},
		"one is not":            {changed(3, func(s *cluster.Snapshot) { s.Ordinals[1].Pod.PeerTLS = "" }), false},
		"one is away":           {changed(3, func(s *cluster.Snapshot) { clustertest.Away(s, 1, v1alpha1.ClassUnready, "") }), false},
		"one is missing":        {changed(3, func(s *cluster.Snapshot) { clustertest.Away(s, 1, v1alpha1.ClassMissing, "") }), false},
		"one does not vote yet": {changed(3, func(s *cluster.Snapshot) { s.Cluster.Voters = s.Cluster.Voters[:2] }), false},
		"a voter is elsewhere":  {changed(3, func(s *cluster.Snapshot) { s.Cluster.Voters[2].Ordinal = -1 }), false},
		"one more is elsewhere": {changed(3, func(s *cluster.Snapshot) {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 9, Ordinal: -1})
		}), false},
		"there are no members": {clustertest.Healthy(0), false},
	} {
		if got := everyMemberAt(tc.snapshot, prepared); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
