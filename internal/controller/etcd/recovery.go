// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"k8s.io/utils/ptr"
)

// recovering is the QuorumLossRecovery that runs; nil when none does. One that is being deleted is as good as gone.
func recovering(tasks []v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	i := slices.IndexFunc(tasks, func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.Type == v1alpha1.QuorumLossRecovery && t.Status.State == v1alpha1.TaskStateInProgress && t.DeletionTimestamp == nil
	})
	if i < 0 {
		return nil
	}
	return &tasks[i]
}

// stopsMembers tells whether a recovery needs all members to be stopped: until it is chosen how the cluster starts
// again, and this is recorded in the status of the Etcd, from where the members are told.
func stopsMembers(t *v1alpha1.EtcdOperatorTask, recorded *v1alpha1.ClusterRecovery) bool {
	r := ptr.Deref(t.Status.Recovery, v1alpha1.RecoveryStatus{})
	switch r.Phase {
	case v1alpha1.RecoveryStopping, v1alpha1.RecoverySurveying:
		return true
	case v1alpha1.RecoveryStarting:
		return r.Source != "" && (recorded == nil || recorded.TaskUID != t.UID)
	}
	return false
}

// clusterRecovery is what the members are told of how their cluster begins anew: what a task has chosen, or has before,
// or how it wakes up without volumes. It is taken back once that task is gone, the cluster has begun anew and every member votes: then nobody needs any more what
// the members had before.
func clusterRecovery(etcd *v1alpha1.Etcd, recorded *v1alpha1.ClusterRecovery, clusterID string, o observation) *v1alpha1.ClusterRecovery {
	if t := recovering(o.tasks); t != nil && t.Status.Recovery != nil && t.Status.Recovery.Source != "" {
		r := t.Status.Recovery
		return &v1alpha1.ClusterRecovery{
			Task: t.Name, TaskUID: t.UID, Member: r.Member, Source: r.Source,
			PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs,
		}
	}
	if h := etcd.Status.Hibernation; h != nil && o.begins && clusterID == h.ClusterID && !wakesFrom(recorded, h) {
		return awakening(etcd, h)
	}
	if recorded == nil || clusterID == recorded.PreviousClusterID || o.snapshot == nil || !allVote(o.snapshot, o.wanted) ||
		slices.ContainsFunc(o.tasks, func(t v1alpha1.EtcdOperatorTask) bool { return t.UID == recorded.TaskUID }) {
		return recorded
	}
	return nil
}

// allVote tells whether as many members as are wanted participate and vote.
func allVote(s *cluster.Snapshot, wanted int32) bool {
	for _, o := range s.Ordinals {
		if o.Class != v1alpha1.ClassParticipating || o.Role != v1alpha1.RoleLeader && o.Role != v1alpha1.RoleFollower {
			return false
		}
	}
	return wanted > 0 && s.Replicas() == int(wanted)
}

// instruction is what the members read of a recovery; empty when there is none.
func instruction(r *v1alpha1.ClusterRecovery) (string, error) {
	if r == nil {
		return "", nil
	}
	text, err := member.Recovery{
		Task: string(r.TaskUID), TaskName: r.Task, Member: r.Member, Source: member.RecoverySource(r.Source),
		PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs, Revision: r.Revision,
	}.Encode()
	if err != nil {
		return "", fmt.Errorf("telling the members how their cluster begins anew: %w", err)
	}
	return text, nil
}
