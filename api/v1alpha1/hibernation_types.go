// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Hibernation records a hibernation without volumes. It is written before the first claim is deleted and removed when the
// cluster has woken up. In between, the cluster can only wake up from the final snapshot.
type Hibernation struct {
	// id identifies this hibernation. The cluster ID after waking up is derived from it.
	ID types.UID `json:"id"`
	// since is when the final snapshot was recorded. From then on the claims are deleted.
	Since metav1.Time `json:"since"`
	// snapshot is the name of the final full snapshot in the store. The operator records it after it was verified.
	Snapshot string `json:"snapshot"`
	// revision of the snapshot. It contains every write that the cluster acknowledged.
	Revision int64 `json:"revision"`
	// clusterID is the cluster ID before the hibernation, in hex.
	ClusterID string `json:"clusterID"`
	// claims are the PersistentVolumeClaims whose data is in the snapshot and that are therefore deleted. Other claims of the
	// same names are kept.
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=name
	// +optional
	Claims []HibernatedClaim `json:"claims,omitempty"`
}

// HibernatedClaim is a PersistentVolumeClaim whose data is in the final snapshot.
type HibernatedClaim struct {
	// name of the claim.
	Name string `json:"name"`
	// uid of the claim.
	UID types.UID `json:"uid"`
}

// ConditionHibernated is a condition of an Etcd with spec.replicas 0: True once the cluster is hibernated as specified,
// without members and, with whenScaled: Delete, without volumes. It is also False while a cluster that was hibernated without
// volumes wakes up. Absent otherwise.
const ConditionHibernated = "Hibernated"

// Further reasons of the condition Hibernated, besides ReasonHibernated.
const (
	// ReasonHibernating means that members are being stopped, the final snapshot is being taken, or claims are being deleted.
	ReasonHibernating = "Hibernating"
	// ReasonNoFinalSnapshot means that there is no verified final full snapshot to wake up from, so no claim is deleted. The
	// message says why, and whether members run.
	ReasonNoFinalSnapshot = "NoFinalSnapshot"
	// ReasonWakingUp means that the cluster wakes up from the final snapshot. In DataVolumesReady it means that a member waits
	// for its turn.
	ReasonWakingUp = "WakingUp"
)
