// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "operator.config.druid.gardener.cloud", Version: "v1alpha1"}

// Kind is the kind of the configuration file.
const Kind = "OperatorConfiguration"

// OperatorConfiguration is the configuration of the operator. The operator reads it once, at startup.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// mode is what the operator does: Operator manages Etcds and runs tasks. Executor only runs tasks, beside an etcd-druid that
	// manages the Etcds. Default: Operator.
	Mode Mode `json:"mode,omitempty"`
	// featureGates enables and disables features by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// podUpdatePolicy is how rollouts bring pods to a new template, unless spec.podUpdatePolicy of the Etcd or the config of the
	// task says otherwise: Recreate replaces them, InPlaceIfPossible changes them in place where that is possible. In mode
	// Executor, pods are always replaced. Default: InPlaceIfPossible.
	PodUpdatePolicy v1alpha1.PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
	// managedByLabel is the value of the label app.kubernetes.io/managed-by on the pods and claims of new Etcds: etcd-foreman, or
	// etcd-druid for a landscape that selects them by it. Those of an Etcd that is there keep theirs. Default: etcd-foreman.
	ManagedByLabel string `json:"managedByLabel,omitempty"`
	// images are the images of the containers that the operator starts.
	Images Images `json:"images"`
	// namespaces are the namespaces that the operator watches. It reads and writes nothing in others, except its own Lease and
	// signing key. Its permissions are determined by its roles, not by this field. Default: all namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// requireTLS refuses an Etcd without TLS for clients or for peers. Its objects stay as they are, and its members go on. Default: false.
	RequireTLS bool `json:"requireTLS,omitempty"`
	// joinSources are the client endpoints of clusters that an Etcd may join (spec.etcd.bootstrapWithExistingCluster), and the only addresses
	// beside the Etcd's own pods that the operator connects to for it: NAMESPACE/ENDPOINT for an Etcd in a namespace, NAMESPACE/* for any
	// endpoint, or * for any in all namespaces. Default: *. An empty list allows none.
	JoinSources []string `json:"joinSources,omitempty"`
	// tls restricts the versions and cipher suites of TLS.
	TLS TLS `json:"tls,omitempty"`
	// clientConnection limits the requests to the API server.
	ClientConnection ClientConnection `json:"clientConnection,omitempty"`
	// leaderElection ensures that only one of several operator instances is active.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// server configures the endpoints that the operator serves.
	Server Server `json:"server,omitempty"`
	// agentAPI configures the HTTP API of the agents.
	AgentAPI AgentAPI `json:"agentAPI,omitempty"`
	// backup restricts the stores of backups and copies.
	Backup Backup `json:"backup,omitempty"`
	// managedTLS restricts the issuers of managed TLS.
	ManagedTLS ManagedTLS `json:"managedTLS,omitempty"`
	// controllers configures the operator's controllers.
	Controllers Controllers `json:"controllers,omitempty"`
	// logging configures the operator's log.
	Logging Logging `json:"logging,omitempty"`
}

// Mode is what the operator does.
type Mode string

// The modes.
const (
	ModeOperator Mode = "Operator"
	ModeExecutor Mode = "Executor"
)

// Images are the container images that the operator uses unless an Etcd specifies its own.
type Images struct {
	// etcd is an unmodified etcd image of version 3.5.11, 3.6.0 or newer; older versions do not serve /readyz. Default:
	// gcr.io/etcd-development/etcd:v3.6.16.
	Etcd string `json:"etcd,omitempty"`
	// etcdAgent is the image of the etcd-agent that was built with this operator. Required.
	EtcdAgent string `json:"etcdAgent"`
	// allowed lists the images that an Etcd may name in spec.etcd.image and spec.backup.image. An entry is an image with its tag
	// or digest, a repository with any tag or digest, or, with a slash at its end, all repositories beneath it. An Etcd that
	// names another is refused. The default, an empty list, allows every image.
	Allowed []string `json:"allowed,omitempty"`
}

// ClientConnection limits the requests to the API server.
type ClientConnection struct {
	// qps is the sustained number of requests per second. Default: 400.
	QPS float32 `json:"qps,omitempty"`
	// burst is the number of requests that may be sent at once. Default: 800.
	Burst int `json:"burst,omitempty"`
}

