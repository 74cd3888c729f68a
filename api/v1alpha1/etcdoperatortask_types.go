// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TaskType is the kind of operation that a task carries out.
// +kubebuilder:validation:Enum=QuorumAwareRollout;RecreateRollout;OnDemandSnapshot;OnDemandCompaction;OnDemandMaintenance;CopyBackups;QuorumLossRecovery;Restore;MembershipChange
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
	Restore             TaskType = "Restore"
	MembershipChange    TaskType = "MembershipChange"
)

// Known reports whether this version of the operator has the type. One that is retired stays known: what is unknown counts as a newer
// operator's.
func (t TaskType) Known() bool {
	switch t {
	case QuorumAwareRollout, RecreateRollout, OnDemandSnapshot, OnDemandCompaction, OnDemandMaintenance, CopyBackups, QuorumLossRecovery, Restore, MembershipChange:
		return true
	}
	return false
}

// IsRollout reports whether tasks of the type bring the pods of a StatefulSet to a target revision.
func (t TaskType) IsRollout() bool { return t == QuorumAwareRollout || t == RecreateRollout }

// OfNewerOperator reports whether a newer operator has started the task: its type is not known here, and only the newer one knows what it has
// begun, and what it keeps.
func (t *EtcdOperatorTask) OfNewerOperator() bool {
	return !t.Spec.Type.Known() && (t.Status.State == TaskStateInProgress || t.Status.State.IsFinal() && t.Status.Config != "")
}

// StopsNothingYet reports whether the task is a recreation that has not begun to stop the pods. It waits until the newest spec is applied.
func (t *EtcdOperatorTask) StopsNothingYet() bool {
	return t.Spec.Type == RecreateRollout && (t.Status.Rollout == nil || t.Status.Rollout.Phase == "")
}

// TaskState is the state of a task (DEP-05). A task goes from Pending to InProgress, and then to Succeeded or Failed; or from
// Pending to Rejected. It also goes from InProgress to Rejected if its rollout is superseded, if its Etcd is gone, or if the operator's mode
// does not have its type.
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

// IsFinal reports whether a task in this state has ended.
func (s TaskState) IsFinal() bool {
	return s == TaskStateSucceeded || s == TaskStateFailed || s == TaskStateRejected
}

// OperationState is the state of one operation within a task.
// +kubebuilder:validation:Enum=InProgress;Completed;Failed
type OperationState string

// The states of an operation.
const (
	OperationStateInProgress OperationState = "InProgress"
	OperationStateCompleted  OperationState = "Completed"
	OperationStateFailed     OperationState = "Failed"
)

// DefaultTTLSecondsAfterFinished is the default of spec.ttlSecondsAfterFinished.
const DefaultTTLSecondsAfterFinished int32 = 3600

