// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberStatus is the health of a member in the status of an Etcd.
// +kubebuilder:validation:Enum=Ready;NotReady;Unknown
type MemberStatus string

// The statuses of a member.
const (
	MemberReady    MemberStatus = "Ready"
	MemberNotReady MemberStatus = "NotReady"
	MemberUnknown  MemberStatus = "Unknown"
)

// MemberRole is the role of a member in the status of an Etcd.
type MemberRole string

// The roles in the status of an Etcd.
const (
	MemberRoleLeader  MemberRole = "Leader"
	MemberRoleMember  MemberRole = "Member"
	MemberRoleLearner MemberRole = "Learner"
)

// Member is the observed state of one member.
type Member struct {
	// name of the member.
	Name string `json:"name"`
	// id of the member, in hex; empty until it is known.
	// +optional
	ID string `json:"id,omitempty"`
	// role of the member: Leader, Member, or Learner while it does not vote; empty if it is not known.
	// +optional
	Role MemberRole `json:"role,omitempty"`
	// status of the member: Ready if it participates, Unknown if its pod is ready but no member answers the operator, and
	// NotReady otherwise.
	Status MemberStatus `json:"status"`
	// reason is the class of the pod, such as Participating, Missing or Starting.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastTransitionTime is when status last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// MemberName returns the name of the member in a pod, and of its Lease: the name of the pod, with spec.memberNamePrefix and a
// dash in front if it is set.
func (e *Etcd) MemberName(pod string) string {
	if p := e.Spec.MemberNamePrefix; p != nil && *p != "" {
		return *p + "-" + pod
	}
	return pod
}
