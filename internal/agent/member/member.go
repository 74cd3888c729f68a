// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package member decides what happens in a member's pod before etcd starts. It is pure; package prepare observes and acts, and package
// serve runs beside the member. Its parts:
//
//   - config.go: Shared, the ConfigMap that operator and members share, and etcd's configuration file, which is rendered from it. etcd
//     ignores flags and environment if it has a configuration file, so each member needs a file of its own.
//   - decide.go: Decide, whether and how a member starts. decide_others.go has the cases in which a quorum of other members answers, and
//     decide_recovery.go those in which the cluster starts as a new one.
//   - recovery.go, members.go, firststart.go, source.go, acceptance.go: the values of keys by which the operator instructs members.
//   - clusterid.go, lineage.go: the IDs of clusters, which members and operator compute each on their own.
//   - survey.go: what the agent reports of the volume of a stopped member.
package member

// Keys of the ConfigMap that the members of a cluster share. All but KeyConfig and KeyBootstrap are absent or empty if there is nothing to
// say. Only a change of KeyConfig or KeyClientURLs changes the pod template.
const (
	// KeyConfig is the part of etcd's configuration that all members share.
	KeyConfig = "etcd.conf.yaml"
	// KeyBootstrap is what only a member without data uses: the initial cluster and its token.
	KeyBootstrap = "bootstrap.conf.yaml"
	// KeyClusterID is the ID of the cluster in hex, once it has first served.
	KeyClusterID = "cluster-id"
	// KeyRecovery is how a cluster starts as a new one: a Recovery as YAML.
	KeyRecovery = "recovery.yaml"
	// KeyRecoveryDetails are the fields of a Recovery that were added later, as YAML. Agents refuse unknown fields in KeyRecovery, and ignore
	// a key that they do not know.
	KeyRecoveryDetails = "recovery-details.yaml"
	// KeyKept exists if no recovery is recorded any more, but members still keep what they had before a Restore or a recovery.
	KeyKept = "kept"
	// KeyFirstStart permits members without data to begin the cluster: a FirstStart as YAML. It is removed once the cluster has served.
	KeyFirstStart = "first-start.yaml"
	// KeyAccept is what a restore may use although it is not signed, not encrypted, or older than recorded: an Acceptance as YAML.
	KeyAccept = "accept-backup.yaml"
	// KeyMembers is how the operator is about to change the list of members: a Members as YAML.
	KeyMembers = "members.yaml"
	// KeySource is the cluster that the members join: a Source as YAML. It is removed once the members of that cluster have left.
	KeySource = "source.yaml"
	// KeyClientURLs are the client URLs that members advertise instead of their own, by the members' names: URLs separated by commas.
	KeyClientURLs = "client-urls.yaml"
	// KeyAgentAPI is who may use the agents' HTTP API: an agentauth.Trust as JSON.
	KeyAgentAPI = "agent-api.json"
)

// AppliedKeys are the keys that follow from the spec alone, and are written together. The operator writes each of the others when it learns
// something about the cluster. It leaves unknown keys alone, since a later version of the operator may have added them.
var AppliedKeys = []string{KeyConfig, KeyBootstrap, KeyAccept, KeyClientURLs}

// Folders and files of a member's pod.
const (
	// SharedDir is where the shared ConfigMap is mounted.
	SharedDir = "/etc/etcd-foreman"
	// ConfigDir holds the member's own configuration file.
	ConfigDir = "/var/etcd/config"
	// ConfigFile is the member's own configuration file.
	ConfigFile = ConfigDir + "/" + KeyConfig
	// VolumeDir is where the member's volume is mounted.
	VolumeDir = "/var/etcd/data"
	// DataDir is etcd's data directory. Gardener's etcd-wrapper uses the same, so that each can use the volumes of the
	// other.
	DataDir = VolumeDir + "/new.etcd"
	// AsideSuffix and a time are appended to the name of a data directory that is set aside. It may be the only copy, so it stays until a
	// person removes it.
	AsideSuffix = ".aside-"
	// ReplacedSuffix is used instead if a quorum has all of the data. The directory is removed once the member votes again.
	ReplacedSuffix = ".replaced-"
	// RemovedSuffix is used instead for the data of a member that knew of its own removal. It may be the newest copy if every member that
	// stayed is lost. The directory is removed once a member votes here again.
	RemovedSuffix = ".removed-"
	// BeforeSuffix, the UID of the task and a time are used instead in a recovery or a restore. The directory is removed once no task is
	// left for which members have set data aside, and the members vote.
	BeforeSuffix = ".before-"
)

// Environment variables of a member's pod.
const (
	// NameVariable has the name of the member, which is that of its pod.
	NameVariable = "POD_NAME"
	// NamespaceVariable has the namespace.
	NamespaceVariable = "POD_NAMESPACE"
	// TrustFileVariable has the path of KeyAgentAPI. It is not a flag: an Etcd may name an earlier version of the agent, which would not
	// start with an unknown flag.
	TrustFileVariable = "API_TRUST_FILE"
	// KeptForVariable has, in the Job of a survey for an undo, the UID of the undone task, and otherwise KeptForNone: see Survey.Needs. It is no
	// flag for the same reason.
	KeptForVariable = "KEPT_FOR_TASK"
)

// KeptForNone is the value of KeptForVariable if nothing is undone: what is kept is not read then. It may be as large as the data.
const KeptForNone = "none"
