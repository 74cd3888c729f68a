// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Blocked returns why a cluster that is to hibernate is kept running; empty if it is not.
func Blocked(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	switch {
	case etcd.Spec.Replicas > 0 || !state.Awake(set):
		return ""
	case etcd.SourceStays():
		return "The members leave the cluster that they have joined, one at a time."
	case etcd.Source() != nil:
		return "The cluster is kept running until the members of the source cluster have left: set spec.replicas back."
	}
	if etcd.Spec.Retention().WhenScaled == v1alpha1.VolumesRetained {
		return ""
	}
	why := cmp.Or(storeMissing(etcd), backupsFail(etcd))
	if why == "" {
		return ""
	}
	return fmt.Sprintf("The cluster is kept running: its volumes would be deleted (persistentVolumeClaimRetentionPolicy.whenScaled: Delete), and %s; to hibernate it with its volumes, set whenScaled to Retain.", why)
}

// Loses returns why a cluster that is to hibernate is kept running although its spec allows it: someone has deleted claims, which go with their
// data once no pod uses them, and the others that serve are no quorum, which would have all of it. Members of which it is not known whether they
// serve do not count: their claims may be new ones. It is empty if nothing is lost. It is pure.
func Loses(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, s *cluster.Snapshot, claims []corev1.PersistentVolumeClaim) string {
	if etcd.Spec.Replicas > 0 || !state.Awake(set) || etcd.Status.ClusterID == "" {
		return ""
	}
	voters := make([]cluster.Voter, etcd.Status.ClusterSize)
	for i := range voters {
		voters[i].Ordinal = i
	}
	if s != nil && s.Quorate() && len(s.Cluster.Voters) > 0 {
		voters = s.Cluster.Voters
	}
	var lost []string
	stay := 0
	for _, v := range voters {
		name := etcd.ClaimName(int32(v.Ordinal))
		switch i := slices.IndexFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }); {
		case i >= 0 && claims[i].DeletionTimestamp != nil:
			lost = append(lost, name)
		case i >= 0 && v.Serving:
			stay++
		}
	}
	if len(lost) == 0 || quorum.Exists(stay, len(voters)) {
		return ""
	}
	do := "set spec.replicas back, and delete the pods of these claims one at a time, each once all others serve; hibernate the cluster only when none is being deleted any more"
	if len(voters) == 1 || s == nil || !s.Quorate() {
		do = "have their volumes retained (persistentVolumeReclaimPolicy: Retain), or copy the data elsewhere, and then delete their pods"
	}
	return fmt.Sprintf("The cluster is kept running: once its pods are gone, each claim that is being deleted goes with its data, and the other members that serve are no quorum (%s). To keep the data, %s.", strings.Join(lost, ", "), do)
}

// BlockedForNow reports whether what keeps a cluster running may end without a change of its spec.
func BlockedForNow(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	return Blocked(etcd, set) != "" && etcd.Source() == nil && storeMissing(etcd) == ""
}

// storeMissing returns why there is no store for a final snapshot; empty if there is one.
func storeMissing(etcd *v1alpha1.Etcd) string {
	store := etcd.BackupStore()
	if store == nil {
		return "there is no backup to wake up from: set spec.backup.store"
	}
	if err := storeaccess.Validate(*store, etcd.Namespace); err != nil {
		return "there is no backup to wake up from: spec.backup: " + err.Error()
	}
	return ""
}

// backupsFail returns why a final snapshot would probably fail; empty if nothing suggests that.
func backupsFail(etcd *v1alpha1.Etcd) string {
	c := etcd.Status.Conditions.Find(v1alpha1.ConditionBackupReady)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return "snapshots fail: " + strings.TrimSuffix(c.Message, ".")
}

// obstacle returns why no final snapshot can be taken of a stopped cluster, or why it would lack data that is to be kept; empty if neither
// is the case.
func obstacle(s *state.State, tasks []v1alpha1.EtcdOperatorTask) string {
	etcd, keeper := s.Etcd, etcdtasks.SetAsideBy(tasks, s.Claims)
	switch why := storeMissing(etcd); {
	case why != "":
		return why
	case etcd.Status.ClusterID == "" || etcd.Status.ClusterSize == 0:
		return "the cluster has never served, so it is unknown what the volumes should hold"
	case etcd.Status.Recovery.LeavesBehind(etcd.Status.ClusterID) && etcd.Status.Hibernation == nil:
		return "the cluster was being recovered from the loss of its quorum: wake it up, and hibernate it once it is ready"
	case keeper != "":
		return fmt.Sprintf("what members had before task %s is on them, and goes with them: delete the task once you do not want to go back to that", keeper)
	}
	return ""
}
