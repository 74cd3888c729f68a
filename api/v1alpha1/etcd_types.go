// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MetricsLevel is the amount of metrics that a member exposes.
// +kubebuilder:validation:Enum=basic;extensive
type MetricsLevel string

// The metrics levels.
const (
	MetricsBasic     MetricsLevel = "basic"
	MetricsExtensive MetricsLevel = "extensive"
)

// CompactionMode is the unit in which etcd's auto-compaction counts: time or revisions.
// +kubebuilder:validation:Enum=periodic;revision
type CompactionMode string

// The compaction modes.
const (
	CompactionPeriodic CompactionMode = "periodic"
	CompactionRevision CompactionMode = "revision"
)

// TrafficDistribution is how the client Service chooses among members.
// +kubebuilder:validation:Enum=PreferClose;PreferSameZone;PreferSameNode
type TrafficDistribution string

// ClientService holds what a user adds to the client Service.
type ClientService struct {
	// labels are added to the Service. The operator's own labels take precedence.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are added to the Service.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// trafficDistribution of the Service. PreferSameZone and PreferSameNode require Kubernetes 1.34 or newer. Default:
	// unset, so that traffic goes to any ready member.
	// +optional
	TrafficDistribution *TrafficDistribution `json:"trafficDistribution,omitempty"`
}

// FreelistType is how the database keeps its free pages.
// +kubebuilder:validation:Enum=array;map
type FreelistType string

// EtcdConfig is the configuration of the etcd container.
// +kubebuilder:validation:XValidation:rule="!has(self.additionalAdvertisePeerURLs) || size(self.additionalAdvertisePeerURLs) == 0 || !has(self.additionalAdvertisedURLs) || !has(self.additionalAdvertisedURLs.peerURLs)",message="additionalAdvertisePeerURLs and additionalAdvertisedURLs.peerURLs mean the same: set one of them"
type EtcdConfig struct {
	// image is an unmodified etcd image of version 3.5.11, 3.6.0 or newer. Default: images.etcd of the operator's
	// configuration.
	// +optional
	Image *string `json:"image,omitempty"`
	// resources of the etcd container. Default: requests of 500m CPU and 1Gi memory, no limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// quota is the maximum size of the database. Default: 8Gi.
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`
	// snapshotCount is the number of committed transactions that trigger an etcd snapshot to disk. Default: 10000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// metrics is the amount of metrics that a member exposes: basic or extensive. Default: basic.
	// +optional
	Metrics *MetricsLevel `json:"metrics,omitempty"`
	// clientPort is the port that members serve clients on. Default: 2379.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ClientPort *int32 `json:"clientPort,omitempty"`
	// serverPort is the port that members serve peers on. It cannot be changed. Default: 2380.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ServerPort *int32 `json:"serverPort,omitempty"`
	// wrapperPort is the port for metrics and readiness probes, without TLS. Default: 9095.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	WrapperPort *int32 `json:"wrapperPort,omitempty"`
	// clientUrlTls enables TLS between clients and members. It can be set at any time, but not removed. Default: plaintext.
	// +optional
	ClientURLTLS *ClientURLTLS `json:"clientUrlTls,omitempty"`
	// peerUrlTls enables TLS between peers. It can be set at any time, but not removed. Default: plaintext.
	// +optional
	PeerURLTLS *PeerURLTLS `json:"peerUrlTls,omitempty"`
	// clientService holds additions to the client Service.
	// +optional
	ClientService *ClientService `json:"clientService,omitempty"`
	// defragmentationSchedule is when the operator defragments the members: a cron expression with five fields, in UTC. Each
	// Etcd starts at a fixed offset of up to ten minutes after a scheduled time. Default: none; members are defragmented only
	// on demand.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)*\s+(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,(\*|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)*\s+(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)*\s+(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?(,(\*|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?)*\s+(\*|[0-7](-[0-7])?)(/[1-7])?(,(\*|[0-7](-[0-7])?)(/[1-7])?)*$`
	// +kubebuilder:validation:XValidation:rule="self.findAll('[0-9]+-[0-9]+').all(r, int(r.split('-')[0]) <= int(r.split('-')[1]))",message="a range like 2-5 begins with the lower number"
	// +optional
	DefragmentationSchedule *string `json:"defragmentationSchedule,omitempty"`
	// backendBboltFreelistType is how the database keeps its free pages: array or map. Default: that of etcd, which is map.
	// +optional
	BackendBboltFreelistType *FreelistType `json:"backendBboltFreelistType,omitempty"`
	// enableGRPCGateway enables etcd's HTTP/JSON gateway. Default: that of etcd, which is true.
	// +optional
	EnableGRPCGateway *bool `json:"enableGRPCGateway,omitempty"`
	// authSecretRef has no effect.
	// +optional
	AuthSecretRef *OptionalSecretReference `json:"authSecretRef,omitempty"`
	// additionalAdvertisePeerURLs are further peer URLs of members, under which members in other networks reach them. They are added
	// to the list of members; no pod is replaced. It is an older form of additionalAdvertisedURLs.peerURLs; only one of the two may
	// be set. Default: none.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	AdditionalAdvertisePeerURLs []MemberPeerURLs `json:"additionalAdvertisePeerURLs,omitempty"`
	// additionalAdvertisedURLs are further URLs that members advertise, to peers and to clients in other networks. Default: none.
	// +optional
	AdditionalAdvertisedURLs *AdditionalAdvertisedURLs `json:"additionalAdvertisedURLs,omitempty"`
	// bootstrapWithExistingCluster names a running cluster that the members join, one at a time, in place of beginning one. It can only
	// be set when the Etcd is created. While it is set, the source cluster leads and has the quorum. To remove it is to cut over: the
	// members of the source leave, one at a time. To give up before that, set replicas to 0. Default: the members begin a cluster.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingCluster `json:"bootstrapWithExistingCluster,omitempty"`
	// etcdDefragTimeout is how long the operator waits for the defragmentation of one member, at least 1s. Default: 20m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="etcdDefragTimeout must be at least 1s"
	// +optional
	EtcdDefragTimeout *metav1.Duration `json:"etcdDefragTimeout,omitempty"`
	// heartbeatDuration is the interval at which a member's Lease is renewed, at least 1s. Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="heartbeatDuration must be at least 1s"
	// +optional
	HeartbeatDuration *metav1.Duration `json:"heartbeatDuration,omitempty"`
}