// StepTimeout is the maximum time from the observation that a step is based on to the last request of the step. An operator
// that has lost its Lease therefore has no request in flight when another instance may take over.
const StepTimeout = 4 * time.Second

// LeaderElection is the configuration of leader election.
type LeaderElection struct {
	// enabled may be set to false if only one instance runs. Default: true.
	Enabled *bool `json:"enabled,omitempty"`
	// namespace of the Lease. Default: the operator's namespace.
	Namespace string `json:"namespace,omitempty"`
	// leaseDuration is how long other instances wait before they take over from a leader that does not renew its Lease.
	// Default: 15s.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// renewDeadline is how long a leader retries to renew its Lease before it steps down. Default: 10s.
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// retryPeriod is the time between two attempts. Default: 2s.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
}

// Server configures the endpoints that the operator serves. Addresses are host:port or :port; "0" disables an endpoint.
type Server struct {
	// metricsBindAddress is the address that serves /metrics, over HTTPS and only to clients that may get the non-resource URL
	// /metrics. Default: ":8080".
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
	// metricsCertificateDir is a folder with tls.crt and tls.key for /metrics, which are read again when they change.
	// Default: a self-signed certificate.
	MetricsCertificateDir string `json:"metricsCertificateDir,omitempty"`
	// insecureMetrics serves /metrics over HTTP and without authentication, as earlier versions did. Default: false.
	InsecureMetrics bool `json:"insecureMetrics,omitempty"`
	// healthBindAddress is the address that serves /healthz and /readyz. Default: ":8081".
	HealthBindAddress string `json:"healthBindAddress,omitempty"`
	// webhookBindAddress is the address that serves the admission webhook of mode Executor. Default: "0", none, for clusters with
	// the MutatingAdmissionPolicy of config/executor/policy.
	WebhookBindAddress string `json:"webhookBindAddress,omitempty"`
	// pprofBindAddress is the address that serves Go's profiles under /debug/pprof. It must be a loopback address, such as
	// 127.0.0.1:6060, because profiles expose parts of the operator's memory. Default: "0".
	PprofBindAddress string `json:"pprofBindAddress,omitempty"`
}

// AgentAPI is the configuration of the agents' HTTP API.
type AgentAPI struct {
	// allowUnauthenticatedSnapshots lets any client that reaches an agent take and list snapshots, by GET or POST, as
	// etcd-backup-restore does. It is for automation such as Gardener's control plane migration, and for a downgrade to an
	// operator that does not sign its requests. A client that takes many snapshots fills the bucket; it displaces none of
	// the schedule. Default: false.
	AllowUnauthenticatedSnapshots bool `json:"allowUnauthenticatedSnapshots,omitempty"`
	// metricsTokenHash is the SHA-256, in hex, of a long random token that reads the agents' metrics. Agents only get the
	// hash. With spec.backup.tls, a client certificate signed by its CA reads them, too. Default: no token.
	MetricsTokenHash string `json:"metricsTokenHash,omitempty"`
	// allowUnauthenticatedMetrics serves the agents' metrics without authentication, as earlier versions did. Default: false.
	AllowUnauthenticatedMetrics bool `json:"allowUnauthenticatedMetrics,omitempty"`
}

// Backup restricts the stores of backups and copies.
type Backup struct {
	// enforceNamespacePrefixes refuses an Etcd or a copy with a prefix in a store that does not start with its namespace and
	// a slash. Default false.
	EnforceNamespacePrefixes bool `json:"enforceNamespacePrefixes,omitempty"`
	// copyStores are the stores that a CopyBackups may use besides the Etcd's own.
	CopyStores []CopyStore `json:"copyStores,omitempty"`
	// allowCloudIdentity lets an Etcd or a copy name a store without a Secret. Its pods then use the identity that the cloud gives
	// them, which may be that of their node, so a user who may create an Etcd may use what the node may. Default: false.
	AllowCloudIdentity bool `json:"allowCloudIdentity,omitempty"`
	// allowedEndpoints are the URLs that an Etcd or a copy may name as endpointOverride of a store. The agent sends requests to
	// them that are authorized with the credentials of the store. Default: none.
	AllowedEndpoints []string `json:"allowedEndpoints,omitempty"`
	// localClaims are the claims that an Etcd or a copy may mount as a store of provider Local: NAMESPACE/NAME, NAMESPACE/* for all of a
	// namespace, or * for any. Default: none.
	LocalClaims []string `json:"localClaims,omitempty"`
	// allowAnyCopyStore lets a CopyBackups use any store by any Secret of its namespace. Default false.
	AllowAnyCopyStore bool `json:"allowAnyCopyStore,omitempty"`
	// snapshotCompaction has the thresholds of Etcds with spec.backup.snapshotCompaction that name none.
	SnapshotCompaction SnapshotCompaction `json:"snapshotCompaction,omitempty"`
}

