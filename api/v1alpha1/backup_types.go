// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GarbageCollectionPolicy says which snapshots are kept.
// +kubebuilder:validation:Enum=Exponential;LimitBased
type GarbageCollectionPolicy string

// The garbage collection policies.
const (
	// GarbageCollectionExponential keeps the newest full snapshot of each of the last 24 hours, 7 days and
	// 4 weeks, and all of the current hour.
	GarbageCollectionExponential GarbageCollectionPolicy = "Exponential"
	// GarbageCollectionLimitBased keeps a number of full snapshots.
	GarbageCollectionLimitBased GarbageCollectionPolicy = "LimitBased"
)

// CompressionPolicy is how snapshots are compressed.
// +kubebuilder:validation:Enum=gzip;lzw;zlib
type CompressionPolicy string

// The compression policies.
const (
	CompressionGzip CompressionPolicy = "gzip"
	CompressionLZW  CompressionPolicy = "lzw"
	CompressionZlib CompressionPolicy = "zlib"
)

// CompressionSpec says whether and how snapshots are compressed.
type CompressionSpec struct {
	// Enabled, by default true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// Policy, by default gzip.
	// +optional
	Policy *CompressionPolicy `json:"policy,omitempty"`
}

// Defaults of SnapshotCompactionSpec, which are those of Gardener's etcd-druid.
const (
	DefaultEventsThreshold              int64 = 1_000_000
	DefaultTriggerFullSnapshotThreshold int64 = 3_000_000
)

// SnapshotCompactionSpec says when the operator shortens by itself what a restore would have to go through: the delta
// snapshots since the newest full one. Events are counted by revisions.
type SnapshotCompactionSpec struct {
	// Resources of the Jobs that compact the snapshots of this Etcd, including those of OnDemandCompaction tasks. Each
	// value overrides a default: requests of 50m CPU, 128Mi memory and 100Mi ephemeral storage; limits of memory (2Gi more
	// than spec.etcd.quota, or the memory limit of the etcd container if that is more) and ephemeral storage (the working
	// folder and 1Gi).
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// EventsThreshold is how many events the deltas hold when they are compacted. Default 1000000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	EventsThreshold *int64 `json:"eventsThreshold,omitempty"`
	// TriggerFullSnapshotThreshold is how many events the deltas hold when they are no longer compacted, but a full
	// snapshot is taken instead. Default 3000000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TriggerFullSnapshotThreshold *int64 `json:"triggerFullSnapshotThreshold,omitempty"`
}

// BackupSpec is the configuration of the backup-restore container and of the snapshots that it takes.
// +kubebuilder:validation:XValidation:rule="!has(self.maxBackupsLimitBasedGC) || (has(self.garbageCollectionPolicy) && self.garbageCollectionPolicy == 'LimitBased')",message="maxBackupsLimitBasedGC belongs to garbageCollectionPolicy LimitBased"
type BackupSpec struct {
	// Image of the agent. Default: the operator's.
	// +optional
	Image *string `json:"image,omitempty"`
	// Port of the agent's HTTP API. Default 8080.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
	// TLS of the agent's HTTP API, which is then https. Default: plain HTTP.
	// +optional
	TLS *BackupTLS `json:"tls,omitempty"`
	// Resources of the backup-restore container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Store is where snapshots are kept. Without one none are taken.
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// FullSnapshotSchedule is when full snapshots are taken, in the five fields of cron, in UTC. Default: once
	// a day, at a time that differs from one Etcd to another.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* +(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* +(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* +(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?)* +(\*|[0-6](-[0-6])?)(/[1-6])?(,(\*|[0-6](-[0-6])?)(/[1-6])?)*$`
	// +kubebuilder:validation:XValidation:rule="self.findAll('[0-9]+-[0-9]+').all(r, int(r.split('-')[0]) <= int(r.split('-')[1]))",message="a range like 2-5 begins with the lower number"
	// +optional
	FullSnapshotSchedule *string `json:"fullSnapshotSchedule,omitempty"`
	// DeltaSnapshotPeriod is the time between two delta snapshots, at least 1s. With 0s a delta is taken only when
	// the memory limit is reached, or somebody asks for it. Default 5m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s')",message="deltaSnapshotPeriod is 0s, for deltas by size alone, or at least 1s"
	// +optional
	DeltaSnapshotPeriod *metav1.Duration `json:"deltaSnapshotPeriod,omitempty"`
	// DeltaSnapshotMemoryLimit is the size of the collected events at which a delta snapshot is taken before its
	// time. Default 10Mi.
	// +optional
	DeltaSnapshotMemoryLimit *resource.Quantity `json:"deltaSnapshotMemoryLimit,omitempty"`
	// DeltaSnapshotRetentionPeriod is how long delta snapshots are kept besides those that the newest two full
	// snapshots need. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	DeltaSnapshotRetentionPeriod *metav1.Duration `json:"deltaSnapshotRetentionPeriod,omitempty"`
	// GarbageCollectionPolicy says which full snapshots are kept. Default Exponential.
	// +optional
	GarbageCollectionPolicy *GarbageCollectionPolicy `json:"garbageCollectionPolicy,omitempty"`
	// GarbageCollectionPeriod is the time between two garbage collections, at least 1s; 0s switches them off.
	// Default 1h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s')",message="garbageCollectionPeriod is 0s, for never, or at least 1s"
	// +optional
	GarbageCollectionPeriod *metav1.Duration `json:"garbageCollectionPeriod,omitempty"`
	// MaxBackupsLimitBasedGC is the number of full snapshots that policy LimitBased keeps. Default 7.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxBackupsLimitBasedGC *int32 `json:"maxBackupsLimitBasedGC,omitempty"`
	// SnapshotCompression says whether and how snapshots are compressed. Default: with gzip.
	// +optional
	SnapshotCompression *CompressionSpec `json:"compression,omitempty"`
	// EtcdSnapshotTimeout is how long a full snapshot may take. Default 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="etcdSnapshotTimeout is at least 1s"
	// +optional
	EtcdSnapshotTimeout *metav1.Duration `json:"etcdSnapshotTimeout,omitempty"`
	// SnapshotCompaction has the operator compact snapshots by itself. Default: they are compacted when somebody asks.
	// +optional
	SnapshotCompaction *SnapshotCompactionSpec `json:"snapshotCompaction,omitempty"`
}
