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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lineage returns the cluster ID to record, in hex. Members refuse data of any other cluster, so the record must follow the ID under which
// they serve. An unexplained ID may be that of a stale volume: it is not recorded, and the error says what to do. Before a member has joined
// a source, that serves alone: only the first start records its ID, which lets members join.
func lineage(etcd *v1alpha1.Etcd, s *cluster.Snapshot) (id string, unexplained error) {
	recorded := etcd.Status.ClusterID
	serving := servingID(s)
	switch {
	case serving == "" || recorded == "" && etcd.SourceStays() && !ownServe(s):
		return recorded, nil
	case recorded == "" || serving == recorded || ofDruid(s) || follows(etcd, serving):
		return serving, nil
	}
	return recorded, coded.Error(v1alpha1.ErrClusterID, fmt.Errorf("the members serve as cluster %[1]s, but cluster %[2]s is recorded, "+
		"and neither a recovery nor the restore of an only member has made %[1]s of it: nothing is applied, and a member that restarts refuses its data. "+
		"If %[1]s has the data of this Etcd, record it: %[3]s; otherwise mount the volumes of cluster %[2]s",
		serving, recorded, component.RecordClusterID(client.ObjectKeyFromObject(etcd), serving)))
}

// Unexplained returns an error if nothing explains the ID under which the members serve; nil otherwise.
func Unexplained(etcd *v1alpha1.Etcd, s *cluster.Snapshot) error {
	return unexplained(etcd, etcd.Status.Recovery, s)
}

// unexplained is Unexplained for a recovery that may differ from the one in the status.
func unexplained(etcd *v1alpha1.Etcd, r *v1alpha1.ClusterRecovery, s *cluster.Snapshot) error {
	id, err := lineage(etcd, s)
	if err != nil {
		return err
	}
	return replaced(etcd, r, id, s)
}

// servingID returns the ID of the cluster, in hex, under which a quorum serves; empty while none does.
func servingID(s *cluster.Snapshot) string {
	if s == nil || !s.Quorate() || s.Cluster.ID == 0 {
		return ""
	}
	return strconv.FormatUint(s.Cluster.ID, 16)
}

// ownServe reports whether a member of the Etcd's own serves.
func ownServe(s *cluster.Snapshot) bool {
	return slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Serving })
}

// follows reports whether a cluster results from the recorded one by the recovery, or by the restore of its only member.
func follows(etcd *v1alpha1.Etcd, serving string) bool {
	next := component.Lineage(etcd)
	if next.Recovery != nil && next.Recovery.LeavesBehind(next.ClusterID) && slices.Contains(next.RecoveredIDs(), serving) {
		return true
	}
	return etcd.Status.ClusterSize <= 1 && slices.Contains(next.SuccessorIDs(), serving)
}

// ofDruid reports whether a pod of etcd-druid serves. etcd-druid decides how such pods restore their data.
func ofDruid(s *cluster.Snapshot) bool {
	return slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Serving && o.Pod != nil && o.Pod.OfDruid })
}
