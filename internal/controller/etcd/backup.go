// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// firstSnapshotTimeout is how long the first full snapshot may take before the condition says that it failed.
const firstSnapshotTimeout = 15 * time.Minute

// snapshotLeases are the leases by which the leader's agent tells of snapshots; nil where there is none.
type snapshotLeases struct{ full, delta *coordinationv1.Lease }

// leasesOfSnapshots reads them from the cache. What somebody else's tell is not of this Etcd's snapshots.
func (r *Reconciler) leasesOfSnapshots(ctx context.Context, etcd *v1alpha1.Etcd) (leases snapshotLeases, err error) {
	for name, into := range map[string]**coordinationv1.Lease{
		component.FullSnapshotLeaseName(etcd.Name): &leases.full, component.DeltaSnapshotLeaseName(etcd.Name): &leases.delta,
	} {
		lease := &coordinationv1.Lease{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: etcd.Namespace, Name: name}, lease)
		if client.IgnoreNotFound(err) != nil {
			return snapshotLeases{}, fmt.Errorf("reading lease %s/%s: %w", etcd.Namespace, name, err)
		}
		if err == nil && ownership.Of(etcd, "Lease", lease) == nil {
			*into = lease
		}
	}
	return leases, nil
}

// backupReady says whether snapshots are taken. It is pure. How old the newest delta is does not matter: while
// nothing is written there is nothing to take.
func backupReady(before *metav1.Condition, leases snapshotLeases, now time.Time) metav1.Condition {
	failed := ""
	if leases.full != nil {
		failed = leases.full.Annotations[v1alpha1.AnnotationBackupError]
	}
	switch {
	case failed != "":
		return condition(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, fmt.Sprintf("The last snapshot failed: %s.", failed))
	case leases.full != nil && leases.full.Spec.RenewTime != nil:
		return condition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "Newest "+said("full", leases.full)+said(", delta", leases.delta)+".")
	case before != nil && before.Reason == v1alpha1.ReasonNoFullSnapshot && now.Sub(before.LastTransitionTime.Time) >= firstSnapshotTimeout:
		return condition(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, fmt.Sprintf("No full snapshot was taken within %s: look at the log of the leader's container %s.", firstSnapshotTimeout, v1alpha1.ContainerBackupRestore))
	case before != nil && before.Status == metav1.ConditionFalse:
		return *before
	}
	return condition(v1alpha1.ConditionBackupReady, metav1.ConditionUnknown, v1alpha1.ReasonNoFullSnapshot, "There is no full snapshot yet.")
}

// said is what a lease says of the newest snapshot of a kind; empty where there is none.
func said(kind string, lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	return fmt.Sprintf("%s snapshot: revision %s, %s", kind, ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Spec.RenewTime.UTC().Format(time.RFC3339))
}
