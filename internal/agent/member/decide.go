// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// DataState is the state of the data directory of a member.
type DataState int

// The states of a data directory.
const (
	// DataNone: no write-ahead log. The member has never run here, or was interrupted before its first entry.
	DataNone DataState = iota
	// DataPresent: a write-ahead log that etcd can read, and a database.
	DataPresent
	// DataDamaged: a write-ahead log, but etcd could not start with the data.
	DataDamaged
)

// Data describes a data directory.
type Data struct {
	State DataState
	// ClusterID of the data, in hex, and MemberID of the member that wrote it; empty if they cannot be read.
	ClusterID, MemberID string
	// Removed: the member has applied its own removal from the cluster. A member that was down at that time has not.
	Removed bool
	// Damage is what is wrong with damaged data.
	Damage string
}

// Answer is what the other members say of a member, by a linearizable read.
type Answer int

// The answers.
const (
	// AnswerNone: there is no quorum, it is unreachable, or there is no other member.
	AnswerNone Answer = iota
	// AnswerNeverStarted: they list the member, and have never seen it run.
	AnswerNeverStarted
	// AnswerStarted: they list the member, and have seen it run.
	AnswerStarted
	// AnswerNotListed: they serve, and do not list the member.
	AnswerNotListed
)

// Backup is the state of the backups of the cluster.
type Backup int

// The states of backups.
const (
	// BackupNotConfigured: the cluster has no store.
	BackupNotConfigured Backup = iota
	// BackupHolds: the store holds a full snapshot.
	BackupHolds
	// BackupEmpty: the store holds no full snapshot.
	BackupEmpty
	// BackupUnreachable: the store does not answer, refuses, or cannot be used as it is set up.
	BackupUnreachable
)

// Action is how a member starts.
type Action string

// The actions.
const (
	// Start with the data that is there.
	Start Action = "Start"
	// Bootstrap a new cluster together with the other initial members.
	Bootstrap Action = "Bootstrap"
	// Join the running cluster, which lists the member and has never seen it.
	Join Action = "Join"
	// SetAside data with which no member can serve any more, and decide again.
	SetAside Action = "SetAside"
	// Replace the member with a learner of the same name: remove it from the member list, set its data aside, and add a learner, as far as
	// necessary. This is only for recoveries; otherwise only the operator changes the list.
	Replace Action = "Replace"
	// Restore the newest backup, and decide again.
	Restore Action = "Restore"
	// Rebuild a cluster of one member from the data that is there, and decide again.
	Rebuild Action = "Rebuild"
	// Wait, and decide again.
	Wait Action = "Wait"
	// Refuse to start.
	Refuse Action = "Refuse"
)

// Input of the decision.
type Input struct {
	// Member is the name of the member.
	Member string
	// DataDir is where its data should be.
	DataDir string
	Data    Data
	// Single: the cluster has one member.
	Single bool
	// ClusterID is the recorded ID of the cluster, in hex; empty if none is recorded.
	ClusterID string
	// Successors are the IDs that the recorded cluster may have after its only member was restored. The operator records it once it
	// serves.
	Successors []string
	// MayBegin: the operator permits members without data to begin the cluster. It counts only while no ID is recorded.
	MayBegin bool
	// Planned: the operator has announced a change of the member list. Leaving: it has announced that this member is removed.
	Planned, Leaving bool
	// Others is what the other members say of the member with this one's peer URL.
	Others Answer
	// OthersClusterID is the cluster ID of the others, in hex.
	OthersClusterID string
	// Listed is the ID, in hex, of the member that they list with this one's peer URL.
	Listed string
	// DataListed: they list the member that wrote the data.
	DataListed bool
	// Backup is looked up only if there is neither data nor an answer.
	Backup Backup
	// StoreSays is what is wrong with a store that is BackupUnreachable; empty if it does not answer.
	StoreSays string

	// Recovery is how the cluster starts as a new one; nil if it does not.
	Recovery *Recovery
	// NewClusterID is the ID of the cluster that the recovery makes, in hex.
	NewClusterID string
	// Rebuilt: a Rebuild was interrupted before its last renames.
	Rebuilt bool
	// KeptAside: this volume has data that was set aside for the recovery.
	KeptAside bool
	// Begun: the new cluster may have begun with other data: another member belongs to it, which has no quorum, or the store says so. It is
	// only looked up if this member may start that cluster from the backup for others to join, and no quorum answers. BegunUnknown: the store
	// does not say.
	Begun, BegunUnknown bool
}

// Decision is how a member starts, and why.
type Decision struct {
	Action Action
	// Reason of a Wait or Refuse: one of the reasons of the condition DataVolumesReady.
	Reason string
	// Why is a sentence for people; for a member that does not start, with what to do.
	Why string
	// Volume is what a member that does not start reports of its volume; the zero value for nothing.
	Volume cluster.Volume
	// Suffix of the name that SetAside gives to the data.
	Suffix string
}

