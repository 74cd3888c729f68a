// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FleetWindowEnd is what happens to tasks that run when a window closes.
// +kubebuilder:validation:Enum=Finish;Pause
type FleetWindowEnd string

// What happens when a window closes.
const (
	// FleetFinish: they finish.
	FleetFinish FleetWindowEnd = "Finish"
	// FleetPause: rollouts and recreations pause between two steps, as soon as their cluster is whole, and keep their slot. Maintenance
	// finishes.
	FleetPause FleetWindowEnd = "Pause"
)

// FleetWindow is a span of time that begins by a schedule.
type FleetWindow struct {
	// schedule is when the window opens, in the five fields of cron. A start that the change to summer time skips takes place
	// after the gap; one that comes twice takes place once.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[^ =]+( [^ =]+){4}$`
	Schedule string `json:"schedule"`
	// duration is how long the window is open: elapsed time, at most 168h.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be between 1m and 168h"
	Duration metav1.Duration `json:"duration"`
	// timeZone is the IANA name of the time zone of the schedule, such as Europe/Berlin. Default: UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="timeZone must be the IANA name of a time zone"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// FleetCanary is how a change begins.
type FleetCanary struct {
	// count is in how many clusters a change has to succeed before it starts in others. 0: there are no canaries. Default: 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Count *int32 `json:"count,omitempty"`
	// selector selects, by labels of Etcds, those that are to be canaries. If none of them asks for the change within a minute, others
	// begin. Default: any.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// soak is how long a canary is watched after its task has succeeded. It keeps its slot. Default: soak of the policy.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="soak must be between 0s and 168h"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// EtcdFleetPolicySpec says in how many clusters, in which order and when tasks start.
type EtcdFleetPolicySpec struct {
	// namespaceSelector selects namespaces, whose Etcds the policy is for; {} selects all. The labels of an Etcd do not count: its
	// tenant could leave the policy. Of several policies that select a namespace, all apply.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// maxConcurrent is in how many clusters tasks run at a time: a number, or a percentage of the selected Etcds, rounded down and at
	// least 1. 0 pauses. Default: 10%.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 0 && int(self) <= 100000 : string(self).matches('^([0-9]|[1-9][0-9]|100)%$')",message="maxConcurrent must be a number of at least 0, or a percentage from 0% to 100%"
	// +optional
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// maxPerNamespace is in how many clusters of one namespace tasks run at a time: a number, or a percentage of the slots, rounded up.
	// A tenant who may suspend tasks there, or break clusters, keeps no more slots than that. Default: as many as there are.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 1 && int(self) <= 100000 : string(self).matches('^([1-9]|[1-9][0-9]|100)%$')",message="maxPerNamespace must be a number of at least 1, or a percentage from 1% to 100%"
	// +optional
	MaxPerNamespace *intstr.IntOrString `json:"maxPerNamespace,omitempty"`
	// maxFailures is in how many clusters a change may fail. After more, it is paused in all clusters of the policy. Default: 0.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxFailures int32 `json:"maxFailures,omitempty"`
	// soak is how long a cluster is watched after its task has succeeded, before the change counts as done. Default: 5m.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="soak must be between 0s and 168h"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
	// canary is how a change begins. Default: with one cluster.
	// +kubebuilder:default={}
	// +optional
	Canary FleetCanary `json:"canary,omitempty"`
	// windows are when tasks start. Default: always.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Windows []FleetWindow `json:"windows,omitempty"`
	// except is when no task starts, whatever windows says.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Except []FleetWindow `json:"except,omitempty"`
	// atEnd is what happens to tasks that run when the last window closes: Finish, or Pause between two steps until the next one
	// opens, as soon as their cluster is whole. Default: Finish.
	// +kubebuilder:default=Finish
	// +optional
	AtEnd FleetWindowEnd `json:"atEnd,omitempty"`
	// orderBy is the key of a label of namespaces. The Etcds of those with a smaller number start first, then of those with a name, then
	// of those without the label. Within a namespace, the same label of the Etcds orders them: who may write Etcds there orders only these.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	// +optional
	OrderBy string `json:"orderBy,omitempty"`
	// paused prevents tasks from starting. Those that run finish. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// EtcdFleetPolicyStatus is the observed state of a policy. Only the operator writes it.
type EtcdFleetPolicyStatus struct {
	// observedGeneration is the newest generation by which slots are granted. None is granted by an older one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// clusters is the number of Etcds that the policy selects.
	// +optional
	Clusters int32 `json:"clusters"`
	// limit is the number of slots.
	// +optional
	Limit int32 `json:"limit"`
	// used is the number of slots in use, including those of clusters that lack a member.
	// +optional
	Used int32 `json:"used"`
	// waiting is the number of tasks that wait.
	// +optional
	Waiting int32 `json:"waiting"`
	// nextWindow is when the next window opens; absent while one is open, and without windows.
	// +optional
	NextWindow *metav1.Time `json:"nextWindow,omitempty"`
	// holders are the clusters with a slot and those that are watched, at most 100.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Holders []FleetHolder `json:"holders,omitempty"`
	// changes are at most 20: first those that are paused while tasks ask for them, then those that tasks ask for or run with, then others
	// that are paused; each the newest first.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Changes []FleetChange `json:"changes,omitempty"`
	// conditions of the policy: Paused, absent while nothing is paused.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FleetHolder is a cluster whose task runs, or that is watched after it.
type FleetHolder struct {
	// namespace of the Etcd.
	Namespace string `json:"namespace"`
	// etcd is its name.
	Etcd string `json:"etcd"`
	// task that runs, or has run.
	Task string `json:"task"`
	// change that the task brings; absent if it brings none.
	// +optional
	Change string `json:"change,omitempty"`
	// canary: it is one of the first with the change.
	// +optional
	Canary bool `json:"canary,omitempty"`
	// since is when it got the slot.
	Since metav1.Time `json:"since"`
	// watchedSince is when its task had succeeded.
	// +optional
	WatchedSince *metav1.Time `json:"watchedSince,omitempty"`
}

// FleetChange is a change, and what has become of it in the clusters of the policy.
type FleetChange struct {
	// change is the fingerprint of what changes; it is the same in all clusters.
	Change string `json:"change"`
	// since is when it began.
	Since metav1.Time `json:"since"`
	// running is the number of clusters whose task runs.
	Running int32 `json:"running"`
	// watched is the number of clusters that are watched after their task.
	Watched int32 `json:"watched"`
	// waiting is the number of tasks that wait.
	Waiting int32 `json:"waiting"`
	// done is the number of clusters in which it succeeded.
	Done int32 `json:"done"`
	// failed is the number of clusters in which it failed since it was last resumed.
	Failed int32 `json:"failed"`
	// paused says in which clusters it failed, or another change to the same template, why, and how that is resumed; absent unless it is paused.
	// +optional
	Paused string `json:"paused,omitempty"`
	// resumeToken is the value of the annotation druid.gardener.cloud/resume-change that resumes it; absent unless it has failed, and is paused.
	// +optional
	ResumeToken string `json:"resumeToken,omitempty"`
	// failures are the clusters in which it failed, at most 10.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Failures []FleetFailure `json:"failures,omitempty"`
}

// FleetFailure is a cluster in which a change failed.
type FleetFailure struct {
	// namespace of the Etcd.
	Namespace string `json:"namespace"`
	// etcd is its name, and uid its UID.
	Etcd string    `json:"etcd"`
	UID  types.UID `json:"uid"`
	// target is the fingerprint of the template that it failed with; absent for a restart.
	// +optional
	Target string `json:"target,omitempty"`
	// reason why it failed.
	Reason string `json:"reason"`
	// at is when.
	At metav1.Time `json:"at"`
}

// EtcdFleetPolicy limits in how many clusters tasks run at a time, and stops a change that fails.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=etcdfleet
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.status.limit`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdFleetPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EtcdFleetPolicySpec `json:"spec"`
	// +optional
	Status EtcdFleetPolicyStatus `json:"status,omitempty"`
}

// EtcdFleetPolicyList is a list of policies.
// +kubebuilder:object:root=true
type EtcdFleetPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdFleetPolicy `json:"items"`
}
