// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TaskType says what a task does.
// +kubebuilder:validation:Enum=QuorumAwareRollout;RecreateRollout;OnDemandSnapshot;OnDemandCompaction;OnDemandMaintenance;CopyBackups;QuorumLossRecovery
type TaskType string

// The task types.
const (
	QuorumAwareRollout  TaskType = "QuorumAwareRollout"
	RecreateRollout     TaskType = "RecreateRollout"
	OnDemandSnapshot    TaskType = "OnDemandSnapshot"
	OnDemandCompaction  TaskType = "OnDemandCompaction"
	OnDemandMaintenance TaskType = "OnDemandMaintenance"
	CopyBackups         TaskType = "CopyBackups"
	QuorumLossRecovery  TaskType = "QuorumLossRecovery"
)

// IsRollout reports whether tasks of the type bring the pods of a StatefulSet to a revision.
func (t TaskType) IsRollout() bool { return t == QuorumAwareRollout || t == RecreateRollout }

// TaskState is the state of a task (DEP-05): Pending to InProgress to Succeeded or Failed, or Pending to
// Rejected. A rollout whose target revision is no longer the StatefulSet's, and a task whose Etcd or type is gone, ends
// Rejected from either.
// +kubebuilder:validation:Enum=Pending;InProgress;Succeeded;Failed;Rejected
type TaskState string

// The states of a task.
const (
	TaskStatePending    TaskState = "Pending"
	TaskStateInProgress TaskState = "InProgress"
	TaskStateSucceeded  TaskState = "Succeeded"
	TaskStateFailed     TaskState = "Failed"
	TaskStateRejected   TaskState = "Rejected"
)

// IsFinal tells whether a task in this state has ended.
func (s TaskState) IsFinal() bool {
	return s == TaskStateSucceeded || s == TaskStateFailed || s == TaskStateRejected
}

// OperationState is the state of one operation within a task.
// +kubebuilder:validation:Enum=Pending;InProgress;Completed;Failed
type OperationState string

// The states of an operation.
const (
	OperationStatePending    OperationState = "Pending"
	OperationStateInProgress OperationState = "InProgress"
	OperationStateCompleted  OperationState = "Completed"
	OperationStateFailed     OperationState = "Failed"
)

// DefaultTTLSecondsAfterFinished is how long a finished task is kept when its spec does not say.
const DefaultTTLSecondsAfterFinished int32 = 3600

// EtcdReference names the Etcd that a task is for.
type EtcdReference struct {
	// Name of the Etcd.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Etcd. It may be left out; otherwise it has to be the task's own namespace.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// EtcdOperatorTaskSpec says what is to be done, and to which Etcd.
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: create another task"
// +kubebuilder:validation:XValidation:rule="has(self.config) == has(oldSelf.config) && (!has(self.config) || self.config == oldSelf.config)",message="config is immutable: create another task"
// +kubebuilder:validation:XValidation:rule="self.ownerEtcdReference == oldSelf.ownerEtcdReference",message="ownerEtcdReference is immutable: create another task"
type EtcdOperatorTaskSpec struct {
	// Type says what is to be done.
	Type TaskType `json:"type"`
	// Config is the configuration of this type, as YAML or JSON. It is decoded strictly: an unknown field
	// is an error.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Config string `json:"config,omitempty"`
	// TTLSecondsAfterFinished is how long the task is kept after it ended, in seconds.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// OwnerEtcdReference names the Etcd, which is in the task's own namespace.
	OwnerEtcdReference EtcdReference `json:"ownerEtcdReference"`
	// Suspend keeps a pending task from starting, and holds a running one between two steps.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// OverrideGuards names guards that this task may pass over. QuorumKept is never among them.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	OverrideGuards []OverridableGuard `json:"overrideGuards,omitempty"`
}

// EtcdOperatorTaskStatus says how far a task has come, and why it is not further.
type EtcdOperatorTaskStatus struct {
	// ObservedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State of the task.
	// +optional
	State TaskState `json:"state,omitempty"`
	// InitiatedAt is when the task left Pending.
	// +optional
	InitiatedAt *metav1.Time `json:"initiatedAt,omitempty"`
	// CompletedAt is when the task entered its final state. The TTL counts from here.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Progress, for people, such as "2/3".
	// +optional
	Progress string `json:"progress,omitempty"`
	// Config is the configuration as decoded when the task was admitted, normalized to JSON.
	// +optional
	Config string `json:"config,omitempty"`
	// ArrivalResourceVersion is the task's resourceVersion when the operator first saw it. It orders tasks
	// that were created in the same second.
	// +optional
	ArrivalResourceVersion string `json:"arrivalResourceVersion,omitempty"`
	// LastOperation is the newest step of the task. InProgress means announced, and perhaps carried out.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// LastErrors are the newest errors, oldest first, at most 10.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// Conditions of the task: Admitted, Progressing, Finished, Succeeded, EtcdReachable.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Rollout is the progress of a rollout.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Recovery is the progress of a QuorumLossRecovery.
	// +optional
	Recovery *RecoveryStatus `json:"recovery,omitempty"`
	// Result holds small facts that a task produced.
	// +optional
	Result map[string]string `json:"result,omitempty"`
}

// LastOperation is one step of a task.
type LastOperation struct {
	// Name of the operation.
	Name string `json:"name"`
	// State of the operation.
	State OperationState `json:"state"`
	// LastTransitionTime is when State last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// Reason is a sentence for people.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// LastError is an error that a task met.
type LastError struct {
	// Code of the error, ERR_UPPER_SNAKE.
	Code ErrorCode `json:"code"`
	// Description for people: what went wrong, with which object, and what to do.
	Description string `json:"description"`
	// ObservedAt is when the error was last seen; for an error of an Etcd that lasts, when it was first seen.
	ObservedAt metav1.Time `json:"observedAt"`
}

// EtcdOperatorTask is one operation on an etcd cluster. The tasks of a cluster run one at a time, first in
// first out.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eot,categories=all
// +kubebuilder:selectablefield:JSONPath=`.spec.ownerEtcdReference.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.spec.ownerEtcdReference.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Held By",type=string,JSONPath=`.status.rollout.heldBy.guard`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`
type EtcdOperatorTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EtcdOperatorTaskSpec `json:"spec"`
	// +optional
	Status EtcdOperatorTaskStatus `json:"status,omitempty"`
}

// EtcdKey is the namespace and name of the Etcd that the task is for. A reference into another namespace
// is refused elsewhere; here it counts as one into the task's own.
func (t *EtcdOperatorTask) EtcdKey() types.NamespacedName {
	return types.NamespacedName{Namespace: t.Namespace, Name: t.Spec.OwnerEtcdReference.Name}
}

// EtcdOperatorTaskList is a list of tasks.
// +kubebuilder:object:root=true
type EtcdOperatorTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdOperatorTask `json:"items"`
}