// SharedConfig is the configuration of auto-compaction.
type SharedConfig struct {
	// autoCompactionMode is periodic or revision. Default: periodic.
	// +optional
	AutoCompactionMode *CompactionMode `json:"autoCompactionMode,omitempty"`
	// autoCompactionRetention is how much history is kept: a duration in mode periodic, a number of revisions in mode revision.
	// Default: 30m.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
}

// SchedulingConstraints restrict where member pods may run.
type SchedulingConstraints struct {
	// affinity of the member pods. Default: pods prefer nodes without another member, unless topologySpreadConstraints is set.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// topologySpreadConstraints of the member pods. Default: none.
	// +listType=atomic
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// EtcdSpec is the desired state of an etcd cluster.
// +kubebuilder:validation:XValidation:rule="!has(self.externallyManagedMemberAddresses) || size(self.externallyManagedMemberAddresses) == 0",message="externallyManagedMemberAddresses is not supported: the operator runs every member"
// +kubebuilder:validation:XValidation:rule="!has(self.runAsRoot) || !self.runAsRoot",message="runAsRoot is not supported: members run as user 65532"
// +kubebuilder:validation:XValidation:rule="quantity(has(self.storageCapacity) ? string(self.storageCapacity) : '16Gi').compareTo(quantity(has(oldSelf.storageCapacity) ? string(oldSelf.storageCapacity) : '16Gi')) >= 0",message="storageCapacity cannot shrink"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storageClass) || size(oldSelf.storageClass) == 0 || has(self.storageClass) && size(self.storageClass) > 0",message="storageClass cannot be removed: name the StorageClass that the volumes are to have"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) == has(oldSelf.volumeClaimTemplate) && (!has(self.volumeClaimTemplate) || self.volumeClaimTemplate == oldSelf.volumeClaimTemplate)",message="volumeClaimTemplate cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.memberNamePrefix) == has(oldSelf.memberNamePrefix) && (!has(self.memberNamePrefix) || self.memberNamePrefix == oldSelf.memberNamePrefix)",message="memberNamePrefix cannot be changed: the members know each other by their names"
// +kubebuilder:validation:XValidation:rule="(has(self.etcd) && has(self.etcd.serverPort) ? self.etcd.serverPort : 2380) == (has(oldSelf.etcd) && has(oldSelf.etcd.serverPort) ? oldSelf.etcd.serverPort : 2380)",message="etcd.serverPort cannot be changed: the members know each other by it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.etcd) || !has(oldSelf.etcd.clientUrlTls) || (has(self.etcd) && has(self.etcd.clientUrlTls))",message="etcd.clientUrlTls cannot be removed: the members that still use it could not be reached"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.etcd) || !has(oldSelf.etcd.peerUrlTls) || (has(self.etcd) && has(self.etcd.peerUrlTls))",message="etcd.peerUrlTls cannot be removed: the members that still use it could not be reached"
// +kubebuilder:validation:XValidation:rule="!has(self.managedTLS) || !('Clients' in self.managedTLS.connections) || !has(self.etcd) || !has(self.etcd.clientUrlTls)",message="etcd.clientUrlTls names Secrets for the connections of clients: set managedTLS.connections without Clients, or remove etcd.clientUrlTls"
// +kubebuilder:validation:XValidation:rule="!has(self.managedTLS) || !('Peers' in self.managedTLS.connections) || !has(self.etcd) || !has(self.etcd.peerUrlTls)",message="etcd.peerUrlTls names Secrets for the connections of peers: set managedTLS.connections without Peers, or remove etcd.peerUrlTls"
// +kubebuilder:validation:XValidation:rule="!has(self.managedTLS) || !('Agents' in self.managedTLS.connections) || !has(self.backup) || !has(self.backup.tls)",message="backup.tls names Secrets for the connections to agents: set managedTLS.connections without Agents, or remove backup.tls"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.managedTLS) || oldSelf.managedTLS.connections.all(c, c == 'Agents' || has(self.managedTLS) && c in self.managedTLS.connections)",message="managedTLS cannot be removed from Clients or Peers: the members that still use it could not be reached"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.additionalAdvertisePeerURLs)) || !(has(self.etcd.peerUrlTls) || has(self.managedTLS) && 'Peers' in self.managedTLS.connections) || self.etcd.additionalAdvertisePeerURLs.all(m, m.urls.all(u, u.startsWith('https://')))",message="when peerUrlTls is enabled, all additional advertise peer URLs must use https://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.additionalAdvertisePeerURLs)) || (has(self.etcd.peerUrlTls) || has(self.managedTLS) && 'Peers' in self.managedTLS.connections) || self.etcd.additionalAdvertisePeerURLs.all(m, m.urls.all(u, u.startsWith('http://')))",message="when peerUrlTls is not enabled, all additional advertise peer URLs must use http://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.additionalAdvertisedURLs) && has(self.etcd.additionalAdvertisedURLs.peerURLs)) || !(has(self.etcd.peerUrlTls) || has(self.managedTLS) && 'Peers' in self.managedTLS.connections) || self.etcd.additionalAdvertisedURLs.peerURLs.members.all(m, m.urls.all(u, u.startsWith('https://')))",message="when peerUrlTls is enabled, all additionalAdvertisedURLs.peerURLs must use https://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.additionalAdvertisedURLs) && has(self.etcd.additionalAdvertisedURLs.peerURLs)) || (has(self.etcd.peerUrlTls) || has(self.managedTLS) && 'Peers' in self.managedTLS.connections) || self.etcd.additionalAdvertisedURLs.peerURLs.members.all(m, m.urls.all(u, u.startsWith('http://')))",message="when peerUrlTls is not enabled, all additionalAdvertisedURLs.peerURLs must use http://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.additionalAdvertisedURLs) && has(self.etcd.additionalAdvertisedURLs.clientURLs)) || !(has(self.etcd.clientUrlTls) || has(self.managedTLS) && 'Clients' in self.managedTLS.connections) || self.etcd.additionalAdvertisedURLs.clientURLs.members.all(m, m.urls.all(u, u.startsWith('https://')))",message="when clientUrlTls is enabled, all additionalAdvertisedURLs.clientURLs must use https://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.additionalAdvertisedURLs) && has(self.etcd.additionalAdvertisedURLs.clientURLs)) || (has(self.etcd.clientUrlTls) || has(self.managedTLS) && 'Clients' in self.managedTLS.connections) || self.etcd.additionalAdvertisedURLs.clientURLs.members.all(m, m.urls.all(u, u.startsWith('http://')))",message="when clientUrlTls is not enabled, all additionalAdvertisedURLs.clientURLs must use http://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.bootstrapWithExistingCluster)) || !(has(self.etcd.peerUrlTls) || has(self.managedTLS) && 'Peers' in self.managedTLS.connections) || self.etcd.bootstrapWithExistingCluster.members.all(m, m.peerUrls.all(u, u.startsWith('https://')))",message="when peerUrlTls is enabled, all bootstrapWithExistingCluster member peer URLs must use https://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.bootstrapWithExistingCluster)) || (has(self.etcd.peerUrlTls) || has(self.managedTLS) && 'Peers' in self.managedTLS.connections) || self.etcd.bootstrapWithExistingCluster.members.all(m, m.peerUrls.all(u, u.startsWith('http://')))",message="when peerUrlTls is not enabled, all bootstrapWithExistingCluster member peer URLs must use http://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.bootstrapWithExistingCluster)) || !(has(self.etcd.clientUrlTls) || has(self.managedTLS) && 'Clients' in self.managedTLS.connections) || self.etcd.bootstrapWithExistingCluster.clientEndpoints.all(u, u.startsWith('https://'))",message="when clientUrlTls is enabled, all bootstrapWithExistingCluster clientEndpoints must use https://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.bootstrapWithExistingCluster)) || (has(self.etcd.clientUrlTls) || has(self.managedTLS) && 'Clients' in self.managedTLS.connections) || self.etcd.bootstrapWithExistingCluster.clientEndpoints.all(u, u.startsWith('http://'))",message="when clientUrlTls is not enabled, all bootstrapWithExistingCluster clientEndpoints must use http://"
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.etcd.bootstrapWithExistingCluster)) || has(oldSelf.etcd) && has(oldSelf.etcd.bootstrapWithExistingCluster)",message="etcd.bootstrapWithExistingCluster cannot be added after the Etcd has been created: its members have a cluster"
type EtcdSpec struct {
	// replicas is the number of members: 1, 3 or 5, or 0 to hibernate the cluster. It may grow and shrink; members are then added
	// or removed one at a time. To leave one member of several, the annotation druid.gardener.cloud/allow-single-member is needed.
	// +kubebuilder:validation:Enum=0;1;3;5
	Replicas int32 `json:"replicas"`
	// selector has no effect: the operator selects the member pods by its own labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// externallyManagedMemberAddresses must be empty; it is not supported.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	ExternallyManagedMemberAddresses []string `json:"externallyManagedMemberAddresses,omitempty"`
	// runAsRoot must not be true; members run as user 65532.
	// +optional
	RunAsRoot *bool `json:"runAsRoot,omitempty"`
	// labels are added to the member pods. The operator's own labels take precedence.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are added to the member pods. The operator's own annotations take precedence.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// etcd is the configuration of the etcd container.
	// +optional
	Etcd EtcdConfig `json:"etcd,omitempty"`
	// backup is the configuration of backups. Default: the cluster has no backups.
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`
	// sharedConfig is the configuration of auto-compaction.
	// +optional
	SharedConfig *SharedConfig `json:"sharedConfig,omitempty"`
	// schedulingConstraints restrict where member pods may run.
	// +optional
	SchedulingConstraints SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	// priorityClassName of the member pods. Default: the default PriorityClass of Kubernetes.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// storageCapacity of each member's volume. It may grow, and cannot shrink. If the StorageClass does not allow expansion, one member
	// after the other gets another volume. Default: 16Gi.
	// +optional
	StorageCapacity *resource.Quantity `json:"storageCapacity,omitempty"`
	// storageClass is the name of the StorageClass of each member's volume. When it changes, one member after the other gets another
	// volume, while a further member stands in. It cannot be removed. Default: the default StorageClass of Kubernetes.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClass *string `json:"storageClass,omitempty"`
	// volumeClaimTemplate is the name of the StatefulSet's volume claim template. It cannot be changed. Default: the name of
	// the Etcd.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	VolumeClaimTemplate *string `json:"volumeClaimTemplate,omitempty"`
	// memberNamePrefix is prepended, with a dash, to the pod name to form the name of a member and of its Lease. It keeps the
	// names of members distinct while a cluster moves from one Kubernetes cluster to another. It cannot be changed. Default:
	// none.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	MemberNamePrefix *string `json:"memberNamePrefix,omitempty"`
	// persistentVolumeClaimRetentionPolicy determines when the members' PersistentVolumeClaims are deleted. Default: never.
	// +optional
	PersistentVolumeClaimRetentionPolicy *PersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// managedTLS enables TLS with certificates that the operator issues and renews. It excludes the Secrets that
	// etcd.clientUrlTls, etcd.peerUrlTls and backup.tls name for the same connections. Default: only these are used.
	// +optional
	ManagedTLS *ManagedTLS `json:"managedTLS,omitempty"`
	// podUpdatePolicy is how a QuorumAwareRollout brings a pod to a new template, unless the config of the task says otherwise:
	// with a new pod, or in place where that is possible. Changing it replaces no pods. Default: that of the operator's
	// configuration.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
	// surgePolicy is how a QuorumAwareRollout replaces the pod of a cluster with one member. With SingleMember, a second member
	// on a volume of its own takes over first, so that clients are served all the time. SingleMemberAndDrains does so as well when
	// the node of the only member is cordoned, and evictions are rejected until it has left. Clusters of several members are not
	// affected. Changing it replaces no pods. Default: Never.
	// +optional
	SurgePolicy SurgePolicy `json:"surgePolicy,omitempty"`
}

// SurgePolicy says which clusters get a further member while the pod of one is replaced.
// +kubebuilder:validation:Enum=Never;SingleMember;SingleMemberAndDrains
type SurgePolicy string

// The values of SurgePolicy.
const (
	// SurgeNever gives no cluster a further member: writes stop while the pod of a single one is replaced.
	SurgeNever SurgePolicy = "Never"
	// SurgeSingleMember gives clusters with one member a second one.
	SurgeSingleMember SurgePolicy = "SingleMember"
	// SurgeSingleMemberAndDrains does so as well when the node of the only member is cordoned: its PodDisruptionBudget allows no
	// eviction, and a second member takes over on another node.
	SurgeSingleMemberAndDrains SurgePolicy = "SingleMemberAndDrains"
)

// PodUpdatePolicy is how a QuorumAwareRollout brings a pod to a new template.
// +kubebuilder:validation:Enum=InPlaceIfPossible;Recreate
type PodUpdatePolicy string

// The values of PodUpdatePolicy.
const (
	// InPlaceIfPossible changes resources, images, labels and annotations of a pod in place, and replaces it if anything else
	// has changed.
	InPlaceIfPossible PodUpdatePolicy = "InPlaceIfPossible"
	// RecreatePods replaces every pod.
	RecreatePods PodUpdatePolicy = "Recreate"
)

// CurrentRollout names the rollout that brings the pods to the newest pod template.
type CurrentRollout struct {
	// task is the name of the EtcdOperatorTask; empty until it is created.
	// +optional
	Task string `json:"task,omitempty"`
	// targetRevision is the StatefulSet revision that the pods are brought to.
	TargetRevision string `json:"targetRevision"`
}

// Types of an EtcdOperation.
const (
	// OperationTypeCreate is the operation of an Etcd whose spec has not been applied before.
	OperationTypeCreate = "Create"
	// OperationTypeReconcile applies a changed spec.
	OperationTypeReconcile = "Reconcile"
)

// States of an EtcdOperation.
const (
	// OperationProcessing means that the newest spec is being applied.
	OperationProcessing = "Processing"
	// OperationSucceeded means that the newest spec is applied.
	OperationSucceeded = "Succeeded"
	// OperationError means that something could not be done, and is retried; see lastErrors.
	OperationError = "Error"
	// OperationRequeue means that reconciliation of the spec is suspended.
	OperationRequeue = "Requeue"
)

// EtcdOperation is the progress of applying the spec of an Etcd.
type EtcdOperation struct {
	// type of the operation: Create or Reconcile.
	// +optional
	Type string `json:"type,omitempty"`
	// state of the operation: Processing, Succeeded, Error, or Requeue while reconciliation of the spec is suspended.
	// +optional
	State string `json:"state,omitempty"`
	// runID identifies the operation. It has the generation of the spec.
	// +optional
	RunID string `json:"runID,omitempty"`
	// description is a human-readable sentence.
	// +optional
	Description string `json:"description,omitempty"`
	// lastUpdateTime is when state or description last changed.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}

// EtcdStatus is the observed state of an etcd cluster. Only the operator writes it.
type EtcdStatus struct {
	// observedGeneration is the newest generation of the spec that is applied to the objects of the Etcd. Pods and volumes
	// may still have to follow; see the conditions.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the cluster: Ready, AllMembersReady, AllMembersUpdated, DataVolumesReady, VolumesGrown, VolumesMoved, Scaled,
	// ScaleOperationComplete, ObjectsOwned, Hibernated, BackupReady, TLSReady, AlarmRaised, Reconciled, UpToDate, Stalled, Reconciling.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// etcd refers to the StatefulSet.
	// +optional
	Etcd *CrossVersionObjectReference `json:"etcd,omitempty"`
	// selector selects the member pods. It is that of the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// labelSelector is selector in its structured form.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// peerUrlTLSEnabled is true once every member serves its peers over TLS.
	// +optional
	PeerURLTLSEnabled *bool `json:"peerUrlTLSEnabled,omitempty"`
	// bootstrapWithExistingCluster records the source cluster, once the members have joined it.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingClusterStatus `json:"bootstrapWithExistingCluster,omitempty"`
	// advertisedPeerURLs are the further peer URLs, by member, that the operator lists members with because the spec names them, or has
	// listed them with and is about to remove. It removes no others.
	// +listType=atomic
	// +optional
	AdvertisedPeerURLs []ListedURLs `json:"advertisedPeerURLs,omitempty"`
	// clusterID is etcd's cluster ID in hex, recorded when the cluster first has a quorum. From then on members start
	// with data of this cluster alone. It changes in a recovery, on waking up without volumes, and when the only member is restored.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// clusterSize is the largest number of members observed: the highest ordinal whose member is a voter, plus one. A
	// hibernated cluster wakes up with this many members.
	// +optional
	ClusterSize int32 `json:"clusterSize,omitempty"`
	// voters is the number of voters in the member list, as it was seen last while there was a quorum; absent if it never was. Unlike
	// clusterSize, it has no member that has yet to join.
	// +optional
	Voters int32 `json:"voters,omitempty"`
	// members of the cluster.
	// +listType=map
	// +listMapKey=name
	// +optional
	Members []Member `json:"members,omitempty"`
	// replicas is the number of replicas of the StatefulSet.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// currentReplicas is the number of member pods.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas,omitempty"`
	// readyReplicas is the number of member pods whose containers are all ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// updatedReplicas is the number of member pods at the newest pod template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// ready is true if AllMembersReady and AllMembersUpdated are True and Scaled is not False.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// rollout names the current rollout; absent when no pod is outdated.
	// +optional
	Rollout *CurrentRollout `json:"rollout,omitempty"`
	// recovery tells the members how the cluster starts under a new cluster ID: after it lost its quorum, or because it wakes
	// up without volumes. Absent otherwise.
	// +optional
	Recovery *ClusterRecovery `json:"recovery,omitempty"`
	// hibernation records a hibernation without volumes. Absent while the cluster has its volumes.
	// +optional
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// lastOperation is the progress of applying the newest spec.
	// +optional
	LastOperation *EtcdOperation `json:"lastOperation,omitempty"`
	// lastErrors are what the operator could not do, at most 10. An error enters when it has occurred twice in a row and for two
	// seconds, and leaves with the first success.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
}

