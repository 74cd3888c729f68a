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
