// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MetricsLevel is how many metrics a member exposes.
// +kubebuilder:validation:Enum=basic;extensive
type MetricsLevel string

// The metrics levels.
const (
	MetricsBasic     MetricsLevel = "basic"
	MetricsExtensive MetricsLevel = "extensive"
)

// CompactionMode is how etcd's auto-compaction counts.
// +kubebuilder:validation:Enum=periodic;revision
type CompactionMode string

// The compaction modes.
const (
	CompactionPeriodic CompactionMode = "periodic"
	CompactionRevision CompactionMode = "revision"
)

// TrafficDistribution is how the Service for clients chooses among members.
// +kubebuilder:validation:Enum=PreferClose;PreferSameZone;PreferSameNode
type TrafficDistribution string

// ClientService is what a user adds to the Service for clients.
type ClientService struct {
	// Labels of the Service, besides the operator's own.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the Service.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// TrafficDistribution of the Service. Default: any member that is ready.
	// +optional
	TrafficDistribution *TrafficDistribution `json:"trafficDistribution,omitempty"`
}

// EtcdConfig is the configuration of the etcd container.
type EtcdConfig struct {
	// Image of etcd, as its authors publish it. Default: the operator's.
	// +optional
	Image *string `json:"image,omitempty"`
	// Resources of the etcd container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Quota of the database's size. Default 8Gi.
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`
	// SnapshotCount is the number of committed transactions that trigger a snapshot to disk.
	// +kubebuilder:validation:Minimum=1
	// +optional
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// Metrics level.
	// +optional
	Metrics *MetricsLevel `json:"metrics,omitempty"`
	// ClientPort. Default 2379.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ClientPort *int32 `json:"clientPort,omitempty"`
	// ServerPort is the peer port. Default 2380.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ServerPort *int32 `json:"serverPort,omitempty"`
	// WrapperPort is the port of metrics and readiness. Default 9095.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	WrapperPort *int32 `json:"wrapperPort,omitempty"`
	// ClientURLTLS is the TLS between clients and members. Once given it cannot be taken away.
	// +optional
	ClientURLTLS *ClientURLTLS `json:"clientUrlTls,omitempty"`
	// PeerURLTLS is the TLS among members. Once given it cannot be taken away.
	// +optional
	PeerURLTLS *PeerURLTLS `json:"peerUrlTls,omitempty"`
	// ClientService is what is added to the Service for clients.
	// +optional
	ClientService *ClientService `json:"clientService,omitempty"`
	// DefragmentationSchedule is when the members are defragmented, in the five fields of cron, in UTC. An Etcd begins
	// within ten minutes of such a time, always after the same while. Default: when somebody asks.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* +(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* +(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?)* +(\*|[0-6](-[0-6])?)(/[1-6])?(,(\*|[0-6](-[0-6])?)(/[1-6])?)*$`
	// +kubebuilder:validation:XValidation:rule="self.findAll('[0-9]+-[0-9]+').all(r, int(r.split('-')[0]) <= int(r.split('-')[1]))",message="a range like 2-5 begins with the lower number"
	// +optional
	DefragmentationSchedule *string `json:"defragmentationSchedule,omitempty"`
	// EtcdDefragTimeout is how long a member is waited for that is being defragmented, at least 1s. Default 20m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="etcdDefragTimeout is at least 1s"
	// +optional
	EtcdDefragTimeout *metav1.Duration `json:"etcdDefragTimeout,omitempty"`
	// HeartbeatDuration is how often a member's lease is renewed, at least 1s. Default 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="heartbeatDuration is at least 1s"
	// +optional
	HeartbeatDuration *metav1.Duration `json:"heartbeatDuration,omitempty"`
}

// SharedConfig holds what etcd and its backups have in common.
type SharedConfig struct {
	// AutoCompactionMode. Default periodic.
	// +optional
	AutoCompactionMode *CompactionMode `json:"autoCompactionMode,omitempty"`
	// AutoCompactionRetention, a duration for periodic and a number of revisions for revision. Default 30m.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
}

