// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BootstrapExistingMember is a member of the source cluster.
type BootstrapExistingMember struct {
	// name of the member in the member list of the source cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// peerUrls are peer URLs with which the member is listed.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a valid http:// or https:// URL (e.g., https://10.0.0.1:2380)"
	// +listType=set
	PeerURLs []string `json:"peerUrls"`
}

// BootstrapWithExistingCluster names a running cluster, the source, that the members join.
type BootstrapWithExistingCluster struct {
	// members are all members of the source cluster. Members that are listed and not named here are left alone, and nothing changes
	// while there are any.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	Members []BootstrapExistingMember `json:"members"`
	// clientEndpoints under which the operator and the agents reach the members of the source cluster. Name one of each member: what
	// does not answer counts as down.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a valid http:// or https:// URL (e.g., https://etcd-source-client.source-ns.svc:2379)"
	// +listType=set
	ClientEndpoints []string `json:"clientEndpoints"`
}

// BootstrapWithExistingClusterStatus is what is recorded of a source cluster that was joined.
type BootstrapWithExistingClusterStatus struct {
	// joinedAt is when the members had joined.
	JoinedAt metav1.Time `json:"joinedAt"`
	// members of the source cluster at that time.
	// +listType=atomic
	Members []BootstrapJoinedMember `json:"members"`
	// source is the newest spec.etcd.bootstrapWithExistingCluster. It is absent once no member of the source cluster is listed any
	// more.
	// +optional
	Source *BootstrapWithExistingCluster `json:"source,omitempty"`
}

// BootstrapJoinedMember is a member of a cluster that was joined.
type BootstrapJoinedMember struct {
	// name of the member.
	Name string `json:"name"`
	// peerUrls of the member.
	// +listType=atomic
	PeerURLs []string `json:"peerUrls"`
}

// Is reports whether a listed member is the one of this name or, while the listed one has no name, one of its peer URLs.
func (m BootstrapExistingMember) Is(name string, peerURLs []string) bool {
	return m.Name == name || name == "" && slices.ContainsFunc(m.PeerURLs, func(url string) bool { return slices.Contains(peerURLs, url) })
}

// SourceStays reports whether the members join a source cluster, or have joined it, and its members stay: before the cut-over.
func (e *Etcd) SourceStays() bool { return e.Spec.Etcd.BootstrapWithExistingCluster != nil }

// LeavesSource reports whether the members leave the source cluster that they join, or have joined, and it stays as it was.
func (e *Etcd) LeavesSource() bool { return e.SourceStays() && e.Spec.Replicas == 0 }

// Source returns the cluster that the members join, or whose members have yet to leave after the cut-over; nil if there is none.
func (e *Etcd) Source() *BootstrapWithExistingCluster {
	switch joined := e.Status.BootstrapWithExistingCluster; {
	case e.SourceStays():
		return e.Spec.Etcd.BootstrapWithExistingCluster
	case joined != nil:
		return joined.Source
	}
	return nil
}
