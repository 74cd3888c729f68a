// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GarbageCollectionPolicy determines which full snapshots are kept.
// +kubebuilder:validation:Enum=Exponential;LimitBased
type GarbageCollectionPolicy string

// The garbage collection policies.
const (
	// GarbageCollectionExponential keeps all full snapshots of the current hour, and the newest one of each of the last
	// 24 hours, 7 days and 4 weeks.
	GarbageCollectionExponential GarbageCollectionPolicy = "Exponential"
	// GarbageCollectionLimitBased keeps a fixed number of full snapshots.
	GarbageCollectionLimitBased GarbageCollectionPolicy = "LimitBased"
)

// CompressionPolicy is the format in which snapshots are compressed.
// +kubebuilder:validation:Enum=gzip;lzw;zlib
type CompressionPolicy string

// The compression policies.
const (
	CompressionGzip CompressionPolicy = "gzip"
	CompressionLZW  CompressionPolicy = "lzw"
	CompressionZlib CompressionPolicy = "zlib"
)

// CompressionSpec is the configuration of the compression of snapshots.
type CompressionSpec struct {
	// enabled determines whether snapshots are compressed. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// policy is the format: gzip, lzw or zlib. Default: gzip.
	// +optional
	Policy *CompressionPolicy `json:"policy,omitempty"`
}

// Defaults of SnapshotCompactionSpec. They are the same as in etcd-druid.
const (
	DefaultEventsThreshold              int64 = 1_000_000
	DefaultTriggerFullSnapshotThreshold int64 = 3_000_000
)

// SnapshotCompactionSpec determines when the operator compacts snapshots, so that a restore has fewer events to apply. Events
// are those in the delta snapshots since the newest full snapshot, counted in revisions.
type SnapshotCompactionSpec struct {
	// resources of every Job that compacts snapshots of this Etcd, including on-demand compactions. Each value overrides
	// a default: requests of 50m CPU, 128Mi memory and no ephemeral storage; limits of memory (2Gi more than spec.etcd.quota,
	// or the memory limit of the etcd container if that is more) and of ephemeral storage (the working directory and 1Gi).
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// eventsThreshold is the number of events at which snapshots are compacted. Default: that of the operator's
	// configuration, 1000000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	EventsThreshold *int64 `json:"eventsThreshold,omitempty"`
	// triggerFullSnapshotThreshold is the number of events at which a full snapshot is taken instead of compacting. Default: that of
	// the operator's configuration, 3000000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TriggerFullSnapshotThreshold *int64 `json:"triggerFullSnapshotThreshold,omitempty"`
}

// SigningSpec makes the agents sign snapshots, and use only signed ones.
type SigningSpec struct {
	// secretRef names a Secret with the keys: signing.key is the private Ed25519 key that signs, in PEM (PKCS #8); all other keys
	// whose names end with .pub are public Ed25519 keys that are trusted as well, in PEM. A change of the Secret takes effect
	// without new pods.
	SecretRef SecretReference `json:"secretRef"`
	// acceptUnsignedUntil lets a restore use snapshots without a signature that were taken until this time, by their names.
	// Dangerous: everybody who can write to the bucket then decides what is restored. Remove it after the restore. Default: none.
	// +optional
	AcceptUnsignedUntil *metav1.Time `json:"acceptUnsignedUntil,omitempty"`
	// acceptRevision lets a restore end at exactly this revision, although a later snapshot is recorded. Dangerous: what was
	// written since is lost. Remove it after the restore. Default: none.
	// +kubebuilder:validation:Minimum=1
	// +optional
	AcceptRevision *int64 `json:"acceptRevision,omitempty"`
}

// Recipient is a public key of age: the recipient of an X25519 identity, as age-keygen prints it.
// +kubebuilder:validation:MaxLength=62
// +kubebuilder:validation:Pattern=`^age1[02-9ac-hj-np-z]{58}$`
type Recipient string

// EncryptionSpec makes the agents encrypt snapshots, so that the store cannot read them.
// +kubebuilder:validation:MinProperties=1
type EncryptionSpec struct {
	// recipients are the public keys of age that snapshots are encrypted for. Each of their identities alone decrypts them. What was
	// encrypted before a recipient is added or removed stays as it is. Default: none; new snapshots are not encrypted, and encrypted ones
	// are still read.
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +optional
	Recipients []Recipient `json:"recipients,omitempty"`
	// identitySecretRef names a Secret with identities of age, each key of it as age-keygen writes them. Only the agents of members and of
	// Jobs that restore mount it. A change of the Secret takes effect without new pods, and members start without it. Default: none;
	// only people can restore what is encrypted.
	// +optional
	IdentitySecretRef *SecretReference `json:"identitySecretRef,omitempty"`
	// acceptPlainUntil lets restores and their previews use snapshots that are not encrypted, although there are recipients, if they were
	// taken until this time, by their names. Dangerous: everybody who can write to the bucket then decides what is restored. It has no
	// effect where snapshots are signed: signed ones need not be encrypted. Remove it after the restore. Default: none.
	// +optional
	AcceptPlainUntil *metav1.Time `json:"acceptPlainUntil,omitempty"`
}

