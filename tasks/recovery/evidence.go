// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evidence gathers what the choice rests on, once all members are stopped.
func (h *Handler) evidence(ctx context.Context, task tasks.Task, s *cluster.Snapshot) (e Evidence, err error) {
	etcd := task.Etcd
	e.Etcd, e.Members = client.ObjectKeyFromObject(etcd), newcluster.Members(etcd)
	if e.Volumes, err = h.volumes().Look(ctx, task, s); err != nil {
		return e, err
	}
	leases, err := h.snapshotLeases(ctx, etcd)
	if err != nil {
		return e, err
	}
	// The status forgets it before there is a snapshot, and a restore by the only member is not in it. The Lease stays if the store is removed.
	e.Backup, e.Began = backupOf(etcd, leases), max(newcluster.Began(etcd.Status.Recovery), newcluster.RecordedBegan(leases.Full))
	var made []string
	if r := etcd.Status.Recovery; r != nil {
		shared, err := h.shared(ctx, etcd)
		if err != nil {
			return e, coded.Error(v1alpha1.ErrObserve, err)
		}
		if made, err = madeBy(shared, r); err != nil {
			return e, coded.Error(v1alpha1.ErrObserve, err)
		}
	}
	began := ptr.Deref(task.Object.Status.Recovery, v1alpha1.RecoveryStatus{}).PreviousClusterID
	// A person who records another cluster ID while the task waits has chosen that cluster's data over the backup.
	e.PreferData = etcd.Status.ClusterID != "" && began != "" && etcd.Status.ClusterID != began
	e.Lineage = newcluster.Lineage(etcd.Status.Recovery, made, began, cmp.Or(etcd.Status.ClusterID, began))
	e.Refused = len(made) > 0 && !slices.Contains(made, e.Lineage[len(e.Lineage)-1])
	return e, nil
}

