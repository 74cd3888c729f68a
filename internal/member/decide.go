// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// DataState is what the data directory of a member holds.
type DataState int

// What a data directory may hold.
const (
	// DataNone: no write-ahead log. The member never ran here, or was interrupted before its first entry.
	DataNone DataState = iota
	// DataPresent: a write-ahead log that etcd can read, and a database.
	DataPresent
	// DataDamaged: a write-ahead log, and etcd could not start with what is there.
	DataDamaged
)

// Data is what is known of a data directory.
type Data struct {
	State DataState
	// ClusterID of the cluster that the data belongs to, in hex; empty where it cannot be read.
	ClusterID string
	// Damage is what is wrong with damaged data.
	Damage string
}

// Answer is what the other members, by a linearizable read, say of a member.
type Answer int

// The answers.
const (
	// AnswerNone: no answer. There is no quorum, no way to it, or no other member.
	AnswerNone Answer = iota
	// AnswerNeverStarted: they list the member, and it has never run.
	AnswerNeverStarted
	// AnswerStarted: they list the member, and it has run before.
	AnswerStarted
	// AnswerNotListed: they serve without the member.
	AnswerNotListed
)

// Backup is what is known of the backups of the cluster.
type Backup int

// What may be known of backups.
const (
	// BackupNotConfigured: the cluster has no store.
	BackupNotConfigured Backup = iota
	// BackupHolds: the store holds a full snapshot.
	BackupHolds
	// BackupEmpty: the store holds none.
	BackupEmpty
	// BackupUnreachable: the store does not answer.
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
	// Join the living cluster, which lists the member and has never seen it.
	Join Action = "Join"
	// Replace the member by a learner of the same name: take it off the member list where it is on it, put
	// its data aside where there is some, add a learner.
	Replace Action = "Replace"
	// Restore the newest backup, and look again.
	Restore Action = "Restore"
	// Rebuild a cluster of one member from the data that is there, and look again.
	Rebuild Action = "Rebuild"
	// Wait, and look again.
	Wait Action = "Wait"
	// Refuse to start.
	Refuse Action = "Refuse"
)

// Facts are what the decision rests on.
type Facts struct {
	// Member is the name of the member.
	Member string
	// DataDir is where its data should be.
	DataDir string
	Data    Data
	// Single: the cluster has no other member.
	Single bool
	// ClusterID is the recorded ID of the cluster in hex; empty when none is recorded.
	ClusterID string
	// Others are asked only when there is no data to start with.
	Others Answer
	// OthersClusterID is the ID of the cluster that the others are of, in hex.
	OthersClusterID string
	// Backup is looked up only when there is neither data nor an answer.
	Backup Backup

	// Recovery is how the cluster begins anew after it has lost its quorum; nil when there is none.
	Recovery *Recovery
	// NewClusterID is the ID of the cluster that the recovery makes, in hex.
	NewClusterID string
	// Rebuilt: a Rebuild was interrupted when it was all but done.
	Rebuilt bool
}

// Decision says how a member starts, and why.
type Decision struct {
	Action Action
	// Reason of a Wait or Refuse, one of those of the condition DataVolumesReady.
	Reason string
	// Why is a sentence for people; where the member does not start it says what to do.
	Why string
}

// Decide decides how a member starts. A member that has lost its data has also lost the votes it gave and
// the entries it acknowledged: started again under its old identity it could elect a leader that lacks
// committed entries. So a member without data starts only where it is certain that it never ran, or under a
// new identity, as a learner, which only a quorum can give it.
//
// The recorded cluster ID may lag behind by the time that the operator takes to record it and the kubelet
// to mount it. It is asked only when no quorum answers, and then etcd has the last word: before it
// bootstraps it asks the peers once more, without a quorum, and refuses when one of them has seen it.
func Decide(f Facts) Decision {
	switch {
	case f.Recovery != nil:
		return decideRecovery(f)
	case f.ClusterID != "" && f.Data.ClusterID != "" && f.Data.ClusterID != f.ClusterID:
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

// decideByOthers: a quorum is there without the member.
func decideByOthers(f Facts) Decision {
	switch {
	case f.ClusterID != "" && f.OthersClusterID != f.ClusterID:
		return refuse(v1alpha1.ReasonDataOfAnotherCluster, "the other members belong to cluster %s, but this is cluster %s: start them with the volumes of this cluster", f.OthersClusterID, f.ClusterID)
	case f.Others == AnswerNeverStarted && f.Data.State == DataNone:
		return Decision{Action: Join, Why: "the cluster serves, lists the member and has never seen it run"}
	case f.Others == AnswerNotListed && f.Data.State == DataNone:
		return Decision{Action: Replace, Why: "there is no data, and the cluster serves without listing the member: it joins as a learner"}
	}
	return Decision{Action: Replace, Why: loss(f) + ", and the cluster serves: the member is replaced by a learner of the same name"}
}

// decideFirstStart: there is no data and no recorded cluster, and nobody serves.
func decideFirstStart(f Facts) Decision {
	switch {
	case f.Backup == BackupUnreachable:
		return wait(v1alpha1.ReasonBackupUnreachable, "there is no data, and the backup store does not answer, so it is unknown whether there is a backup to restore: check the store and its credentials")
	case f.Backup == BackupHolds && f.Single:
		return Decision{Action: Restore, Why: "there is no data and no recorded cluster, and the store holds a backup"}
	case f.Backup == BackupHolds:
		return wait(v1alpha1.ReasonBackupOfEarlierCluster, "this is a new cluster, but its store holds backups of an earlier one: to restore them, create the Etcd with one replica and scale it out afterwards; to start empty, choose another prefix")
	}
	return Decision{Action: Bootstrap, Why: "there is no data, no recorded cluster and no other member that serves"}
}

// decideAlone: the only member of a cluster that has served has no data that it could start with.
func decideAlone(f Facts) Decision {
	switch f.Backup {
	case BackupHolds:
		return Decision{Action: Restore, Why: loss(f) + ", it is the only member, and the store holds a backup"}
	case BackupUnreachable:
		return wait(v1alpha1.ReasonBackupUnreachable, "%s, and the backup store does not answer: check the store and its credentials", loss(f))
	}
	return refuse(reasonOf(f), "%s, it is the only member, and there is no backup to restore: restore the volume; if the data is permanently lost, delete the Etcd and create it again. Starting empty would hide the loss", loss(f))
}

func refuseForeign(f Facts, clusterID string) Decision {
	return refuse(v1alpha1.ReasonDataOfAnotherCluster, "%s holds data of cluster %s, but this is cluster %s: nothing was changed; mount the right volume, or move the data away", f.DataDir, f.Data.ClusterID, clusterID)
}

func loss(f Facts) string {
	if f.Data.State == DataDamaged {
		return fmt.Sprintf("the data of member %s in %s is damaged (%s)", f.Member, f.DataDir, f.Data.Damage)
	}
	return fmt.Sprintf("member %s has no data in %s", f.Member, f.DataDir)
}

func reasonOf(f Facts) string {
	if f.Data.State == DataDamaged {
		return v1alpha1.ReasonDataDamaged
	}
	return v1alpha1.ReasonDataLost
}

func refuse(reason, format string, args ...any) Decision {
	return Decision{Refuse, reason, fmt.Sprintf(format, args...)}
}

func wait(reason, format string, args ...any) Decision {
	return Decision{Wait, reason, fmt.Sprintf(format, args...)}
}
