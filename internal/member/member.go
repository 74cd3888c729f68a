// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package member decides what happens in a member's pod before etcd starts: whether the member may start,
// how, and with which configuration file. It is pure; package prepare looks and carries out, and package
// serve looks after the member once it runs.
//
// etcd ignores its flags and its environment once it is given a configuration file, so one file cannot
// serve all members. They share a ConfigMap, and the pod's first container renders from it the file of its
// own member.
package member

// Keys of the ConfigMap that the members of a cluster share.
const (
	// KeyConfig is etcd's configuration as far as it is the same for all members. A change of it is a change
	// of the pod template.
	KeyConfig = "etcd.conf.yaml"
	// KeyBootstrap is what matters only to a member without data: the initial cluster and its token. It may
	// change without any pod being replaced.
	KeyBootstrap = "bootstrap.conf.yaml"
	// KeyClusterID is the ID of the cluster in hex, once it has first served.
	KeyClusterID = "cluster-id"
	// KeyRecovery tells how a cluster that has lost its quorum begins anew: a Recovery as YAML. It is absent, or
	// empty, when there is none.
	KeyRecovery = "recovery.yaml"
	// KeyAgentAPI says whom the agents' HTTP API lets in: an agentauth.Trust as JSON.
	KeyAgentAPI = "agent-api.json"
)

// Folders and files of a member's pod.
const (
	// SharedDir is where the shared ConfigMap is mounted.
	SharedDir = "/etc/etcd-foreman"
	// ConfigDir holds the member's own configuration file.
	ConfigDir = "/var/etcd/config"
	// ConfigFile is the member's own configuration file.
	ConfigFile = ConfigDir + "/" + KeyConfig
	// RestoredFile is there when the member was restored from a backup in this pod.
	RestoredFile = ConfigDir + "/restored"
	// VolumeDir is where the member's volume is mounted.
	VolumeDir = "/var/etcd/data"
	// DataDir is etcd's data directory. Gardener's etcd-wrapper has it at the same place, so a volume can
	// pass from one to the other.
	DataDir = VolumeDir + "/new.etcd"
	// AsideSuffix and a time are added to the name of a data directory that etcd could not start with. Nobody
	// else may have what is in it: it stays until a person removes it.
	AsideSuffix = ".aside-"
	// ReplacedSuffix takes its place where a quorum has all that there ever was. The directory is removed once
	// the member votes again.
	ReplacedSuffix = ".replaced-"
	// BeforeSuffix, the UID of the task and a time take its place where a cluster was recovered. The directory is
	// removed once the recovery is over and the member votes.
	BeforeSuffix = ".before-"
)

// Environment variables of a member's pod.
const (
	// NameVariable has the name of the member, which is that of its pod.
	NameVariable = "POD_NAME"
	// NamespaceVariable has the namespace.
	NamespaceVariable = "POD_NAMESPACE"
	// TrustFileVariable has the file that says whom the agent's HTTP API lets in. It is no flag, so that an agent of an
	// earlier version that an Etcd names starts with it.
	TrustFileVariable = "API_TRUST_FILE"
)
