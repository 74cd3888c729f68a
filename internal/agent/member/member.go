// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package member decides what happens in a member's pod before etcd starts: whether and how the member may start, and with
// which configuration file. It is pure; package prepare observes and acts, and package serve runs beside the member.
//
// etcd ignores flags and environment if it has a configuration file, so each member needs a file of its own. The members
// share a ConfigMap, from which the pod's init container renders the file.
package member

// Keys of the ConfigMap that the members of a cluster share.
const (
	// KeyConfig is the part of etcd's configuration that all members share. A change of it changes the pod template.
	KeyConfig = "etcd.conf.yaml"
	// KeyBootstrap is what only a member without data uses: the initial cluster and its token. A change of it replaces no
	// pod.
	KeyBootstrap = "bootstrap.conf.yaml"
	// KeyClusterID is the ID of the cluster in hex, once it has first served.
	KeyClusterID = "cluster-id"
	// KeyRecovery is how a cluster restarts after the loss of its quorum: a Recovery as YAML. It is absent or empty if there
	// is none.
	KeyRecovery = "recovery.yaml"
	// KeyRecoveryDetails is what was added to KeyRecovery later, as YAML: agents that do not know it recover without. It is absent or empty
	// if there is nothing.
	KeyRecoveryDetails = "recovery-details.yaml"
	// KeyKept is there if members keep what they had before a Restore although no recovery is recorded any more.
	KeyKept = "kept"
	// KeyFirstStart permits members without data to begin the cluster: a FirstStart as YAML. It is absent or empty if they may not,
	// and once the cluster has served.
	KeyFirstStart = "first-start.yaml"
	// KeyAccept is what a restore may use although it is not signed, not encrypted, or older than recorded: an Acceptance as YAML. It is absent or
	// empty if that is nothing. A change of it replaces no pod.
	KeyAccept = "accept-backup.yaml"
	// KeyMembers is how the operator is about to change the list of members: a Members as YAML. It is absent or empty if it is not. A
	// change of it replaces no pod.
	KeyMembers = "members.yaml"
	// KeySource is the cluster that the members join: a Source as YAML. It is absent or empty if there is none, and once its members have
	// left.
	KeySource = "source.yaml"
	// KeyClientURLs are the client URLs that members advertise, in place of their own, by their names: URLs separated by commas. It is
	// absent if each advertises its own.
	KeyClientURLs = "client-urls.yaml"
	// KeyAgentAPI is who may use the agents' HTTP API: an agentauth.Trust as JSON.
	KeyAgentAPI = "agent-api.json"
)

// AppliedKeys are the keys that follow from the spec alone, and are written with what is applied. All others tell members how their cluster
// stands: the operator writes each when it knows it, and leaves those alone that a later operator may have added.
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
	// AsideSuffix and a time are added to the name of a data directory that etcd could not start with. It may be the only
	// copy: it stays until a person removes it.
	AsideSuffix = ".aside-"
	// ReplacedSuffix is used instead if a quorum has all data. The directory is removed once the member votes again.
	ReplacedSuffix = ".replaced-"
	// RemovedSuffix is used instead for the data of a member that was removed from the list by a change that it knew of. It may be the
	// newest copy if every member that stayed is lost. The directory is removed once a member votes here again.
	RemovedSuffix = ".removed-"
	// BeforeSuffix, the UID of the task and a time are used instead in a recovery. The directory is removed once the recovery
	// is over and the member votes.
	BeforeSuffix = ".before-"
)

// Environment variables of a member's pod.
const (
	// NameVariable has the name of the member, which is that of its pod.
	NameVariable = "POD_NAME"
	// NamespaceVariable has the namespace.
	NamespaceVariable = "POD_NAMESPACE"
	// TrustFileVariable has the path of KeyAgentAPI. It is not a flag, because earlier versions of the agent, which an Etcd
	// may name, would not start with an unknown flag.
	TrustFileVariable = "API_TRUST_FILE"
)
