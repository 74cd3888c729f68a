// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberStatus is the status of a member in an Etcd's status.
// +kubebuilder:validation:Enum=Ready;NotReady;Unknown
type MemberStatus string

// The statuses of a member.
const (
	MemberReady    MemberStatus = "Ready"
	MemberNotReady MemberStatus = "NotReady"
	MemberUnknown  MemberStatus = "Unknown"
)

// Member is what is known of one member.
type Member struct {
	// Name of the member.
	Name string `json:"name"`
	// ID of the member, in hex.
	// +optional
	ID string `json:"id,omitempty"`
	// Role of the member.
	// +optional
	Role Role `json:"role,omitempty"`
	// Status of the member.
	Status MemberStatus `json:"status"`
	// Reason of the status.
	// +optional
	Reason string `json:"reason,omitempty"`
	// LastTransitionTime is when Status last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// MemberName is the name of the member in a pod, and of its lease: that of the pod, after spec.memberNamePrefix and a
// dash where there is one.
func (e *Etcd) MemberName(pod string) string {
	if p := e.Spec.MemberNamePrefix; p != nil && *p != "" {
		return *p + "-" + pod
	}
	return pod
}