// BackupSpec is the configuration of the agent (container backup-restore) and of the snapshots that it takes.
// +kubebuilder:validation:XValidation:rule="!has(self.enableProfiling) || !self.enableProfiling",message="enableProfiling is not supported: the agent serves no profiles"
type BackupSpec struct {
	// image of the agent, in each of its containers. Default: images.etcdAgent of the operator's configuration.
	// +optional
	Image *string `json:"image,omitempty"`
	// port of the agent's HTTP API. Default: 8080.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
	// tls enables TLS for the agent's HTTP API. Default: plain HTTP.
	// +optional
	TLS *BackupTLS `json:"tls,omitempty"`
	// resources of the backup-restore container. Default: requests of 10m CPU and 64Mi memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// store is where snapshots are kept. Default: none; no snapshots are taken.
	// +kubebuilder:validation:XValidation:rule="!has(self.prefix) || !self.prefix.startsWith('/')",message="prefix must not begin with a slash"
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// signing makes the agents sign snapshots, and use only signed ones. Default: snapshots are not signed, and signatures are
	// ignored.
	// +optional
	Signing *SigningSpec `json:"signing,omitempty"`
	// encryption makes the agents encrypt snapshots, so that the store cannot read them. Default: snapshots are not encrypted.
	// +optional
	Encryption *EncryptionSpec `json:"encryption,omitempty"`
	// fullSnapshotSchedule is when full snapshots are taken: a cron expression with five fields, in UTC. Default: once a day,
	// at a time that differs between Etcds.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)*\s+(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)*\s+(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)*\s+(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?)*\s+(\*|[0-7](-[0-7])?)(/[1-7])?(,(\*|[0-7](-[0-7])?)(/[1-7])?)*$`
	// +kubebuilder:validation:XValidation:rule="self.findAll('[0-9]+-[0-9]+').all(r, int(r.split('-')[0]) <= int(r.split('-')[1]))",message="a range like 2-5 begins with the lower number"
	// +optional
	FullSnapshotSchedule *string `json:"fullSnapshotSchedule,omitempty"`
	// deltaSnapshotPeriod is the time between two delta snapshots, at least 1s. 0s disables periodic delta snapshots; they are
	// then taken only at deltaSnapshotMemoryLimit and on demand. Default: 5m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s')",message="deltaSnapshotPeriod must be at least 1s, or 0s to disable periodic delta snapshots"
	// +optional
	DeltaSnapshotPeriod *metav1.Duration `json:"deltaSnapshotPeriod,omitempty"`
	// deltaSnapshotMemoryLimit is the size of the collected events at which a delta snapshot is taken before
	// deltaSnapshotPeriod is over. Default: 10Mi.
	// +optional
	DeltaSnapshotMemoryLimit *resource.Quantity `json:"deltaSnapshotMemoryLimit,omitempty"`
	// deltaSnapshotRetentionPeriod is how long delta snapshots are kept that follow neither of the newest two full snapshots.
	// Default: 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +optional
	DeltaSnapshotRetentionPeriod *metav1.Duration `json:"deltaSnapshotRetentionPeriod,omitempty"`
	// garbageCollectionPolicy determines which full snapshots are kept: Exponential or LimitBased. Default: LimitBased if
	// maxBackupsLimitBasedGC is set, otherwise Exponential.
	// +optional
	GarbageCollectionPolicy *GarbageCollectionPolicy `json:"garbageCollectionPolicy,omitempty"`
	// garbageCollectionPeriod is the time between two garbage collections, at least 1s. 0s disables garbage collection.
	// Default: 1h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s')",message="garbageCollectionPeriod must be at least 1s, or 0s to disable garbage collection"
	// +optional
	GarbageCollectionPeriod *metav1.Duration `json:"garbageCollectionPeriod,omitempty"`
	// maxBackupsLimitBasedGC is the number of full snapshots that garbageCollectionPolicy LimitBased keeps. It has no effect
	// with policy Exponential. Default: 7.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxBackupsLimitBasedGC *int32 `json:"maxBackupsLimitBasedGC,omitempty"`
	// compression of snapshots. Default: gzip.
	// +optional
	SnapshotCompression *CompressionSpec `json:"compression,omitempty"`
	// etcdSnapshotTimeout is how long one snapshot, full or delta, may take, at least 1s. Default: 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="etcdSnapshotTimeout must be at least 1s"
	// +optional
	EtcdSnapshotTimeout *metav1.Duration `json:"etcdSnapshotTimeout,omitempty"`
	// leaderElection has no effect: the agent of etcd's leader takes the snapshots.
	// +optional
	LeaderElection *LeaderElectionSpec `json:"leaderElection,omitempty"`
	// enableProfiling must not be true; the agent serves no profiles.
	// +optional
	EnableProfiling *bool `json:"enableProfiling,omitempty"`
	// snapshotCompaction lets the operator compact snapshots automatically. Default: snapshots are compacted only on demand.
	// +optional
	SnapshotCompaction *SnapshotCompactionSpec `json:"snapshotCompaction,omitempty"`
}