// SnapshotCompaction has the thresholds that an Etcd may name in spec.backup.snapshotCompaction, by the same names.
type SnapshotCompaction struct {
	// eventsThreshold is the number of events at which snapshots are compacted. Default: 1000000.
	EventsThreshold int64 `json:"eventsThreshold,omitempty"`
	// triggerFullSnapshotThreshold is the number of events at which a full snapshot is taken instead of compacting. Default:
	// 3000000.
	TriggerFullSnapshotThreshold int64 `json:"triggerFullSnapshotThreshold,omitempty"`
}

// CopyStore is a store that a CopyBackups may use.
type CopyStore struct {
	// provider is that of an Etcd's spec.backup.store.
	Provider string `json:"provider"`
	// container is the bucket, or the PersistentVolumeClaim of a Local store.
	Container string `json:"container"`
	// secretName is the name of the Secret with the credentials, in the namespace of the task; empty for a Local store.
	SecretName string `json:"secretName,omitempty"`
}

// ManagedTLS restricts the issuers of managed TLS.
type ManagedTLS struct {
	// issuers are the issuers of cert-manager that an Etcd may name in spec.managedTLS. Who may create an Etcd then gets certificates of
	// them, for the host names of its members, without the right to create Certificates. Default: none.
	Issuers []AllowedIssuer `json:"issuers,omitempty"`
}

// AllowedIssuer is an issuer of cert-manager that an Etcd may name.
type AllowedIssuer struct {
	// name of the issuer, or "*" for any.
	Name string `json:"name"`
	// kind of the issuer. An Issuer is always in the namespace of the Etcd. Default: Issuer.
	Kind string `json:"kind,omitempty"`
	// group of the issuer. Default: cert-manager.io.
	Group string `json:"group,omitempty"`
	// allowServerDNSNames lets an Etcd with this issuer have serverDNSNames: certificates for any host name. Default: false.
	AllowServerDNSNames bool `json:"allowServerDNSNames,omitempty"`
}

// Controllers configures the operator's controllers.
type Controllers struct {
	// etcd configures the controller that reconciles the objects and the status of Etcds, and the one that creates upkeep tasks.
	Etcd Controller `json:"etcd,omitempty"`
	// rollout configures the controller that creates a rollout task for each template change.
	Rollout Controller `json:"rollout,omitempty"`
	// task configures the controller that runs tasks.
	Task Controller `json:"task,omitempty"`
}

// Controller configures one controller.
type Controller struct {
	// concurrentSyncs is the number of Etcds that are reconciled at the same time: of one namespace half as many at most, and of those
	// whose members hang a third. Default: 80 for etcd, 100 for rollout, 300 for task.
	ConcurrentSyncs int `json:"concurrentSyncs,omitempty"`
}

// LogLevel is the minimum level of messages that are logged.
type LogLevel string

// The log levels.
const (
	LogLevelDebug LogLevel = "debug"
	LogLevelInfo  LogLevel = "info"
	LogLevelError LogLevel = "error"
)

// LogFormat is the format of log lines.
type LogFormat string

// The log formats.
const (
	LogFormatJSON LogFormat = "json"
	LogFormatText LogFormat = "text"
)

// Logging is the configuration of the log.
type Logging struct {
	// level is the minimum level of messages that are logged: debug, info or error. Default: info.
	Level LogLevel `json:"level,omitempty"`
	// format is the format of log lines: json or text. Default: json.
	Format LogFormat `json:"format,omitempty"`
}
