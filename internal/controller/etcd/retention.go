// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// retention is what becomes of the claims when the StatefulSet goes or shrinks.
//
// It is Retain when the StatefulSet shrinks, whatever the Etcd says: the operator scales to zero for other reasons
// than sleep, and whoever else does must not lose data by it. And it is Retain altogether as long as the StatefulSet is
// to be replaced for the sake of its claim template.
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
	switch {
	case etcd.Spec.Replicas > 0 || !awake || etcd.Spec.Retention().WhenScaled == v1alpha1.VolumesRetained:
		return ""
	case etcd.Spec.Backup == nil || etcd.Spec.Backup.Store == nil:
		return "The volumes would be deleted (persistentVolumeClaimRetentionPolicy.whenScaled: Delete), and there is no backup to wake up from: set spec.backup.store, or whenScaled to Retain."
	}
	return "The volumes would be deleted (persistentVolumeClaimRetentionPolicy.whenScaled: Delete), and no final full snapshot has been verified to wake up from: set whenScaled to Retain to put the cluster to sleep with its volumes."
}

// hibernated is the condition of a cluster that is to sleep; none when it is not.
func hibernated(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) []metav1.Condition {
	if etcd.Spec.Replicas > 0 || set == nil {
		return nil
	}
	c := condition(v1alpha1.ConditionHibernated, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "The cluster sleeps, and its volumes are kept.")
	switch why := keptAwake(etcd, set); {
	case why != "":
		c = condition(v1alpha1.ConditionHibernated, metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot, why)
	case set.Status.Replicas > 0:
		c.Status, c.Message = metav1.ConditionFalse, fmt.Sprintf("%d pods are left.", set.Status.Replicas)
	}
	return []metav1.Condition{c}
}
