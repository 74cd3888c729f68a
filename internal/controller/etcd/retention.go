// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// retention is what becomes of the claims when the StatefulSet goes or shrinks.
//
// It is Retain when the StatefulSet shrinks, whatever the Etcd says: the operator scales to zero for other reasons
// than sleep, whoever else does must not lose data by it, and in sleep the claims go by a record of their own. And it
// is Retain altogether as long as the StatefulSet is to be replaced for the sake of its claim template.
func retention(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) v1alpha1.PersistentVolumeClaimRetentionPolicy {
	p := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: etcd.Spec.Retention().WhenDeleted, WhenScaled: v1alpha1.VolumesRetained}
	if templateTooSmall(etcd, set) {
		p.WhenDeleted = v1alpha1.VolumesRetained
	}
	return p
}

// keptAwake is why a cluster that is to sleep stays awake; empty when it does not.
func keptAwake(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	awake := set != nil && ptr.Deref(set.Spec.Replicas, 1) > 0
	if etcd.Spec.Replicas > 0 || !awake || etcd.Spec.Retention().WhenScaled == v1alpha1.VolumesRetained {
		return ""
	}
	why := storeMissing(etcd)
	if why == "" {
		why = backupsFail(etcd)
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("The cluster is kept awake: its volumes would be deleted (persistentVolumeClaimRetentionPolicy.whenScaled: Delete), and %s; to put it to sleep with its volumes set whenScaled to Retain.", why)
}

// storeMissing is why there is no store that a final snapshot could go into; empty when there is.
func storeMissing(etcd *v1alpha1.Etcd) string {
	store := component.BackupStore(etcd)
	if store == nil {
		return "there is no backup to wake up from: set spec.backup.store"
	}
	if err := component.ValidateStore(*store, etcd.Namespace); err != nil {
		return "there is no backup to wake up from: spec.backup: " + err.Error()
	}
	return ""
}

// backupsFail is why a final snapshot would probably fail; empty when nothing speaks for that.
func backupsFail(etcd *v1alpha1.Etcd) string {
	c := meta.FindStatusCondition(etcd.Status.Conditions, v1alpha1.ConditionBackupReady)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return "snapshots fail: " + strings.TrimSuffix(c.Message, ".")
}

// obstacle is why no final snapshot can be taken of a cluster that sleeps; empty when one can.
func obstacle(etcd *v1alpha1.Etcd) string {
	switch why := storeMissing(etcd); {
	case why != "":
		return why
	case etcd.Status.ClusterID == "" || etcd.Status.ClusterSize == 0:
		return "the cluster has never served, so nobody knows what should be on them"
	case etcd.Status.Recovery != nil && etcd.Status.Recovery.PreviousClusterID == etcd.Status.ClusterID && etcd.Status.Hibernation == nil:
		return "the cluster was being recovered from the loss of its quorum: wake it up, and put it to sleep once it is ready"
	}
	return ""
}
