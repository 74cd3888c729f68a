// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// members returns the members of a snapshot, in the order of their ordinals.
func members(before []v1alpha1.Member, s *cluster.Snapshot, now metav1.Time) []v1alpha1.Member {
	next := make([]v1alpha1.Member, 0, s.Replicas())
	for _, o := range s.Ordinals {
		m := v1alpha1.Member{Name: o.Member, Role: roles[o.Role], Status: memberStatus(s, o), Reason: string(o.Class), LastTransitionTime: now}
		if o.MemberID != 0 {
			m.ID = fmt.Sprintf("%x", o.MemberID)
		}
		for _, b := range before {
			if b.Name != o.Member {
				continue
			}
			if b.Status == m.Status {
				m.LastTransitionTime = b.LastTransitionTime
			}
			if m.ID == "" {
				// A member that is not running keeps its ID.
				m.ID = b.ID
			}
		}
		next = append(next, m)
	}
	return next
}

// roles are the names of roles in the status. An unknown role has none.
var roles = map[v1alpha1.Role]v1alpha1.MemberRole{
	v1alpha1.RoleLeader: v1alpha1.MemberRoleLeader, v1alpha1.RoleFollower: v1alpha1.MemberRoleMember, v1alpha1.RoleLearner: v1alpha1.MemberRoleLearner,
}

func memberStatus(s *cluster.Snapshot, o cluster.Ordinal) v1alpha1.MemberStatus {
	switch {
	case o.Class == v1alpha1.ClassParticipating:
		return v1alpha1.MemberReady
	case !s.Cluster.Reachable && o.Pod != nil && o.Pod.Ready:
		return v1alpha1.MemberUnknown
	}
	return v1alpha1.MemberNotReady
}
