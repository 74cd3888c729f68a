// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// decideRecovery decides how a member starts while its cluster is recovered from quorum loss, wakes up without volumes, or goes back to an
// earlier state. One member starts a new cluster with a new ID, and the others join it as learners. No member continues with data of the
// previous cluster, so members that come late with such data cannot form a quorum.
//
// Once the new cluster has served, it is not bootstrapped again: the second one would have the same ID as the first. The recorded cluster
// ID is that of the previous cluster until the operator has seen the new one serve, which may be late: see mayHaveBegun. A single member, the
// only one with its data, may begin again until then; afterwards the recovery is over for it (Shared.Settled).
func decideRecovery(f Input) Decision {
	served := f.ClusterID == f.NewClusterID || !f.Single && f.Data.ClusterID == f.NewClusterID
	switch {
	case f.Data.State == DataPresent && f.Data.ClusterID == f.NewClusterID:
		return Decision{Action: Start, Why: "the member has data of the recovered cluster"}
	case f.Data.ClusterID != "" && f.Data.ClusterID != f.NewClusterID && !f.Recovery.LeavesBehind(f.Data.ClusterID):
		return refuseForeign(f, f.NewClusterID)
	case f.Others != AnswerNone && f.OthersClusterID == f.NewClusterID:
		return joinRecovered(f)
	case f.Others != AnswerNone:
		return wait(reasonBeside(f), "cluster %s answers with a quorum, and %s", f.OthersClusterID, f.Recovery.beside())
	case served:
		return wait(reasonOfStanding(f), "%s, and no quorum of the recovered cluster %s answers; only a quorum can add the member. Restore the other members", standing(f), f.NewClusterID)
	case f.Member != f.Recovery.Member:
		return wait(f.Recovery.reason(), "%s from %s: %s joins it as a learner once it serves", f.Recovery.what(), f.Recovery.from(), f.Member)
	case f.mayHaveBegun():
		return wait(reasonOfStanding(f), "%s, and the new cluster %s may have begun with other data of it, and acknowledged writes: if it began again, two would have the same identity. Restore its volume, or the other members; if they are permanently lost, %s", standing(f), f.NewClusterID, f.Recovery.again())
	case f.BegunUnknown:
		return wait(v1alpha1.ReasonBackupUnreachable, "%s, from %s, and it is unknown whether the new cluster %s has begun with other data: %s", f.Recovery.what(), f.Recovery.from(), f.NewClusterID, f.storeTrouble())
	case f.Recovery.Source == RecoverFromBackup:
		return recoverFromBackup(f)
	case f.Recovery.restores():
		// Whatever data the member has is set aside once the earlier state is complete.
		return Decision{Action: Rebuild, Why: f.Recovery.what() + ": " + f.Recovery.from()}
	}
	return recoverFromData(f)
}

// joinRecovered: the recovered cluster serves, and members join it without asking the operator. Once the operator announces a change of the
// member list, a member without data waits for the operator as usual.
func joinRecovered(f Input) Decision {
	if f.Others == AnswerNeverStarted && f.Data.State == DataNone {
		return Decision{Action: Join, Why: "the recovered cluster serves, lists the member and has never seen it run"}
	}
	if f.Planned && f.Data.State == DataNone && f.ClusterID == f.NewClusterID {
		return decideByOthers(f)
	}
	return Decision{Action: Replace, Why: standing(f) + ", and the recovered cluster serves: the member joins it as a learner"}
}

// recoverFromData: this member was chosen for its data.
func recoverFromData(f Input) Decision {
	if f.Rebuilt || f.Data.State == DataPresent && f.Data.ClusterID == f.Recovery.PreviousClusterID {
		return Decision{Action: Rebuild, Why: "the cluster has lost quorum and is recovered from the data of this member"}
	}
	if f.Data.State == DataPresent {
		return refuse(v1alpha1.ReasonDataOfAnotherCluster, "%s, but it must be recovered from data of cluster %s: delete task %s, and create another recovery", standing(f), f.Recovery.PreviousClusterID, f.Recovery.TaskName)
	}
	return refuse(reasonOf(f), "%s, but the cluster must be recovered from it: delete task %s, and create another recovery", loss(f), f.Recovery.TaskName)
}

