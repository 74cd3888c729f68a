// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// VolumeRetention is what becomes of the volumes of members that go.
// +kubebuilder:validation:Enum=Retain;Delete
type VolumeRetention string

// The values of VolumeRetention.
const (
	VolumesRetained VolumeRetention = "Retain"
	VolumesDeleted  VolumeRetention = "Delete"
)

// PersistentVolumeClaimRetentionPolicy says when the claims of the members are deleted, and their volumes with
// them (KEP-1847).
type PersistentVolumeClaimRetentionPolicy struct {
	// WhenDeleted: what becomes of the claims when the Etcd is deleted. Default Retain.
	// +optional
	WhenDeleted VolumeRetention `json:"whenDeleted,omitempty"`
	// WhenScaled: what becomes of the claims when the cluster is put to sleep (replicas: 0). With Delete they go once a
	// final full snapshot of all that is on them is verified to be in the store. Default Retain.
	// +optional
	WhenScaled VolumeRetention `json:"whenScaled,omitempty"`
}

// Retention is the policy of an Etcd with its defaults filled in.
func (s *EtcdSpec) Retention() PersistentVolumeClaimRetentionPolicy {
	var p PersistentVolumeClaimRetentionPolicy
	if s.PersistentVolumeClaimRetentionPolicy != nil {
		p = *s.PersistentVolumeClaimRetentionPolicy
	}
	return PersistentVolumeClaimRetentionPolicy{
		WhenDeleted: cmp.Or(p.WhenDeleted, VolumesRetained),
		WhenScaled:  cmp.Or(p.WhenScaled, VolumesRetained),
	}
}

// DefaultStorageCapacity is the capacity of a member's volume where the spec does not say. A rule of EtcdSpec repeats
// it.
const DefaultStorageCapacity = "16Gi"

// Capacity is the capacity of a member's volume.
func (s *EtcdSpec) Capacity() resource.Quantity {
	if s.StorageCapacity != nil {
		return *s.StorageCapacity
	}
	return resource.MustParse(DefaultStorageCapacity)
}

// ConditionVolumesGrown is of an Etcd: every claim, and the StatefulSet's template of further ones, has the capacity
// that the spec says.
const ConditionVolumesGrown = "VolumesGrown"

// Reasons of the condition VolumesGrown.
const (
	// ReasonVolumesGrown: they have.
	ReasonVolumesGrown = "VolumesGrown"
	// ReasonVolumesGrowing: the claims ask for the capacity, and a volume or the template does not have it yet.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonVolumesNotExpandable: the StorageClass of a claim does not allow its volumes to grow.
	ReasonVolumesNotExpandable = "VolumesNotExpandable"
)
