// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// firstSnapshotTimeout is how long the first full snapshot may take before the condition says that it failed.
const firstSnapshotTimeout = 15 * time.Minute

// staleAllowance is added to twice the delta period: agents report every ten seconds, and clocks differ.
const staleAllowance = 30 * time.Second

// backupReady returns the condition BackupReady: whether snapshots are taken. The age of the newest delta does not matter, since an idle
// cluster has nothing to take. What matters is when the agent last found that the store has everything, unless the delta period is 0. A
// member that waits for the store comes first: its agent only writes leases once it runs.
func backupReady(before *metav1.Condition, waits string, leases observe.SnapshotLeases, peopleOnly bool, period time.Duration, now time.Time) metav1.Condition {
	failed := ""
	if leases.Full != nil {
		failed = leases.Full.Annotations[v1alpha1.AnnotationBackupError]
	}
	switch {
	case waits != "":
		return conditions.False(v1alpha1.ConditionBackupReady, v1alpha1.ReasonBackupUnreachable, "%s.", waits)
	case failed != "":
		return conditions.False(v1alpha1.ConditionBackupReady, v1alpha1.ReasonBackupFailed, "The last snapshot failed, or could not be restored: %s.", failed)
	case leases.Full != nil && leases.Full.Spec.RenewTime != nil && stale(leases.Full, period, now):
		return conditions.Unknown(v1alpha1.ConditionBackupReady, v1alpha1.ReasonBackupsStale,
			"No agent has reported since %s that the backups are up to date, and deltas are taken every %s: check that the cluster has a leader, and the log of the leader's container %s.",
			sanitize.Text(leases.Full.Annotations[v1alpha1.AnnotationBackupsCurrent], len(time.RFC3339)+8), period, v1alpha1.ContainerBackupRestore)
	case leases.Full != nil && leases.Full.Spec.RenewTime != nil:
		return conditions.True(v1alpha1.ConditionBackupReady, v1alpha1.ReasonBackupSucceeded, "Newest %s%s%s.", said("full", leases.Full), said(", delta", leases.Delta), restorable(leases.Full, peopleOnly))
	case before != nil && before.Reason == v1alpha1.ReasonNoFullSnapshot && now.Sub(before.LastTransitionTime.Time) >= firstSnapshotTimeout:
		return conditions.False(v1alpha1.ConditionBackupReady, v1alpha1.ReasonBackupFailed, "No full snapshot was taken within %s: check the log of the leader's container %s.", firstSnapshotTimeout, v1alpha1.ContainerBackupRestore)
	case before != nil && before.Reason == v1alpha1.ReasonBackupFailed:
		return *before
	}
	return conditions.Unknown(v1alpha1.ConditionBackupReady, v1alpha1.ReasonNoFullSnapshot, "There is no full snapshot yet.")
}

// restorable returns a sentence that says since when every state can be restored, as the leader's agent has reported; empty if it has not.
func restorable(full *coordinationv1.Lease, peopleOnly bool) string {
	if peopleOnly {
		return "; only people can restore them: the snapshots are encrypted, and spec.backup.encryption.identitySecretRef is not set"
	}
	all, locked := backup.ReadIntervals(full.Annotations[v1alpha1.AnnotationRestorable]), ""
	if said := full.Annotations[v1alpha1.AnnotationUndecryptable]; said != "" {
		locked = "; " + sanitize.Text(said, 1024)
	}
	if len(all) == 0 {
		return locked
	}
	since := "; every state since " + all[0].From.Time.UTC().Format(time.RFC3339) + " can be restored"
	if !all[0].Fine {
		since = "; the state of " + all[0].From.Time.UTC().Format(time.RFC3339) + " can be restored"
	}
	if n := len(all) - 1; n > 0 {
		since += fmt.Sprintf(", and %d before it, back to %s (kubectl etcdtask restorable ETCD)", n, all[n].From.Time.UTC().Format(time.RFC3339))
	}
	return since + locked
}

// unreachable returns which member waits because it cannot read the store, and why; empty if none does.
func unreachable(s *cluster.Snapshot) string {
	if s == nil {
		return ""
	}
	for _, o := range s.Ordinals {
		if o.Pod != nil && o.Pod.Refusal != nil && o.Pod.Refusal.Reason == v1alpha1.ReasonBackupUnreachable {
			return fmt.Sprintf("%s does not start: %s", o.Name, o.Pod.Refusal.Message)
		}
	}
	return ""
}

// stale reports whether no agent has reported the store up to date for twice the period. Agents of earlier versions report nothing.
func stale(full *coordinationv1.Lease, period time.Duration, now time.Time) bool {
	current, err := time.Parse(time.RFC3339, full.Annotations[v1alpha1.AnnotationBackupsCurrent])
	return err == nil && period > 0 && now.Sub(current) > 2*period+staleAllowance
}

// stalePeriod returns the delta period of an Etcd whose members run; 0 if no deltas are due.
func stalePeriod(o Input) time.Duration {
	if o.Snapshot == nil || o.Snapshot.Replicas() == 0 {
		return 0
	}
	return component.DeltaSnapshotPeriod(o.Etcd)
}

// said returns what a lease says of the newest snapshot of a kind; empty if there is no snapshot.
func said(kind string, lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	return fmt.Sprintf("%s snapshot: revision %s, %s", kind, ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Spec.RenewTime.UTC().Format(time.RFC3339))
}