// recoverFromBackup: this member was chosen to restore the backup.
func recoverFromBackup(f Input) Decision {
	switch {
	case f.Backup == BackupHolds:
		return Decision{Action: Restore, Why: f.Recovery.what() + " from the newest backup"}
	case f.Backup == BackupUnreachable:
		return wait(v1alpha1.ReasonBackupUnreachable, "%s from its newest backup: %s", f.Recovery.what(), f.storeTrouble())
	case f.Recovery.wakes():
		return refuse(v1alpha1.ReasonRestoreFailed, "%s from its final snapshot, at revision %d, which is missing: restore the snapshot, or the store that holds it", f.Recovery.what(), f.Recovery.Revision)
	}
	return refuse(v1alpha1.ReasonRestoreFailed, "the cluster must be recovered from its newest backup, but there is none: restore the backup, or the volume of a member under the name of its claim, delete task %s, and create another recovery", f.Recovery.TaskName)
}

// mayHaveBegun reports whether this member may have started the new cluster and then lost that data. It may have if the store or another
// member says so, or if the volume has less than it had before, or than what was set aside on it. For a single member it does not matter: no
// other one can be confused with it.
func (f Input) mayHaveBegun() bool {
	switch {
	case f.Single || f.Recovery.Source == RecoverFromData:
		return false
	case f.Begun:
		return true
	case f.Rebuilt:
		return false
	case f.Data.State == DataDamaged && f.Data.ClusterID == "":
		return f.KeptAside // so the damaged data is not what the member had before
	case f.Data.State == DataNone:
		// Data that the member had is still in place until what the new cluster begins with is complete: this is another volume, or that is lost.
		return f.Recovery.HadData || f.KeptAside
	}
	return false
}

// again tells a person how to start another recovery, which chooses again by what is on all volumes.
func (r Recovery) again() string {
	if r.wakes() {
		return "create a QuorumLossRecovery"
	}
	return fmt.Sprintf("delete task %s, and create a QuorumLossRecovery", r.TaskName)
}

// what describes what happens to the cluster.
func (r Recovery) what() string {
	if r.wakes() {
		return "the cluster wakes up"
	}
	if r.restores() {
		return fmt.Sprintf("the cluster goes back to an earlier state by task %s", r.TaskName)
	}
	return "the cluster has lost quorum and is being recovered"
}

// beside tells a person what to do about another cluster that answers with a quorum.
func (r Recovery) beside() string {
	if r.wakes() {
		return fmt.Sprintf("cluster %s was hibernated and is waking up: stop the members that run with its data", r.PreviousClusterID)
	}
	if r.restores() {
		return fmt.Sprintf("cluster %s goes back to an earlier state: stop the members that run with its data. To keep it as it is, delete task %s, and the operator withdraws the restore unless %s may have begun the new cluster", r.PreviousClusterID, r.TaskName, r.Member)
	}
	return fmt.Sprintf("cluster %s is being recovered from quorum loss: if it has come back, delete task %s, and the operator withdraws the recovery unless %s may have begun the new cluster", r.PreviousClusterID, r.TaskName, r.Member)
}

// reasonBeside returns the reason of a member that waits because another cluster answers. ReasonPreviousClusterServes permits the operator to
// withdraw the recovery: while the chosen member has the data of the previous cluster, the new one has not begun.
func reasonBeside(f Input) string {
	previous := f.Recovery.PreviousClusterID
	if !f.Recovery.wakes() && f.Member == f.Recovery.Member && f.Data.State == DataPresent && f.Data.ClusterID == previous && f.OthersClusterID == previous {
		return v1alpha1.ReasonPreviousClusterServes
	}
	return f.Recovery.reason()
}

// reason returns the reason of a member that waits for the chosen one.
func (r Recovery) reason() string {
	if r.wakes() {
		return v1alpha1.ReasonWakingUp
	}
	return v1alpha1.ReasonRecovering
}

// from describes the source of a recovery.
func (r Recovery) from() string {
	switch r.Source {
	case RecoverFromBackup:
		return "the newest backup, by member " + r.Member
	case RecoverFromPoint:
		return fmt.Sprintf("revision %d in the backup, by member %s", r.Restore.Revision, r.Member)
	case RecoverFromKept:
		return fmt.Sprintf("the data in %s on the volume of member %s", r.Restore.Kept, r.Member)
	}
	return "the data of member " + r.Member
}

// reasonOfStanding returns the reason of a member that waits for the recovered cluster.
func reasonOfStanding(f Input) string {
	if f.Data.State == DataPresent {
		return f.Recovery.reason()
	}
	return reasonOf(f)
}

// standing describes what a member has in place of data of the recovered cluster.
func standing(f Input) string {
	if f.Data.State == DataPresent {
		return fmt.Sprintf("member %s has data of cluster %s from before the recovery", f.Member, f.Data.ClusterID)
	}
	return loss(f)
}
