// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RecoveryPhase is the phase of a QuorumLossRecovery or a Restore.
// +kubebuilder:validation:Enum=Confirming;Fencing;Saving;Stopping;Surveying;Starting;Growing;Reopening
type RecoveryPhase string

// The phases, in order. A QuorumLossRecovery begins with Confirming and ends after Growing. A Restore begins with Fencing, once its
// preview has run.
const (
	// RecoveryConfirming waits until the quorum has been lost for the grace period.
	RecoveryConfirming RecoveryPhase = "Confirming"
	// RecoveryFencing waits until the client Service selects no member.
	RecoveryFencing RecoveryPhase = "Fencing"
	// RecoverySaving takes a full snapshot of the present, which retention keeps.
	RecoverySaving RecoveryPhase = "Saving"
	// RecoveryStopping keeps the StatefulSet at zero replicas until every pod is gone.
	RecoveryStopping RecoveryPhase = "Stopping"
	// RecoverySurveying runs Jobs that read what is on the volumes, and chooses the data that the cluster starts from.
	RecoverySurveying RecoveryPhase = "Surveying"
	// RecoveryStarting configures the members with that choice and starts them.
	RecoveryStarting RecoveryPhase = "Starting"
	// RecoveryGrowing waits until the other members have joined the new cluster as learners and all members vote. After five minutes, a
	// quorum is enough for a Restore.
	RecoveryGrowing RecoveryPhase = "Growing"
	// RecoveryReopening takes a full snapshot of the new cluster. The client Service selects its members again when the task ends.
	RecoveryReopening RecoveryPhase = "Reopening"
)

// RecoverySource is what a recovered cluster starts from.
// +kubebuilder:validation:Enum=Data;Backup;Restore;KeptData
type RecoverySource string

// The sources.
const (
	// RecoverFromData is the data of the most advanced member.
	RecoverFromData RecoverySource = "Data"
	// RecoverFromBackup is the newest full snapshot and its deltas.
	RecoverFromBackup RecoverySource = "Backup"
	// RecoverFromTarget is a revision in the backup that a Restore goes back to.
	RecoverFromTarget RecoverySource = "Restore"
	// RecoverFromKeptData is the data that an earlier Restore has set aside on the volume of the member.
	RecoverFromKeptData RecoverySource = "KeptData"
)

// ClusterRestore is what a Restore starts the cluster from.
type ClusterRestore struct {
	// base is the name of the full snapshot, without its prefix; empty for source KeptData.
	// +optional
	Base string `json:"base,omitempty"`
	// prefix of the snapshots in the container of the Etcd's store, if it is not that of its own backup.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// revision that the cluster goes back to; 0 for source KeptData, which is used to its end.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// hash is HashKV of all keys at that revision, before bump is added; 0 for source KeptData.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	Hash int64 `json:"hash,omitempty"`
	// bytes of the database at that revision; 0 for source KeptData.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// bump is added to the revision, so that the new cluster begins above every revision that the one before has reported. For source
	// KeptData, it is where the new cluster begins at least.
	// +optional
	Bump int64 `json:"bump,omitempty"`
	// keptData is the name of the directory on the volume of the member, for source KeptData.
	// +optional
	KeptData string `json:"keptData,omitempty"`
}

// RestoreStatus is the progress of a Restore, besides its phase.
type RestoreStatus struct {
	ClusterRestore `json:",inline"`
	// fenced: the client Service selects no member while the task runs.
	// +optional
	Fenced bool `json:"fenced,omitempty"`
	// finalSnapshot is the name of the full snapshot of the cluster before, which retention keeps.
	// +optional
	FinalSnapshot string `json:"finalSnapshot,omitempty"`
	// highestRevision is the highest revision that the cluster before may have reported, as far as is known.
	// +optional
	HighestRevision int64 `json:"highestRevision,omitempty"`
	// keptBy is the member whose volume keeps all of the cluster before, if that is not the member that the new cluster starts with: it
	// was the most advanced one when all were stopped.
	// +optional
	KeptBy string `json:"keptBy,omitempty"`
}

// RecoveryStatus is the progress of a QuorumLossRecovery, or of a Restore once its preview has run.
type RecoveryStatus struct {
	// phase of the task: Confirming, Fencing, Saving, Stopping, Surveying, Starting, Growing or Reopening.
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
	// source of the data of that member: Data, Backup, Restore or KeptData.
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
	// revision that the backup must reach at least; 0 if any backup is accepted. It is beyond what a QuorumLossRecovery has found on the
	// volumes.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// highestRevision is the highest revision that a QuorumLossRecovery knows of the cluster before: the new one continues above it.
	// +optional
	HighestRevision int64 `json:"highestRevision,omitempty"`
	// hadData reports whether there was data on the volume of that member. If it is empty later, it is another volume, and the new
	// cluster may have begun on the first one.
	// +optional
	HadData bool `json:"hadData,omitempty"`
	// restore is what a Restore starts the cluster from, and what it has found so far.
	// +optional
	Restore *RestoreStatus `json:"restore,omitempty"`
}

// ClusterRecovery tells the members how to start as a new cluster. It stays until the task that recovered the cluster is gone, and every
// other for which members have set data aside, and every member votes; until then they keep all of that data.
type ClusterRecovery struct {
	// task is the name of the task that recovers the cluster; empty if the cluster wakes up without volumes.
	Task string `json:"task"`
	// taskUID is the UID of that task, or the ID of the hibernation that the cluster wakes up from.
	TaskUID types.UID `json:"taskUID"`
	// member that the new cluster starts with.
	Member string `json:"member"`
	// source of the data of that member: Data, Backup, Restore or KeptData.
	Source RecoverySource `json:"source"`
	// previousClusterID is the cluster ID before, in hex.
	PreviousClusterID string `json:"previousClusterID"`
	// earlierClusterIDs are the IDs, in hex, of the clusters before, in the order in which recoveries made them. If the data is of one
	// that is not the newest of them, previousClusterID is among them too.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	// revision that the backup must reach at least; 0 if any backup is accepted. It is that of the final snapshot of a cluster that wakes
	// up, or beyond what a QuorumLossRecovery has found on the volumes.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// highestRevision is the highest revision that a QuorumLossRecovery knows of the cluster before: the new one continues above it.
	// +optional
	HighestRevision int64 `json:"highestRevision,omitempty"`
	// hadData reports whether there was data on the volume of that member. If it is empty later, it is another volume, and the new
	// cluster may have begun on the first one.
	// +optional
	HadData bool `json:"hadData,omitempty"`
	// restore is what the cluster starts from, for the sources Restore and KeptData.
	// +optional
	Restore *ClusterRestore `json:"restore,omitempty"`
}

// KeepsData reports whether a task is a Restore that has replaced data: what the members had before is kept for as long as it exists.
func (t *EtcdOperatorTask) KeepsData() bool { return t.Spec.Type == Restore && t.SetsAside() }

// SetsAside reports whether a task, a Restore or a QuorumLossRecovery, has members start from other data than they had, which they set aside
// on their volumes.
func (t *EtcdOperatorTask) SetsAside() bool {
	return t.Status.Recovery != nil && t.Status.Recovery.Source != ""
}

// LeavesBehind reports whether a cluster is one that the recovery replaces.
func (r *ClusterRecovery) LeavesBehind(clusterID string) bool {
	return r != nil && (clusterID == r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, clusterID))
}