// EtcdReference names the Etcd that a task is for.
type EtcdReference struct {
	// name of the Etcd.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// namespace of the Etcd. Only the task's own namespace is allowed. Default: the task's namespace.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// EtcdOperatorTaskSpec describes an operation and the Etcd that it is for.
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: create another task"
// +kubebuilder:validation:XValidation:rule="has(self.config) == has(oldSelf.config) && (!has(self.config) || self.config == oldSelf.config)",message="config is immutable: create another task"
// +kubebuilder:validation:XValidation:rule="self.ownerEtcdReference == oldSelf.ownerEtcdReference",message="ownerEtcdReference is immutable: create another task"
type EtcdOperatorTaskSpec struct {
	// type is the kind of operation. It is immutable.
	Type TaskType `json:"type"`
	// config is the configuration of the type, in YAML or JSON, at most 64 KiB. Unknown fields are an error. It is immutable.
	// Default: the defaults of the type.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Config string `json:"config,omitempty"`
	// ttlSecondsAfterFinished is how long the task is kept after it has ended, in seconds.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// ownerEtcdReference names the Etcd, in the task's own namespace. It is immutable.
	OwnerEtcdReference EtcdReference `json:"ownerEtcdReference"`
	// suspend prevents a pending task from starting, and pauses a running task between two steps. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// overrideGuards names guards that do not block this task. Guards that protect the quorum cannot be overridden. Default:
	// none.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	OverrideGuards []OverridableGuard `json:"overrideGuards,omitempty"`
}

// EtcdOperatorTaskStatus is the observed state of a task. Only the operator writes it.
type EtcdOperatorTaskStatus struct {
	// observedGeneration is the generation of the spec that the status is based on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// state of the task.
	// +optional
	State TaskState `json:"state,omitempty"`
	// initiatedAt is when the task left state Pending.
	// +optional
	InitiatedAt *metav1.Time `json:"initiatedAt,omitempty"`
	// completedAt is when the task ended. ttlSecondsAfterFinished counts from then.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// progress in human-readable form, such as "2/3".
	// +optional
	Progress string `json:"progress,omitempty"`
	// config is spec.config as decoded when the task was admitted, with defaults, in JSON.
	// +optional
	Config string `json:"config,omitempty"`
	// change is what the task changes, by the fingerprint that EtcdFleetPolicies know it by; absent where none selects the namespace.
	// +optional
	Change string `json:"change,omitempty"`
	// arrivalResourceVersion is the resourceVersion of the task when the operator first saw it. It orders tasks that were
	// created in the same second.
	// +optional
	ArrivalResourceVersion string `json:"arrivalResourceVersion,omitempty"`
	// lastOperation is the newest step of the task. State InProgress means that the step is recorded as an intent and may have
	// been carried out.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// lastErrors are the newest errors, oldest first, at most 10.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// conditions of the task: Admitted, Progressing, Finished, Succeeded, EtcdReachable, Stalled, Reconciling.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// rollout is the progress of a QuorumAwareRollout or RecreateRollout.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// recovery is the progress of a QuorumLossRecovery, or of a Restore that replaces data.
	// +optional
	Recovery *RecoveryStatus `json:"recovery,omitempty"`
	// membership is the progress of a MembershipChange.
	// +optional
	Membership *MembershipStatus `json:"membership,omitempty"`
	// result of the task, as key-value pairs. The keys depend on the type.
	// +optional
	Result map[string]string `json:"result,omitempty"`
}

// Progressing returns the condition of that name; an empty one if there is none, as before the operator has seen the task.
func (s *EtcdOperatorTaskStatus) Progressing() metav1.Condition {
	return *cmp.Or(meta.FindStatusCondition(s.Conditions, ConditionProgressing), &metav1.Condition{})
}

// LastOperation is one step of a task.
type LastOperation struct {
	// name of the operation.
	Name string `json:"name"`
	// state of the operation.
	State OperationState `json:"state"`
	// lastTransitionTime is when state last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason is a human-readable sentence.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// LastError is an error of a task or an Etcd.
type LastError struct {
	// code of the error, such as ERR_NO_QUORUM.
	Code ErrorCode `json:"code"`
	// description is a human-readable explanation: what failed, for which object, and what to do.
	Description string `json:"description"`
	// observedAt is when the error was last observed. For an error of an Etcd, it is when it was first observed.
	ObservedAt metav1.Time `json:"observedAt"`
}

// EtcdOperatorTask is one operation on one Etcd. The tasks of an Etcd run one at a time, first in, first out.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=etcdtask,categories=all
// +kubebuilder:selectablefield:JSONPath=`.spec.ownerEtcdReference.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.spec.ownerEtcdReference.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Held By",type=string,JSONPath=`.status.*.heldBy.guard`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`
type EtcdOperatorTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EtcdOperatorTaskSpec `json:"spec"`
	// The default tells tools that the operator has not seen the task yet.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status EtcdOperatorTaskStatus `json:"status,omitempty"`
}

// EtcdKey returns the namespace and name of the Etcd that the task is for. It ignores the namespace of the reference: the
// task engine rejects a task that refers to another namespace than its own.
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
