// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// VolumeRetention determines whether PersistentVolumeClaims are retained or deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type VolumeRetention string

// The values of VolumeRetention.
const (
	VolumesRetained VolumeRetention = "Retain"
	VolumesDeleted  VolumeRetention = "Delete"
)

// PersistentVolumeClaimRetentionPolicy determines when the claims of the members are deleted (KEP-1847).
type PersistentVolumeClaimRetentionPolicy struct {
	// whenDeleted determines whether the claims are retained or deleted when the Etcd is deleted. Default: Retain.
	// +optional
	WhenDeleted VolumeRetention `json:"whenDeleted,omitempty"`
	// whenScaled determines whether claims are retained or deleted when the cluster shrinks, or is hibernated (replicas: 0). With
	// Delete, the claim of a member is deleted once the member list no longer has it, and those of a hibernated cluster once a final
	// full snapshot of their data is verified in the store. Default: Retain.
	// +optional
	WhenScaled VolumeRetention `json:"whenScaled,omitempty"`
}

// Retention returns the retention policy of an Etcd, with defaults.
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

// DefaultStorageCapacity is the default of spec.storageCapacity. A validation rule of EtcdSpec repeats it.
const DefaultStorageCapacity = "16Gi"

// Capacity returns the capacity of a member's volume, with its default.
func (s *EtcdSpec) Capacity() resource.Quantity {
	if s.StorageCapacity != nil {
		return *s.StorageCapacity
	}
	return resource.MustParse(DefaultStorageCapacity)
}

// Class returns the name of the StorageClass of the members' volumes; empty for whichever they have.
func (s *EtcdSpec) Class() string { return ptr.Deref(s.StorageClass, "") }

// ConditionVolumesGrown is a condition of an Etcd: True once every claim and the StatefulSet's claim template have the
// specified capacity.
const ConditionVolumesGrown = "VolumesGrown"

// Reasons of the condition VolumesGrown.
const (
	// ReasonVolumesGrown means that all have the specified capacity.
	ReasonVolumesGrown = "VolumesGrown"
	// ReasonVolumesGrowing means that a claim, its volume or the claim template does not have the capacity yet.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonVolumesNotExpandable means that the StorageClass of a claim does not allow volume expansion.
	ReasonVolumesNotExpandable = "VolumesNotExpandable"
)

// ConditionVolumesMoved is a condition of an Etcd: False while the volumes of members are of another StorageClass than specified, or too
// small and cannot grow. It is absent otherwise.
const ConditionVolumesMoved = "VolumesMoved"

// ReasonVolumesMoving is a reason of the condition VolumesMoved: one member after the other gets another volume. The other is
// ClaimNotOwned.
const ReasonVolumesMoving = "VolumesMoving"
