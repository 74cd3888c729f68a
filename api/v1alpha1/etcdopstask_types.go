// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdOpsTaskSpec describes an operation on an Etcd.
type EtcdOpsTaskSpec struct {
	// config has exactly one member: that of the operation. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="config is immutable"
	Config EtcdOpsTaskConfig `json:"config"`
	// ttlSecondsAfterFinished is how long the task is kept after it has ended, in seconds. It is immutable.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ttlSecondsAfterFinished is immutable"
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// etcdName is the name of the Etcd, in the namespace of the task. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="etcdName is immutable"
	// +optional
	EtcdName *string `json:"etcdName,omitempty"`
}

// EtcdOpsTaskConfig has exactly one member.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type EtcdOpsTaskConfig struct {
	// onDemandSnapshot takes a snapshot.
	// +optional
	OnDemandSnapshot *OnDemandSnapshotConfig `json:"onDemandSnapshot,omitempty"`
}

// OnDemandSnapshotConfig describes a snapshot.
// +kubebuilder:validation:XValidation:rule="self.type == 'delta' ? !has(self.isFinal) || self.isFinal == false : true",message="isFinal must be false (or omitted) when type is 'delta'"
type OnDemandSnapshotConfig struct {
	// type of the snapshot.
	// +kubebuilder:validation:Enum=full;delta
	Type string `json:"type"`
	// isFinal marks a full snapshot as the last one before the cluster hibernates or is moved.
	// +optional
	IsFinal *bool `json:"isFinal,omitempty"`
	// timeoutSecondsDelta is the timeout of a delta snapshot.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +optional
	TimeoutSecondsDelta *int32 `json:"timeoutSecondsDelta,omitempty"`
	// timeoutSecondsFull is the timeout of a full snapshot.
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=120
	// +optional
	TimeoutSecondsFull *int32 `json:"timeoutSecondsFull,omitempty"`
}

// Types of the last operation of an EtcdOpsTask.
const (
	OpsTaskAdmit     = "Admit"
	OpsTaskExecution = "Execution"
)

// Error codes of an EtcdOpsTask that differ from those of an EtcdOperatorTask.
const (
	// ErrGetEtcd means that the Etcd does not exist.
	ErrGetEtcd ErrorCode = "ERR_GET_ETCD"
	// ErrEtcdNotReady means that the cluster has no quorum.
	ErrEtcdNotReady ErrorCode = "ERR_ETCD_NOT_READY"
	// ErrBackupNotEnabled means that the Etcd has no backup store.
	ErrBackupNotEnabled ErrorCode = "ERR_BACKUP_NOT_ENABLED"
	// ErrCreateSnapshot means that the agent did not take the snapshot.
	ErrCreateSnapshot ErrorCode = "ERR_CREATE_SNAPSHOT"
)

// EtcdOpsTaskStatus is the observed state of an EtcdOpsTask. Only the operator writes it.
type EtcdOpsTaskStatus struct {
	// state of the task.
	// +optional
	State *TaskState `json:"state,omitempty"`
	// lastTransitionTime is when state last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// startedAt is when the task left state Pending to run.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// lastErrors are the newest errors, oldest first, at most 10.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// lastOperation is the progress of the task.
	// +optional
	LastOperation *OpsTaskOperation `json:"lastOperation,omitempty"`
	// operatorTask is the name of the EtcdOperatorTask that carries out the operation.
	// +optional
	OperatorTask string `json:"operatorTask,omitempty"`
}

// OpsTaskOperation is the progress of an EtcdOpsTask.
type OpsTaskOperation struct {
	// type of the operation: Admit or Execution.
	Type string `json:"type"`
	// state of the operation: InProgress, Completed or Failed.
	State string `json:"state"`
	// runID is the UID of the EtcdOperatorTask, or of the task itself where there is none.
	RunID string `json:"runID"`
	// description is a human-readable sentence.
	Description string `json:"description"`
	// lastUpdateTime is when the operation last changed.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

// EtcdOpsTask is an operation on an Etcd, in the form that clients of etcd-druid use. An EtcdOperatorTask carries it out.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eot
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.spec.etcdName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.lastOperation.type`,priority=1
// +kubebuilder:printcolumn:name="TTL",type=integer,JSONPath=`.spec.ttlSecondsAfterFinished`,priority=1
type EtcdOpsTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EtcdOpsTaskSpec `json:"spec"`
	// +optional
	Status EtcdOpsTaskStatus `json:"status,omitempty"`
}

// EtcdOpsTaskList is a list of EtcdOpsTasks.
// +kubebuilder:object:root=true
type EtcdOpsTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdOpsTask `json:"items"`
}
