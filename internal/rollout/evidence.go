// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// evidenceOf returns what the decision on a step about the pod of an ordinal rests on.
func evidenceOf(s *cluster.Snapshot, o cluster.Ordinal, now time.Time) v1alpha1.Evidence {
	e := v1alpha1.Evidence{
		ObservedAt:      metav1.MicroTime{Time: now},
		ResourceVersion: o.Pod.ResourceVersion,
		Term:            int64(s.Cluster.Term),
		Voters:          int32(len(s.Cluster.Voters)),
		Quorum:          int32(s.Quorum()),
		ServingVoters:   int32(s.ServingVoters()),
	}
	for _, other := range s.Ordinals {
		if other.Serving {
			e.Serving = append(e.Serving, other.Name)
		}
		if other.Role == v1alpha1.RoleLeader {
			e.Leader = other.Name
		}
	}
	return e
}

// changedSince reports whether a resourceVersion is newer than that of a decision. An older one comes from a stale cache.
func changedSince(decided, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, decided)
	if err != nil {
		return seen != decided
	}
	return order > 0
}
