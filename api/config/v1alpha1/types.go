// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "operator.config.druid.gardener.cloud", Version: "v1alpha1"}

// Kind is the kind of the configuration file.
const Kind = "OperatorConfiguration"

// OperatorConfiguration is the configuration of the operator. It is read once, when the operator starts.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// FeatureGates switches features on and off by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Images of the containers that the operator starts.
	Images Images `json:"images"`
	// Namespaces that the operator looks at. Default: all. It reads and writes nothing in others, but for its own lease;
	// what its ServiceAccount could do there, its roles say.
	Namespaces []string `json:"namespaces,omitempty"`
	// ClientConnection bounds what the operator asks of the API server.
	ClientConnection ClientConnection `json:"clientConnection,omitempty"`
	// LeaderElection makes one of several operators the one that works.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Server says where the operator answers.
	Server Server `json:"server,omitempty"`
	// AgentAPI is about the HTTP API of the agents beside the members.
	AgentAPI AgentAPI `json:"agentAPI,omitempty"`
	// Backup restricts the stores of backups and copies.
	Backup Backup `json:"backup,omitempty"`
	// Controllers holds what each controller can be told.
	Controllers Controllers `json:"controllers,omitempty"`
	// Logging says how much the operator logs, and in which format.
	Logging Logging `json:"logging,omitempty"`
}

// Images are the container images that the operator uses where an Etcd does not name its own.
type Images struct {
	// Etcd is the image of etcd, as its authors publish it. Version 3.5.11, 3.6.0 or newer: older ones have
	// no /readyz. Default gcr.io/etcd-development/etcd:v3.6.8.
	Etcd string `json:"etcd,omitempty"`
	// EtcdAgent is the image of the etcd-agent of the operator's own version. It has to be given.
	EtcdAgent string `json:"etcdAgent"`
	// Allowed are the images that an Etcd may name in spec.etcd.image and spec.backup.image. An entry is an image with its tag
	// or digest, a repository with any tag or digest, or, with a slash at its end, all repositories beneath it. An Etcd that
	// names another is refused. The default, an empty list, allows every image.
	Allowed []string `json:"allowed,omitempty"`
}

// ClientConnection bounds the requests to the API server.
type ClientConnection struct {
	// QPS is the number of requests a second in the long run. Default 400.
	QPS float32 `json:"qps,omitempty"`
	// Burst is the number of requests that may be made at once. Default 800.
	Burst int `json:"burst,omitempty"`
}

// StepTimeout is the longest time from the observation that a step rests on to its last request. An operator that has lost
// its lease has none under way when another may take over.
const StepTimeout = 4 * time.Second

// LeaderElection is the configuration of the leader election.
type LeaderElection struct {
	// Enabled may be set to false for a single operator. Default true.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace of the Lease. Default: the namespace that the operator runs in.
	Namespace string `json:"namespace,omitempty"`
	// LeaseDuration is how long others wait before they take over from a leader that is silent. Default 15s.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long a leader tries to renew before it steps down. Default 10s.
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the time between two tries. Default 2s.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
}

// Server says where the operator answers, as host:port; "0" switches an endpoint off.
type Server struct {
	// MetricsBindAddress serves /metrics, over HTTPS and for those who may get the non-resource URL /metrics. Default :8080.
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
	// MetricsCertificateDir is a folder with tls.crt and tls.key for /metrics, which are read again when they change. Default:
	// a self-signed certificate.
	MetricsCertificateDir string `json:"metricsCertificateDir,omitempty"`
	// InsecureMetrics serves /metrics over HTTP, for anybody, as earlier versions did. Default false.
	InsecureMetrics bool `json:"insecureMetrics,omitempty"`
	// HealthBindAddress serves /healthz and /readyz. Default :8081.
	HealthBindAddress string `json:"healthBindAddress,omitempty"`
	// PprofBindAddress serves /debug/pprof, Go's profiles. It has to be a loopback address, such as 127.0.0.1:6060: they
	// show parts of the operator's memory. Default "0".
	PprofBindAddress string `json:"pprofBindAddress,omitempty"`
}

// AgentAPI is the configuration of the agents' HTTP API.
type AgentAPI struct {
	// AllowUnauthenticatedSnapshots lets anybody who reaches an agent have snapshots taken and listed, by GET or POST, as
	// etcd-backup-restore does: for automation such as Gardener's control plane migration, and before a return to an
	// operator that signs nothing. Who may ask often enough has old snapshots removed. Default false.
	AllowUnauthenticatedSnapshots bool `json:"allowUnauthenticatedSnapshots,omitempty"`
	// MetricsTokenHash is the SHA-256, in hex, of a long random token that reads the agents' metrics. Agents learn the hash
	// alone. Where spec.backup.tls is set, a client certificate of its CA does as well. Default: no token.
	MetricsTokenHash string `json:"metricsTokenHash,omitempty"`
	// AllowUnauthenticatedMetrics serves the agents' metrics to anybody, as earlier versions did. Default false.
	AllowUnauthenticatedMetrics bool `json:"allowUnauthenticatedMetrics,omitempty"`
}

// Backup restricts the stores of backups and copies.
type Backup struct {
	// EnforceNamespacePrefixes refuses an Etcd or a copy with a prefix in a store that does not start with its namespace and
	// a slash. Default false.
	EnforceNamespacePrefixes bool `json:"enforceNamespacePrefixes,omitempty"`
	// CopyStores are the stores that a CopyBackups may use besides the Etcd's own.
	CopyStores []CopyStore `json:"copyStores,omitempty"`
	// AllowAnyCopyStore lets a CopyBackups use any store by any Secret of its namespace. Default false.
	AllowAnyCopyStore bool `json:"allowAnyCopyStore,omitempty"`
}

// CopyStore is a store that a CopyBackups may use.
type CopyStore struct {
	// Provider is that of an Etcd's spec.backup.store.
	Provider string `json:"provider"`
	// Container is the bucket, or the PersistentVolumeClaim of a Local store.
	Container string `json:"container"`
	// SecretName is the name of the Secret with the credentials, in the namespace of the task; empty for a Local store.
	SecretName string `json:"secretName,omitempty"`
}

// Controllers are the operator's controllers.
type Controllers struct {
	// Etcd keeps up the objects and the status of Etcds.
	Etcd Controller `json:"etcd,omitempty"`
	// Rollout makes a task of a change of template.
	Rollout Controller `json:"rollout,omitempty"`
	// Task runs tasks.
	Task Controller `json:"task,omitempty"`
}

// Controller is what every controller can be told.
type Controller struct {
	// ConcurrentSyncs is the number of Etcds that are worked on at the same time. Default: 80 for etcd, 100
	// for rollout and task.
	ConcurrentSyncs int `json:"concurrentSyncs,omitempty"`
}

// LogLevel is how much is logged.
type LogLevel string

// The log levels.
const (
	LogLevelDebug LogLevel = "debug"
	LogLevelInfo  LogLevel = "info"
	LogLevelError LogLevel = "error"
)

// LogFormat is how a log line looks.
type LogFormat string

// The log formats.
const (
	LogFormatJSON LogFormat = "json"
	LogFormatText LogFormat = "text"
)

// Logging is the configuration of the log.
type Logging struct {
	// Level is debug, info or error. Default info.
	Level LogLevel `json:"level,omitempty"`
	// Format is json or text. Default json.
	Format LogFormat `json:"format,omitempty"`
}
