// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
)

// recovery returns the next status.recovery: the choice of a task, or how the cluster wakes up without volumes.
//
// The record is removed once the recovered cluster serves, every member votes, and the task is gone, and every other task that has had data
// set aside: without a record, members remove the data of all of them. It is withdrawn if the previous cluster serves and the new one has not
// begun; what other tasks keep then stays by member.KeyKept.
func recovery(recorded *v1alpha1.ClusterRecovery, clusterID string, o Input) *v1alpha1.ClusterRecovery {
	if t := etcdtasks.Recovering(o.Tasks); t != nil && t.Status.Recovery != nil && t.Status.Recovery.Source != "" {
		r := t.Status.Recovery
		next := &v1alpha1.ClusterRecovery{
			Task: t.Name, TaskUID: t.UID, Member: r.Member, Source: r.Source,
			PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs,
			Revision: r.Revision, HighestRevision: r.HighestRevision, HadData: r.HadData,
		}
		if r.Restore != nil {
			next.Restore = &r.Restore.ClusterRestore
		}
		return next
	}
	h := o.Etcd.Status.Hibernation
	if h != nil && o.WakeUp != nil && o.WakeUp.Restores && clusterID == h.ClusterID && !hibernation.RecordsRestore(recorded, h) {
		return hibernation.RecoveryOf(o.Etcd, h)
	}
	if servingID(o.Snapshot) == clusterID && succeeded(o.Etcd, recorded, clusterID) {
		return nil
	}
	if recorded == nil || slices.ContainsFunc(o.Tasks, func(t v1alpha1.EtcdOperatorTask) bool { return t.UID == recorded.TaskUID }) {
		return recorded
	}
	withdrawn := outlived(recorded, clusterID, o.Snapshot) && mayHaveBegun(recorded, o.Snapshot) == ""
	over := !etcdtasks.AnySetsAside(o.Tasks) && !recorded.LeavesBehind(clusterID) && servingID(o.Snapshot) == clusterID && allVote(o.Snapshot, o.Etcd.Spec.Replicas)
	if withdrawn || over {
		return nil
	}
	return recorded
}

// succeeded reports whether a recovered cluster already has a successor, because its only member has been restored since. The recovery is
// then over: no other member had joined, and members that join later belong to the successor.
func succeeded(etcd *v1alpha1.Etcd, recorded *v1alpha1.ClusterRecovery, clusterID string) bool {
	return recorded != nil && etcd.Status.ClusterSize <= 1 && clusterID != "" && !recorded.LeavesBehind(clusterID) &&
		!slices.Contains(component.Lineage(etcd).RecoveredIDs(), clusterID)
}

// allVote reports whether all wanted members participate and vote.
func allVote(s *cluster.Snapshot, wanted int32) bool {
	vote := s.CountOrdinals(func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassParticipating && o.Votes() })
	return wanted > 0 && s.Replicas() == int(wanted) && vote == s.Replicas()
}