// Decide decides how a member starts.
//
// A member that has lost its data has also lost its votes and the entries that it acknowledged: under its old identity, it could elect a
// leader that lacks committed entries. So a member without data starts only if it has certainly never run, or as a learner with a new
// identity, which only a quorum can grant.
//
// Only the operator changes the member list, except in a recovery: a member that is not listed, or has lost its data, waits for the
// operator. The data of a removed member is never used again.
//
// The recorded cluster ID may lag behind: the operator has to record it, and the kubelet to update the mount. It matters only if no quorum
// answers, and then etcd itself checks once more: before it bootstraps, it asks its peers, without a quorum, and refuses if one of them has
// seen it.
func Decide(f Input) Decision {
	switch {
	case f.wasRemoved():
		return decideRemoved(f)
	case f.Recovery != nil:
		return decideRecovery(f)
	case f.isForeign():
		return refuseForeign(f, f.ClusterID)
	case f.Data.State == DataPresent:
		return Decision{Action: Start, Why: "the member has its data"}
	case f.Others != AnswerNone:
		return decideByOthers(f)
	case f.ClusterID == "" && f.Data.State == DataNone:
		return decideFirstStart(f)
	case f.Single:
		return decideAlone(f)
	}
	return wait(reasonOf(f), "%s, and no quorum of cluster %s answers; only a quorum can replace the member. Restore the other members; if they are permanently lost, recover the cluster. Starting empty or from a backup could create a second cluster beside a living one", loss(f), f.ClusterID)
}

// isForeign reports whether the data belongs to another cluster than the recorded one.
func (f Input) isForeign() bool {
	return f.ClusterID != "" && f.Data.ClusterID != "" && !f.isCurrent(f.Data.ClusterID)
}

// isCurrent reports whether a cluster is the recorded one or its successor.
func (f Input) isCurrent(clusterID string) bool {
	return clusterID == f.ClusterID || f.Single && slices.Contains(f.Successors, clusterID)
}

// decideFirstStart: there is no data and no recorded cluster, and no other member serves. Other volumes may still hold data, if the Etcd was
// created again beside them. Only the operator can survey all of them.
func decideFirstStart(f Input) Decision {
	switch {
	case !f.MayBegin:
		return wait(v1alpha1.ReasonFirstStartBlocked, "member %s has no data in %s, no cluster ID is recorded, and the operator has not permitted a first start, because other volumes may hold data. If this persists, set spec.replicas of the Etcd to 0, wait until its pods are gone, and set it back: the operator then surveys the volumes", f.Member, f.DataDir)
	case f.Backup == BackupUnreachable:
		return wait(v1alpha1.ReasonBackupUnreachable, "there is no data, and it is unknown whether there is a backup to restore: %s", f.storeTrouble())
	case f.Backup == BackupHolds && f.Single:
		return Decision{Action: Restore, Why: "there is no data and no recorded cluster, and the store holds a backup"}
	case f.Backup == BackupHolds:
		return wait(v1alpha1.ReasonBackupOfEarlierCluster, "this is a new cluster, but its store holds backups of an earlier one: to restore them, create the Etcd with one replica and scale it out afterwards; to start empty, choose another prefix")
	}
	return Decision{Action: Bootstrap, Why: "there is no data, no recorded cluster and no other member that serves"}
}

// decideAlone: the only member of a cluster that has served has no usable data.
func decideAlone(f Input) Decision {
	switch f.Backup {
	case BackupHolds:
		return Decision{Action: Restore, Why: loss(f) + ", it is the only member, and the store holds a backup"}
	case BackupUnreachable:
		return wait(v1alpha1.ReasonBackupUnreachable, "%s, and it is unknown whether there is a backup to restore: %s", loss(f), f.storeTrouble())
	}
	return refuse(reasonOf(f), "%s, it is the only member, and there is no backup to restore: restore the volume; if the data is permanently lost, delete the Etcd and its claim, and create it again. Starting empty would hide the loss", loss(f))
}

// storeTrouble says why a store is BackupUnreachable, and what to do.
func (f Input) storeTrouble() string {
	return cmp.Or(f.StoreSays, "the backup store does not answer: check the store and its credentials")
}

func refuseForeign(f Input, clusterID string) Decision {
	d := refuse(v1alpha1.ReasonDataOfAnotherCluster, "%s holds data of cluster %s, but this is cluster %s: nothing was changed; mount the right volume, or move the data away", f.DataDir, f.Data.ClusterID, clusterID)
	if f.Recovery == nil && slices.Contains(f.Successors, f.Data.ClusterID) {
		// It was alone then. Whether the recorded cluster has got other members since, it cannot know (docs/adr/0118-restored-data-waits-for-a-person-beside-others.md).
		d.Why = fmt.Sprintf("%s holds data of cluster %s, which a restore of the only member of cluster %s has made, but further members are configured now, which may have newer data of %[3]s: nothing was changed. If no quorum of %[3]s comes back, create a QuorumLossRecovery: it reads all volumes, and names the command that records %[2]s", f.DataDir, f.Data.ClusterID, clusterID)
	}
	d.Volume = cluster.Volume{Store: cluster.StoreOther, ClusterID: f.Data.ClusterID}
	return d
}

func loss(f Input) string {
	if f.Data.State == DataDamaged {
		return fmt.Sprintf("the data of member %s in %s is damaged (%s)", f.Member, f.DataDir, f.Data.Damage)
	}
	return fmt.Sprintf("member %s has no data in %s", f.Member, f.DataDir)
}

func reasonOf(f Input) string {
	if f.Data.State == DataDamaged {
		return v1alpha1.ReasonDataDamaged
	}
	return v1alpha1.ReasonDataLost
}

func refuse(reason, format string, args ...any) Decision {
	return Decision{Action: Refuse, Reason: reason, Why: fmt.Sprintf(format, args...)}
}

func wait(reason, format string, args ...any) Decision {
	return Decision{Action: Wait, Reason: reason, Why: fmt.Sprintf(format, args...)}
}
