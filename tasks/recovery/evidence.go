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
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evidence gathers what a choice rests on, once all members are stopped.
func (h *Handler) evidence(ctx context.Context, task tasks.Task, s *cluster.Snapshot) (e Evidence, err error) {
	etcd := task.Etcd
	e.Etcd, e.Members = client.ObjectKeyFromObject(etcd), newcluster.Members(etcd)
	if e.Volumes, err = h.volumes().Look(ctx, task, s); err != nil {
		return e, err
	}
	if e.Backup, err = h.newestBackup(ctx, etcd); err != nil {
		return e, err
	}
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
	e.Lineage = newcluster.Lineage(etcd.Status.Recovery, made, began, cmp.Or(etcd.Status.ClusterID, began))
	e.Refused = len(made) > 0 && !slices.Contains(made, e.Lineage[len(e.Lineage)-1])
	return e, nil
}

// alone reports whether the only member of a cluster is configured as such: it then restores the newest backup itself, by the same
// fact. The members of a cluster that grows wait for a recovery. So does one whose recovery, or Restore, cannot go on: it restores nothing
// else as long as that is recorded, and the cluster that it makes has not served yet.
func (h *Handler) alone(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	if newcluster.Members(etcd) > 1 || etcd.Status.Recovery.LeavesBehind(etcd.Status.ClusterID) {
		return false, nil
	}
	shared, err := h.shared(ctx, etcd)
	return err == nil && shared.Alone(), err
}

// shared reads the configuration that the members share.
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

// newestBackup describes the newest backup that the agents have recorded. Without a full snapshot there is none.
func (h *Handler) newestBackup(ctx context.Context, etcd *v1alpha1.Etcd) (Backup, error) {
	if !etcd.HasBackupStore() {
		return Backup{}, nil
	}
	leases, err := observe.ReadSnapshotLeases(ctx, h.Live, etcd)
	if err != nil {
		return Backup{}, coded.Error(v1alpha1.ErrObserve, err)
	}
	full := recordOf(leases.Full)
	if full == (backup.Record{}) {
		return Backup{}, nil
	}
	return Backup{
		Revision: full.Newer(recordOf(leases.Delta)).Revision,
		Says:     fmt.Sprintf("a full snapshot at revision %d of %s, and the deltas since", full.Revision, full.Created.Format(time.RFC3339)),
	}, nil
}

// recordOf returns what a lease records of a snapshot. For one that cannot be read, it returns that there is a snapshot.
func recordOf(lease *coordinationv1.Lease) backup.Record {
	if lease == nil {
		return backup.Record{}
	}
	renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	r, err := backup.ParseRecord(ptr.Deref(lease.Spec.HolderIdentity, ""), renewed)
	if err != nil {
		return backup.Record{Created: renewed.UTC()}
	}
	return r
}

// madeBy returns the IDs, in hex, that the cluster may have which a recovery makes: with the present peer URL of its first member last,
// and with that before or after the change to TLS between peers. It is pure.
func madeBy(shared member.Shared, r *v1alpha1.ClusterRecovery) ([]string, error) {
	if _, err := shared.Identify(r.Member); err != nil {
		return nil, fmt.Errorf("computing the ID of the cluster that the last recovery made: %w", err)
	}
	shared.Recovery = &member.Recovery{Task: string(r.TaskUID), Member: r.Member}
	made := shared.RecoveredIDs()
	slices.Reverse(made)
	return made, nil
}
