// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types in this file are fields of etcd-druid's Etcd that this operator accepts without effect, or refuses when they are
// set. They are in the schema because a field that is not in it would be pruned silently.

// OptionalSecretReference is a reference to a Secret that may be empty.
type OptionalSecretReference struct {
	// name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`
	// namespace of the Secret.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// LeaderElectionSpec is accepted without effect: the agent of etcd's leader takes the snapshots.
type LeaderElectionSpec struct {
	// reelectionPeriod has no effect.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +optional
	ReelectionPeriod *metav1.Duration `json:"reelectionPeriod,omitempty"`
	// etcdConnectionTimeout has no effect.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +optional
	EtcdConnectionTimeout *metav1.Duration `json:"etcdConnectionTimeout,omitempty"`
}

// BootstrapExistingMember is a member of an existing cluster.
type BootstrapExistingMember struct {
	// name of the member.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// peerUrls of the member.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a valid http:// or https:// URL (e.g., https://10.0.0.1:2380)"
	// +listType=set
	PeerURLs []string `json:"peerUrls"`
}

// BootstrapWithExistingCluster names an existing cluster that the members would join.
type BootstrapWithExistingCluster struct {
	// members of the existing cluster.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	Members []BootstrapExistingMember `json:"members"`
	// clientEndpoints of the existing cluster.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a valid http:// or https:// URL (e.g., https://etcd-source-client.source-ns.svc:2379)"
	// +listType=set
	ClientEndpoints []string `json:"clientEndpoints"`
}

// BootstrapWithExistingClusterStatus is what etcd-druid records of a cluster that was joined. This operator never writes it.
type BootstrapWithExistingClusterStatus struct {
	// joinedAt is when the cluster was joined.
	JoinedAt metav1.Time `json:"joinedAt"`
	// members of the cluster that was joined.
	// +listType=atomic
	Members []BootstrapJoinedMember `json:"members"`
}

// BootstrapJoinedMember is a member of a cluster that was joined.
type BootstrapJoinedMember struct {
	// name of the member.
	Name string `json:"name"`
	// peerUrls of the member.
	// +listType=atomic
	PeerURLs []string `json:"peerUrls"`
}

// CrossVersionObjectReference refers to an object in the same namespace.
type CrossVersionObjectReference struct {
	// apiVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// kind of the object.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
}
