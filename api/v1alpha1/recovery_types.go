// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RecoveryPhase is how far a QuorumLossRecovery has come.
// +kubebuilder:validation:Enum=Confirming;Stopping;Surveying;Starting;Growing
type RecoveryPhase string

// The phases of a recovery, in their order.
const (
	// RecoveryConfirming: etcd has to be without a quorum for a grace period.
	RecoveryConfirming RecoveryPhase = "Confirming"
	// RecoveryStopping: the StatefulSet is held at zero replicas, until every pod is gone.
	RecoveryStopping RecoveryPhase = "Stopping"
	// RecoverySurveying: Jobs of the agent look at what is on the volumes.
	RecoverySurveying RecoveryPhase = "Surveying"
	// RecoveryStarting: it is chosen how the cluster starts again. The members are told, and then started.
	RecoveryStarting RecoveryPhase = "Starting"
	// RecoveryGrowing: the cluster serves with one member, and takes the others in, one by one.
	RecoveryGrowing RecoveryPhase = "Growing"
)

// RecoverySource is what a recovered cluster begins with.
// +kubebuilder:validation:Enum=Data;Backup
type RecoverySource string

// The sources.
const (
	// RecoverFromData: the data of the most advanced member.
	RecoverFromData RecoverySource = "Data"
	// RecoverFromBackup: the newest full snapshot and its deltas.
	RecoverFromBackup RecoverySource = "Backup"
)

// RecoveryStatus is the progress of a QuorumLossRecovery.
type RecoveryStatus struct {
	Phase RecoveryPhase `json:"phase"`
	// PhaseSince is when the phase began.
	PhaseSince metav1.Time `json:"phaseSince"`
	// LostSince is since when the operator that works now has seen etcd without a quorum, in phase Confirming. It is shown to
	// people; nothing is decided on it.
	// +optional
	LostSince *metav1.Time `json:"lostSince,omitempty"`
	// Member that the cluster begins anew with. Empty when a quorum of the members has its data, so that all are
	// started as they are.
	// +optional
	Member string `json:"member,omitempty"`
	// Source of its data.
	// +optional
	Source RecoverySource `json:"source,omitempty"`
	// PreviousClusterID is the ID that the cluster had, in hex.
	// +optional
	PreviousClusterID string `json:"previousClusterID,omitempty"`
	// EarlierClusterIDs are those before it, where a recovery did not come to its end.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
}

// ClusterRecovery tells the members of a cluster that it begins anew, and with whom. It stays until the task that
// recovered it is gone and every member votes; until then the members keep the data that they had before.
type ClusterRecovery struct {
	// Task that recovers, or recovered, the cluster; empty when it wakes up without volumes.
	Task string `json:"task"`
	// TaskUID is its UID, or the ID of the hibernation that the cluster wakes up from.
	TaskUID types.UID `json:"taskUID"`
	// Member that the cluster begins anew with.
	Member string `json:"member"`
	// Source of its data.
	Source RecoverySource `json:"source"`
	// PreviousClusterID is the ID that the cluster had, in hex.
	PreviousClusterID string `json:"previousClusterID"`
	// EarlierClusterIDs are those before it, where a recovery did not come to its end.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	// Revision that the backup has to lead to; 0 where the newest will do.
	// +optional
	Revision int64 `json:"revision,omitempty"`
}
