// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RecoveryPhase is the phase of a QuorumLossRecovery.
// +kubebuilder:validation:Enum=Confirming;Stopping;Surveying;Starting;Growing
type RecoveryPhase string

// The phases of a recovery, in order.
const (
	// RecoveryConfirming waits until the quorum has been lost for the grace period.
	RecoveryConfirming RecoveryPhase = "Confirming"
	// RecoveryStopping keeps the StatefulSet at zero replicas until every pod is gone.
	RecoveryStopping RecoveryPhase = "Stopping"
	// RecoverySurveying runs Jobs that read what is on the volumes, and chooses the data that the cluster starts from.
	RecoverySurveying RecoveryPhase = "Surveying"
	// RecoveryStarting configures the members with that choice and starts them.
	RecoveryStarting RecoveryPhase = "Starting"
	// RecoveryGrowing waits until the other members have joined the new cluster as learners and all members vote.
	RecoveryGrowing RecoveryPhase = "Growing"
)

// RecoverySource is what a recovered cluster starts from.
// +kubebuilder:validation:Enum=Data;Backup
type RecoverySource string

// The sources.
const (
	// RecoverFromData is the data of the most advanced member.
	RecoverFromData RecoverySource = "Data"
	// RecoverFromBackup is the newest full snapshot and its deltas.
	RecoverFromBackup RecoverySource = "Backup"
)

// RecoveryStatus is the progress of a QuorumLossRecovery.
type RecoveryStatus struct {
	// phase of the recovery: Confirming, Stopping, Surveying, Starting or Growing.
	Phase RecoveryPhase `json:"phase"`
	// phaseSince is when the phase began.
	PhaseSince metav1.Time `json:"phaseSince"`
	// lostSince is since when the current operator instance has observed, in phase Confirming, that the quorum is lost. It is
	// informational: decisions use a timer in memory.
	// +optional
	LostSince *metav1.Time `json:"lostSince,omitempty"`
	// member that the new cluster starts with. Empty if a quorum of the members has its data, so that all members are
	// started unchanged.
	// +optional
	Member string `json:"member,omitempty"`
	// source of the data of that member: Data or Backup.
	// +optional
	Source RecoverySource `json:"source,omitempty"`
	// previousClusterID is the cluster ID before the recovery, in hex.
	// +optional
	PreviousClusterID string `json:"previousClusterID,omitempty"`
	// earlierClusterIDs are the IDs, in hex, of the clusters before, in the order in which recoveries made them. If the data is of one
	// that is not the newest of them, previousClusterID is among them too.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
}

// ClusterRecovery tells the members how to start as a new cluster. It stays until the task that recovered the cluster is gone
// and every member votes; until then the members keep their previous data.
type ClusterRecovery struct {
	// task is the name of the task that recovers the cluster; empty if the cluster wakes up without volumes.
	Task string `json:"task"`
	// taskUID is the UID of that task, or the ID of the hibernation that the cluster wakes up from.
	TaskUID types.UID `json:"taskUID"`
	// member that the new cluster starts with.
	Member string `json:"member"`
	// source of the data of that member: Data or Backup.
	Source RecoverySource `json:"source"`
	// previousClusterID is the cluster ID before, in hex.
	PreviousClusterID string `json:"previousClusterID"`
	// earlierClusterIDs are the IDs, in hex, of the clusters before, in the order in which recoveries made them. If the data is of one
	// that is not the newest of them, previousClusterID is among them too.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	// revision that the backup must reach at least; 0 if any backup is accepted.
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// LeavesBehind reports whether a cluster is one that the recovery replaces.
func (r *ClusterRecovery) LeavesBehind(clusterID string) bool {
	return r != nil && (clusterID == r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, clusterID))
}
