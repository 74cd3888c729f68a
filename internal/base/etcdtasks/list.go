// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdtasks

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List returns the tasks of an Etcd, of every type and state, without those that are for an earlier Etcd of the same name. The
// reader is a cache with the Index, or the API server.
func List(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) ([]v1alpha1.EtcdOperatorTask, error) {
	key, all := client.ObjectKeyFromObject(etcd), &v1alpha1.EtcdOperatorTaskList{}
	if err := reader.List(ctx, all, Of(key)); err != nil {
		return nil, fmt.Errorf("listing the tasks of Etcd %s: %w", key, err)
	}
	return slices.DeleteFunc(all.Items, func(t v1alpha1.EtcdOperatorTask) bool { return Foreign(&t, etcd) != "" }), nil
}

// Recovering returns the task in progress that makes a new cluster: a QuorumLossRecovery, or else a Restore that replaces data; nil when
// there is none. One that is being deleted does not count.
func Recovering(tasks []v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	if t := running(tasks, v1alpha1.QuorumLossRecovery); t != nil {
		return t
	}
	if t := running(tasks, v1alpha1.Restore); t != nil && t.Status.Recovery != nil {
		return t
	}
	return nil
}

// OfNewerOperator returns the task in progress with a UID whose type only a newer operator knows; nil if there is none. What such a task holds
// is left as it is.
func OfNewerOperator(tasks []v1alpha1.EtcdOperatorTask, uid string) *v1alpha1.EtcdOperatorTask {
	for i := range tasks {
		if t := &tasks[i]; uid != "" && string(t.UID) == uid && t.OfNewerOperator() && !t.Status.State.IsFinal() && t.DeletionTimestamp == nil {
			return t
		}
	}
	return nil
}

// ChangingMembers returns the MembershipChange that is in progress; nil when none is. One that is being deleted does not count.
func ChangingMembers(tasks []v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	return running(tasks, v1alpha1.MembershipChange)
}

// RollingOut returns the QuorumAwareRollout that is in progress; nil when none is. One that is being deleted does not count.
func RollingOut(tasks []v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	return running(tasks, v1alpha1.QuorumAwareRollout)
}

func running(tasks []v1alpha1.EtcdOperatorTask, of v1alpha1.TaskType) *v1alpha1.EtcdOperatorTask {
	i := slices.IndexFunc(tasks, func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.Type == of && t.Status.State == v1alpha1.TaskStateInProgress && t.DeletionTimestamp == nil
	})
	if i < 0 {
		return nil
	}
	return &tasks[i]
}

// KeeperOf returns the name of a Restore that keeps data on the volume of a claim; empty if none does. One that was made after the Restore has
// ended has none of it. It keeps while it runs.
func KeeperOf(tasks []v1alpha1.EtcdOperatorTask, claim *corev1.PersistentVolumeClaim) string {
	return keeperOf(tasks, claim, (*v1alpha1.EtcdOperatorTask).KeepsData)
}

// SetAsideBy returns the name of a Restore or a QuorumLossRecovery for which data is set aside on the volume of one of some claims; empty
// if there is none.
func SetAsideBy(tasks []v1alpha1.EtcdOperatorTask, claims []corev1.PersistentVolumeClaim) string {
	for i := range claims {
		if name := keeperOf(tasks, &claims[i], (*v1alpha1.EtcdOperatorTask).SetsAside); name != "" {
			return name
		}
	}
	return ""
}

// AnySetsAside reports whether a Restore or a QuorumLossRecovery exists for which members have set data aside. They keep it until none does.
func AnySetsAside(tasks []v1alpha1.EtcdOperatorTask) bool {
	return slices.ContainsFunc(tasks, func(t v1alpha1.EtcdOperatorTask) bool { return t.SetsAside() })
}

func keeperOf(tasks []v1alpha1.EtcdOperatorTask, claim *corev1.PersistentVolumeClaim, keeps func(*v1alpha1.EtcdOperatorTask) bool) string {
	for i := range tasks {
		if t := &tasks[i]; claim != nil && keeps(t) && (t.Status.CompletedAt == nil || claim.CreationTimestamp.Before(t.Status.CompletedAt)) {
			return t.Name
		}
	}
	return ""
}