// Etcd is an etcd cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:categories=all
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Quorate",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="All Members Ready",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersReady")].status`
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersUpdated")].status`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.task`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of an Etcd consists of lower-case letters, digits and dashes, and begins with a letter: its Services are named after it"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 45",message="the name of an Etcd may have at most 45 characters: its pods, Services and tasks are named after it"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.additionalAdvertisePeerURLs)) || self.spec.etcd.additionalAdvertisePeerURLs.all(m, has(self.spec.memberNamePrefix) ? m.memberName.startsWith(self.spec.memberNamePrefix + '-' + self.metadata.name + '-') && size(m.memberName) == size(self.spec.memberNamePrefix) + size(self.metadata.name) + 3 : m.memberName.startsWith(self.metadata.name + '-') && size(m.memberName) == size(self.metadata.name) + 2)",message="additionalAdvertisePeerURLs member names must start with the Etcd resource name followed by a dash, and end with the ordinal of a member"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.additionalAdvertisePeerURLs)) || self.spec.replicas == 0 || self.spec.etcd.additionalAdvertisePeerURLs.all(m, int(m.memberName.substring(m.memberName.lastIndexOf('-') + 1)) < self.spec.replicas)",message="additionalAdvertisePeerURLs member name index must be less than replicas"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.additionalAdvertisedURLs) && has(self.spec.etcd.additionalAdvertisedURLs.peerURLs)) || self.spec.etcd.additionalAdvertisedURLs.peerURLs.members.all(m, has(self.spec.memberNamePrefix) ? m.name.startsWith(self.spec.memberNamePrefix + '-' + self.metadata.name + '-') && size(m.name) == size(self.spec.memberNamePrefix) + size(self.metadata.name) + 3 : m.name.startsWith(self.metadata.name + '-') && size(m.name) == size(self.metadata.name) + 2)",message="additionalAdvertisedURLs.peerURLs member names must start with the Etcd resource name followed by a dash, and end with the ordinal of a member"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.additionalAdvertisedURLs) && has(self.spec.etcd.additionalAdvertisedURLs.peerURLs)) || self.spec.replicas == 0 || self.spec.etcd.additionalAdvertisedURLs.peerURLs.members.all(m, int(m.name.substring(m.name.lastIndexOf('-') + 1)) < self.spec.replicas)",message="additionalAdvertisedURLs.peerURLs member name index must be less than replicas"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.additionalAdvertisedURLs) && has(self.spec.etcd.additionalAdvertisedURLs.clientURLs)) || self.spec.etcd.additionalAdvertisedURLs.clientURLs.members.all(m, has(self.spec.memberNamePrefix) ? m.name.startsWith(self.spec.memberNamePrefix + '-' + self.metadata.name + '-') && size(m.name) == size(self.spec.memberNamePrefix) + size(self.metadata.name) + 3 : m.name.startsWith(self.metadata.name + '-') && size(m.name) == size(self.metadata.name) + 2)",message="additionalAdvertisedURLs.clientURLs member names must start with the Etcd resource name followed by a dash, and end with the ordinal of a member"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.additionalAdvertisedURLs) && has(self.spec.etcd.additionalAdvertisedURLs.clientURLs)) || self.spec.replicas == 0 || self.spec.etcd.additionalAdvertisedURLs.clientURLs.members.all(m, int(m.name.substring(m.name.lastIndexOf('-') + 1)) < self.spec.replicas)",message="additionalAdvertisedURLs.clientURLs member name index must be less than replicas"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.bootstrapWithExistingCluster)) || !(has(oldSelf.spec.etcd) && has(oldSelf.spec.etcd.bootstrapWithExistingCluster)) || !(has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'BootstrappedWithExistingCluster' && c.status == 'False')) || oldSelf.spec.replicas == 0 && self.spec.replicas == 0 || self.spec.etcd.bootstrapWithExistingCluster.members == oldSelf.spec.etcd.bootstrapWithExistingCluster.members",message="etcd.bootstrapWithExistingCluster.members cannot be modified while the bootstrap is in progress, unless replicas is 0 and stays so"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.bootstrapWithExistingCluster)) || !(has(oldSelf.spec.etcd) && has(oldSelf.spec.etcd.bootstrapWithExistingCluster)) || !(has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'BootstrappedWithExistingCluster' && c.status == 'False')) || oldSelf.spec.replicas == 0 && self.spec.replicas == 0 || self.spec.etcd.bootstrapWithExistingCluster.clientEndpoints == oldSelf.spec.etcd.bootstrapWithExistingCluster.clientEndpoints",message="etcd.bootstrapWithExistingCluster.clientEndpoints cannot be modified while the bootstrap is in progress, unless replicas is 0 and stays so"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.bootstrapWithExistingCluster)) || self.spec.etcd.bootstrapWithExistingCluster.members.all(m1, self.spec.etcd.bootstrapWithExistingCluster.members.filter(m2, m1.name == m2.name).size() == 1)",message="bootstrapWithExistingCluster.members[*].name must be unique"
// +kubebuilder:validation:XValidation:rule="!(has(self.spec.etcd) && has(self.spec.etcd.bootstrapWithExistingCluster)) || self.spec.etcd.bootstrapWithExistingCluster.members.all(m, has(self.spec.memberNamePrefix) ? !m.name.startsWith(self.spec.memberNamePrefix + '-' + self.metadata.name + '-') : !m.name.startsWith(self.metadata.name + '-'))",message="bootstrapWithExistingCluster.members[*].name must not collide with a target member (must not start with the target Etcd's member-name prefix)"
// +kubebuilder:validation:XValidation:rule="has(self.spec.etcd) && has(self.spec.etcd.bootstrapWithExistingCluster) || !(has(oldSelf.spec.etcd) && has(oldSelf.spec.etcd.bootstrapWithExistingCluster)) || has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'BootstrappedWithExistingCluster' && c.status == 'True')",message="etcd.bootstrapWithExistingCluster can be removed, which cuts over, once the condition BootstrappedWithExistingCluster is True: to give up before that, set replicas to 0"
type Etcd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EtcdSpec `json:"spec"`
	// The default tells tools that the operator has not seen the Etcd yet.
	// +kubebuilder:default={"observedGeneration":-1}
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

// SpecSuspended reports whether reconciliation of the spec is suspended.
func (e *Etcd) SpecSuspended() bool { return e.SuspendedBy() != "" }

// SuspendedBy returns the annotation that suspends the reconciliation of the spec; empty if none does.
func (e *Etcd) SuspendedBy() string {
	for _, key := range []string{AnnotationSuspendSpecReconcile, AnnotationIgnoreReconciliation} {
		if _, suspended := e.Annotations[key]; suspended {
			return key
		}
	}
	return ""
}

// Surges reports whether a second member takes over while the only one is replaced.
func (e *Etcd) Surges() bool { return e.MaySurge() && e.Spec.Replicas == 1 }

// MaySurge reports whether the policy lets a second member take over if there is only one.
func (e *Etcd) MaySurge() bool {
	return e.Spec.SurgePolicy == SurgeSingleMember || e.Spec.SurgePolicy == SurgeSingleMemberAndDrains
}

// SurgesOnDrain reports whether a second member takes over also when the node of the only one is cordoned.
func (e *Etcd) SurgesOnDrain() bool {
	return e.Surges() && e.Spec.SurgePolicy == SurgeSingleMemberAndDrains
}

// Moves reports whether members are to get volumes of another StorageClass, one after the other, while a further member stands in.
func (e *Etcd) Moves() bool {
	c := e.Status.Conditions.Find(ConditionVolumesMoved)
	return c != nil && c.Reason == ReasonVolumesMoving
}

// Reports reports whether the status has an error with a code.
func (s *EtcdStatus) Reports(code ErrorCode) bool {
	return slices.ContainsFunc(s.LastErrors, func(e LastError) bool { return e.Code == code })
}
