// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdCopyBackupsTaskSpec describes a copy of backups from one store to another. Changes have no effect once the Job of the task
// exists.
// +kubebuilder:validation:XValidation:rule="has(self.sourceStore.prefix) && has(self.targetStore.prefix)",message="sourceStore and targetStore must have a prefix"
// +kubebuilder:validation:XValidation:rule="has(self.sourceStore.provider) && has(self.targetStore.provider)",message="sourceStore and targetStore must have a provider"
type EtcdCopyBackupsTaskSpec struct {
	// podLabels are further labels of the pods that copy. They do not replace those of the operator.
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// sourceStore is the store to copy from.
	SourceStore StoreSpec `json:"sourceStore"`
	// targetStore is the store to copy to. Its prefix must not be that of an Etcd of the namespace.
	TargetStore StoreSpec `json:"targetStore"`
	// maxBackupAge is the maximum age, in days, of a backup that is copied; 0 for any. Default: any.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxBackupAge *uint32 `json:"maxBackupAge,omitempty"`
	// maxBackups is the number of full snapshots to copy, the newest ones, each with its deltas; 0 for all. Default: all.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxBackups *uint32 `json:"maxBackups,omitempty"`
	// waitForFinalSnapshot lets the copy wait for a final snapshot in the source. Default: it does not wait.
	// +optional
	WaitForFinalSnapshot *WaitForFinalSnapshotSpec `json:"waitForFinalSnapshot,omitempty"`
}

// WaitForFinalSnapshotSpec describes how a copy waits for the last snapshot of a cluster that moves.
type WaitForFinalSnapshotSpec struct {
	// enabled lets the copy wait.
	Enabled bool `json:"enabled"`
	// timeout after which the copy begins without a final snapshot; 0 for never. Default: never.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || duration(self) >= duration('0s')",message="timeout must be a duration of less than 290 years"
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Condition types of an EtcdCopyBackupsTask. A task that is running has neither.
const (
	// ConditionCopySucceeded is True when the backups are copied.
	ConditionCopySucceeded = "Succeeded"
	// ConditionCopyFailed is True when the copy has failed or is refused. Its Job is stopped.
	ConditionCopyFailed = "Failed"
)

// Reasons of ConditionCopySucceeded and ConditionCopyFailed.
const (
	ReasonCopied        = "Copied"
	ReasonNotAllowed    = "NotAllowed"
	ReasonInvalid       = "Invalid"
	ReasonForeignJob    = "ForeignJob"
	ReasonJobNotStarted = "JobNotStarted"
	ReasonImage         = "Image"
	ReasonOutOfMemory   = "OutOfMemory"
	ReasonDeadline      = "DeadlineExceeded"
	ReasonJobFailed     = "JobFailed"
)

// EtcdCopyBackupsTaskStatus is the observed state of an EtcdCopyBackupsTask. Only the operator writes it.
type EtcdCopyBackupsTaskStatus struct {
	// conditions of the task: Succeeded, Failed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is based on.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// lastError is what is wrong with the task while it has not ended; absent if nothing is.
	// +optional
	LastError *string `json:"lastError,omitempty"`
	// result is what the agent reports of a copy that has succeeded, as key-value pairs, such as copied and lastRevision.
	// +optional
	Result map[string]string `json:"result,omitempty"`
}

// EtcdCopyBackupsTask copies backups from one store to another. It needs no Etcd.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.lastError`
type EtcdCopyBackupsTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec EtcdCopyBackupsTaskSpec `json:"spec,omitzero"`
	// +optional
	Status EtcdCopyBackupsTaskStatus `json:"status,omitempty"`
}

// HasEnded reports whether the task has succeeded or failed.
func (t *EtcdCopyBackupsTask) HasEnded() bool {
	return t.Status.Conditions.IsTrue(ConditionCopySucceeded) || t.Status.Conditions.IsTrue(ConditionCopyFailed)
}

// EtcdCopyBackupsTaskList is a list of EtcdCopyBackupsTasks.
// +kubebuilder:object:root=true
type EtcdCopyBackupsTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCopyBackupsTask `json:"items"`
}
