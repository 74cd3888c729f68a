// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lineage returns the ID to record of the cluster, in hex. Members refuse data of any other cluster, so the recorded ID has to follow
// the one under which they serve, whatever changed it; and one that does not follow from it may be that of a stale volume. Such an ID
// is not recorded, and unexplained says what to do.
func lineage(etcd *v1alpha1.Etcd, s *cluster.Snapshot) (id string, unexplained error) {
	recorded := etcd.Status.ClusterID
	serving := servingID(s)
	switch {
	case serving == "":
		return recorded, nil
	case recorded == "" || serving == recorded || ofDruid(s) || follows(etcd, serving):
		return serving, nil
	}
	return recorded, coded.Error(v1alpha1.ErrClusterID, fmt.Errorf("the members serve as cluster %[1]s, but cluster %[2]s is recorded, "+
		"and neither a recovery nor the restore of an only member has made %[1]s of it: nothing is applied, and a member that restarts refuses its data. "+
		"If %[1]s has the data of this Etcd, record it: %[3]s; otherwise mount the volumes of cluster %[2]s",
		serving, recorded, component.RecordClusterID(client.ObjectKeyFromObject(etcd), serving)))
}

// Unexplained returns what is wrong with the ID under which the members serve; nil if nothing is.
func Unexplained(etcd *v1alpha1.Etcd, s *cluster.Snapshot) error {
	_, err := lineage(etcd, s)
	return err
}

// servingID returns the ID of the cluster, in hex, under which a quorum serves; empty while none does.
func servingID(s *cluster.Snapshot) string {
	if s == nil || !s.Quorate() || s.Cluster.ID == 0 {
		return ""
	}
	return strconv.FormatUint(s.Cluster.ID, 16)
}

// follows reports whether a cluster is what the recovery makes of the recorded one, or the restore of its only member.
func follows(etcd *v1alpha1.Etcd, serving string) bool {
	next := component.Lineage(etcd)
	if next.Recovery != nil && next.Recovery.LeavesBehind(next.ClusterID) && slices.Contains(next.RecoveredIDs(), serving) {
		return true
	}
	return etcd.Status.ClusterSize <= 1 && slices.Contains(next.SuccessorIDs(), serving)
}

// ofDruid reports whether a pod of etcd-druid serves, which restores its data as etcd-druid decides.
func ofDruid(s *cluster.Snapshot) bool {
	return slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Serving && o.Pod != nil && o.Pod.OfDruid })
}

// recovery returns how the members recover their cluster: what a task has chosen, now or before, or how the cluster wakes up
// without volumes. It is removed once that task is gone, the recovered cluster serves, and every member votes: then no member
// needs any more what it had before.
func recovery(recorded *v1alpha1.ClusterRecovery, clusterID string, o Input) *v1alpha1.ClusterRecovery {
	if t := scale.Recovering(o.Tasks); t != nil && t.Status.Recovery != nil && t.Status.Recovery.Source != "" {
		r := t.Status.Recovery
		return &v1alpha1.ClusterRecovery{
			Task: t.Name, TaskUID: t.UID, Member: r.Member, Source: r.Source,
			PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs,
		}
	}
	h := o.Etcd.Status.Hibernation
	if h != nil && o.WakeUp != nil && o.WakeUp.Restores && clusterID == h.ClusterID && !hibernation.RecordsRestore(recorded, h) {
		return hibernation.RecoveryOf(o.Etcd, h)
	}
	if servingID(o.Snapshot) == clusterID && succeeded(o.Etcd, recorded, clusterID) {
		return nil
	}
	if recorded == nil || recorded.LeavesBehind(clusterID) || servingID(o.Snapshot) != clusterID || !allVote(o.Snapshot, o.Etcd.Spec.Replicas) ||
		slices.ContainsFunc(o.Tasks, func(t v1alpha1.EtcdOperatorTask) bool { return t.UID == recorded.TaskUID }) {
		return recorded
	}
	return nil
}

// succeeded reports whether the only member of a cluster, which a recovery has made, was restored since, and has made its successor: no
// other member has joined yet, and those that the cluster grows by belong to the successor.
func succeeded(etcd *v1alpha1.Etcd, recorded *v1alpha1.ClusterRecovery, clusterID string) bool {
	return recorded != nil && etcd.Status.ClusterSize <= 1 && clusterID != "" && !recorded.LeavesBehind(clusterID) &&
		!slices.Contains(component.Lineage(etcd).RecoveredIDs(), clusterID)
}

// allVote reports whether as many members as are wanted participate and vote.
func allVote(s *cluster.Snapshot, wanted int32) bool {
	vote := s.CountOrdinals(func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassParticipating && o.Votes() })
	return wanted > 0 && s.Replicas() == int(wanted) && vote == s.Replicas()
}