// fewestVoters returns how many voters the cluster has at least. It reads the tasks only if no voter has returned the member list.
func (h *Handler) fewestVoters(ctx context.Context, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (int, error) {
	if n := len(s.Cluster.Voters); n > 0 {
		return n, nil
	}
	all, err := etcdtasks.List(ctx, h.Live, etcd)
	if err != nil {
		return 0, coded.Error(v1alpha1.ErrObserve, err)
	}
	return fewestVoters(etcd, all, s.Replicas()), nil
}

// recreating says which RecreateRollout keeps all members stopped, or is about to; empty if none does. A recovery does not
// preempt it: the members would start beside a pod that it waits for, and it would stop them again afterwards.
func (h *Handler) recreating(ctx context.Context, etcd *v1alpha1.Etcd) (string, error) {
	all, err := etcdtasks.List(ctx, h.Live, etcd)
	if err != nil {
		return "", coded.Error(v1alpha1.ErrObserve, err)
	}
	for i := range all {
		if scale.Holds(&all[i]) {
			return fmt.Sprintf("RecreateRollout %s stops all members of Etcd %s, and starts them again once the last pod is gone: whether the quorum is lost is known only then. Wait for that, or delete the task to start them now; if there is no quorum then, create the recovery again", all[i].Name, etcd.Name), nil
		}
	}
	return "", nil
}

// restoring says which Restore keeps all members stopped, and has not chosen yet what they start from; empty if none does. Then it is why there is
// no quorum. A recovery may supersede it once it has chosen: the members may be unable to start from that.
func (h *Handler) restoring(ctx context.Context, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (string, error) {
	if s.StatefulSet.HeldAtZeroBy == "" {
		return "", nil
	}
	all, err := etcdtasks.List(ctx, h.Live, etcd)
	if err != nil {
		return "", coded.Error(v1alpha1.ErrObserve, err)
	}
	for _, t := range all {
		runs := t.Status.State == v1alpha1.TaskStateInProgress && t.DeletionTimestamp == nil
		if t.UID == s.StatefulSet.HeldAtZeroBy && t.Spec.Type == v1alpha1.Restore && runs && !t.SetsAside() {
			return fmt.Sprintf("Restore %s keeps all members of Etcd %s stopped, and has not chosen yet what they start from: whether the quorum is lost is known only once they are started. Wait for that, or delete the task to start them now as they were; if there is no quorum then, create the recovery again", t.Name, etcd.Name), nil
		}
	}
	return "", nil
}

// alone reports whether the cluster has one member that is configured as the only one. By the same configuration, the agent of that member
// restores the newest backup without a task. It does not while the cluster grows, nor while an earlier task has chosen what the member
// starts from: then a recovery is needed.
func (h *Handler) alone(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	r := etcd.Status.Recovery
	if newcluster.Members(etcd) > 1 || r != nil && r.Task != "" && r.LeavesBehind(etcd.Status.ClusterID) {
		return false, nil
	}
	shared, err := h.shared(ctx, etcd)
	return err == nil && shared.Alone(), err
}

// shared reads the shared configuration of the members.
func (h *Handler) shared(ctx context.Context, etcd *v1alpha1.Etcd) (member.Shared, error) {
	set := &appsv1.StatefulSet{}
	if err := h.Live.Get(ctx, client.ObjectKeyFromObject(etcd), set); client.IgnoreNotFound(err) != nil {
		return member.Shared{}, fmt.Errorf("reading StatefulSet %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	key, config := client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.ConfigMapName(ownership.Manager(etcd, set))}, &corev1.ConfigMap{}
	if err := h.Live.Get(ctx, key, config); err != nil {
		return member.Shared{}, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	if foreign := ownership.Of(etcd, "ConfigMap", config); foreign != nil {
		return member.Shared{}, fmt.Errorf("reading how the members are configured: %s", foreign)
	}
	shared, err := member.ParseShared(config.Data)
	if err != nil {
		return member.Shared{}, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	return shared, nil
}

// snapshotLeases reads what the agents have recorded of backups, and of where clusters have begun.
func (h *Handler) snapshotLeases(ctx context.Context, etcd *v1alpha1.Etcd) (observe.SnapshotLeases, error) {
	leases, err := observe.ReadSnapshotLeases(ctx, h.Live, etcd)
	return leases, coded.Error(v1alpha1.ErrObserve, err)
}

// newestBackup returns the newest backup that the agents have recorded; the zero value if there is none: see backupOf.
func (h *Handler) newestBackup(ctx context.Context, etcd *v1alpha1.Etcd) (Backup, error) {
	leases, err := h.snapshotLeases(ctx, etcd)
	return backupOf(etcd, leases), err
}

// backupOf returns the backup that the leases record; the zero value if they record no full snapshot, or if the Etcd has no store to restore it from.
func backupOf(etcd *v1alpha1.Etcd, leases observe.SnapshotLeases) Backup {
	full, delta := recordOf(leases.Full), recordOf(leases.Delta)
	if !etcd.HasBackupStore() || full == (backup.Record{}) {
		return Backup{}
	}
	return Backup{
		Revision: full.Continued(delta).Revision, Highest: max(full.Revision, delta.Revision),
		Says: fmt.Sprintf("a full snapshot at revision %d of %s, and the deltas since", full.Revision, full.Created.Format(time.RFC3339)),
	}
}

// recordOf returns the record of a snapshot in a Lease. If it cannot be read, or is not credible, the result only says that a snapshot exists.
func recordOf(lease *coordinationv1.Lease) backup.Record {
	if lease == nil {
		return backup.Record{}
	}
	renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	r, err := backup.ParseRecord(ptr.Deref(lease.Spec.HolderIdentity, ""), renewed)
	if err != nil || r.Revision > newcluster.MaxRevision {
		return backup.Record{Created: renewed.UTC()}
	}
	return r
}

// madeBy returns the IDs, in hex, that the cluster of a recovery may have. The ID depends on the peer URL of its first member, which changes
// with TLS between peers: the ID with the present URL is the last. It is pure.
func madeBy(shared member.Shared, r *v1alpha1.ClusterRecovery) ([]string, error) {
	if _, err := shared.Identify(r.Member); err != nil {
		return nil, fmt.Errorf("computing the ID of the cluster that the last recovery made: %w", err)
	}
	shared.Recovery = &member.Recovery{Task: string(r.TaskUID), Member: r.Member}
	made := shared.RecoveredIDs()
	slices.Reverse(made)
	return made, nil
}
