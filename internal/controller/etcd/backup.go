// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// firstSnapshotTimeout is how long the first full snapshot may take before the condition says that it failed.
const firstSnapshotTimeout = 15 * time.Minute

// backupReady says whether snapshots are taken. It is pure. How old the newest delta is does not matter: while
// nothing is written there is nothing to take.
func backupReady(before *metav1.Condition, leases observe.SnapshotLeases, now time.Time) metav1.Condition {
	failed := ""
	if leases.Full != nil {
		failed = leases.Full.Annotations[v1alpha1.AnnotationBackupError]
	}
	switch {
	case failed != "":
		return condition(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, fmt.Sprintf("The last snapshot failed: %s.", failed))
	case leases.Full != nil && leases.Full.Spec.RenewTime != nil:
		return condition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded, "Newest "+said("full", leases.Full)+said(", delta", leases.Delta)+".")
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