// SchedulingConstraints say where member pods may run.
type SchedulingConstraints struct {
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// +listType=atomic
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// EtcdSpec is the desired state of an etcd cluster. What cannot be changed is said by rules on the whole, which
// also hold when an optional field is added or left out later.
// +kubebuilder:validation:XValidation:rule="quantity(has(self.storageCapacity) ? string(self.storageCapacity) : '16Gi').compareTo(quantity(has(oldSelf.storageCapacity) ? string(oldSelf.storageCapacity) : '16Gi')) >= 0",message="storageCapacity cannot shrink"
// +kubebuilder:validation:XValidation:rule="has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",message="storageClass cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) == has(oldSelf.volumeClaimTemplate) && (!has(self.volumeClaimTemplate) || self.volumeClaimTemplate == oldSelf.volumeClaimTemplate)",message="volumeClaimTemplate cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.memberNamePrefix) == has(oldSelf.memberNamePrefix) && (!has(self.memberNamePrefix) || self.memberNamePrefix == oldSelf.memberNamePrefix)",message="memberNamePrefix cannot be changed: the members know each other by their names"
// +kubebuilder:validation:XValidation:rule="(has(self.etcd) && has(self.etcd.serverPort) ? self.etcd.serverPort : 2380) == (has(oldSelf.etcd) && has(oldSelf.etcd.serverPort) ? oldSelf.etcd.serverPort : 2380)",message="etcd.serverPort cannot be changed: the members know each other by it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.etcd) || !has(oldSelf.etcd.clientUrlTls) || (has(self.etcd) && has(self.etcd.clientUrlTls))",message="etcd.clientUrlTls cannot be removed: the members that still use it could not be reached"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.etcd) || !has(oldSelf.etcd.peerUrlTls) || (has(self.etcd) && has(self.etcd.peerUrlTls))",message="etcd.peerUrlTls cannot be removed: the members that still use it could not be reached"
type EtcdSpec struct {
	// Replicas is the number of members: 1, 3, 5, or 0 for a cluster that sleeps. It may grow: members are added one
	// by one.
	// +kubebuilder:validation:Enum=0;1;3;5
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf || self == 0",message="the number of members may grow, or become 0 for a cluster that sleeps; it cannot shrink otherwise"
	Replicas int32 `json:"replicas"`
	// Labels of the member pods, besides the operator's own.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the member pods, besides the operator's own.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Etcd is the configuration of the etcd container.
	// +optional
	Etcd EtcdConfig `json:"etcd,omitempty"`
	// Backup is the configuration of the snapshots. Without it the cluster has no backups.
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`
	// SharedConfig is what etcd and its backups have in common.
	// +optional
	SharedConfig *SharedConfig `json:"sharedConfig,omitempty"`
	// SchedulingConstraints say where member pods may run.
	// +optional
	SchedulingConstraints SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	// PriorityClassName of the member pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// StorageCapacity of a member's volume. Default 16Gi. It may grow where the StorageClass allows it.
	// +optional
	StorageCapacity *resource.Quantity `json:"storageCapacity,omitempty"`
	// StorageClass of a member's volume. Default: the cluster's.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClass *string `json:"storageClass,omitempty"`
	// VolumeClaimTemplate is the name of the volume claim template. Default: the Etcd's name.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	VolumeClaimTemplate *string `json:"volumeClaimTemplate,omitempty"`
	// MemberNamePrefix comes before the name of a pod, and a dash, in the name of its member and of the member's lease.
	// It tells the members of clusters apart that move from one Kubernetes to another. Default: none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	MemberNamePrefix *string `json:"memberNamePrefix,omitempty"`
	// PersistentVolumeClaimRetentionPolicy says when the members' volumes are deleted. Default: never.
	// +optional
	PersistentVolumeClaimRetentionPolicy *PersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
}

// CurrentRollout names the rollout that brings the pods to the newest template.
type CurrentRollout struct {
	// Task is the name of the EtcdOperatorTask; empty while it is not created yet.
	// +optional
	Task string `json:"task,omitempty"`
	// TargetRevision of the rollout.
	TargetRevision string `json:"targetRevision"`
}

// EtcdStatus is the observed state of an etcd cluster.
type EtcdStatus struct {
	// ObservedGeneration is the generation of the spec that was applied last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the cluster: Ready, AllMembersReady, AllMembersUpdated, DataVolumesReady, VolumesGrown, Scaled,
	// Hibernated, BackupReady, TLSReady.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ClusterID is etcd's cluster ID in hex, recorded once the cluster first served. From then on nothing
	// but a recovery may bootstrap it again, under another ID.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// ClusterSize is how many members the cluster has been seen to have: one more than the highest ordinal whose
	// member is a voter. A cluster that slept wakes up with so many.
	// +optional
	ClusterSize int32 `json:"clusterSize,omitempty"`
	// Members of the cluster.
	// +listType=map
	// +listMapKey=name
	// +optional
	Members []Member `json:"members,omitempty"`
	// Replicas of the StatefulSet.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// CurrentReplicas is the number of member pods.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas,omitempty"`
	// ReadyReplicas is the number of member pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// UpdatedReplicas is the number of member pods at the newest template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// Ready: all pods are at the newest template and ready.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// Rollout names the current rollout; absent when no pod is outdated.
	// +optional
	Rollout *CurrentRollout `json:"rollout,omitempty"`
	// Recovery tells the members that the cluster begins anew: after the loss of its quorum, or because it wakes up without
	// volumes.
	// +optional
	Recovery *ClusterRecovery `json:"recovery,omitempty"`
	// Hibernation is the sleep of a cluster without its volumes.
	// +optional
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// LastOperation tells how far the newest spec has been carried out: Pending while it is suspended.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// LastErrors of the reconciliation of the spec.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
}

// Etcd is an etcd cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=all
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Quorate",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="All Members Ready",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersReady")].status`
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersUpdated")].status`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.task`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of an Etcd is made of lower-case letters, digits and dashes, and begins with a letter: names of Services are made from it"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 45",message="the name of an Etcd may have at most 45 characters: names of its pods, Services and tasks are made from it"
type Etcd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EtcdSpec `json:"spec"`
	// +optional
	Status EtcdStatus `json:"status,omitempty"`
}

// EtcdList is a list of Etcds.
// +kubebuilder:object:root=true
type EtcdList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Etcd `json:"items"`
}

// SpecSuspended reports whether the spec is not to be reconciled for now.
func (e *Etcd) SpecSuspended() bool {
	_, suspended := e.Annotations[AnnotationSuspendSpecReconcile]
	return suspended
}
