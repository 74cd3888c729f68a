// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A recovery is recorded while no quorum serves. If the cluster that it replaces serves again, its restarting members wait for the new
// cluster, which does not begin beside it. So the recovery is withdrawn once its task is gone, unless the new cluster may have begun
// (docs/adr/0058-withdraw-a-recovery-that-has-not-begun.md).

// outlived reports whether the recorded cluster serves, although a task has recorded a recovery that replaces it.
func outlived(r *v1alpha1.ClusterRecovery, clusterID string, s *cluster.Snapshot) bool {
	return r != nil && r.Task != "" && clusterID != "" && servingID(s) == clusterID && r.LeavesBehind(clusterID)
}

// mayHaveBegun returns why the new cluster of a recovery may have begun although the previous one serves; empty if it has not. Only the
// chosen member begins it, and while that member has the data of the previous cluster, no member has data of the new one.
func mayHaveBegun(r *v1alpha1.ClusterRecovery, s *cluster.Snapshot) string {
	if servingID(s) != r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, r.PreviousClusterID) {
		return "a recovery before this one has made a newer cluster"
	}
	for _, o := range s.Ordinals {
		switch {
		case o.Member != r.Member:
		case o.Class == v1alpha1.ClassParticipating && o.Role != v1alpha1.RoleLearner,
			o.Class != v1alpha1.ClassParticipating && o.Pod != nil && o.Pod.Refusal != nil && o.Pod.Refusal.Reason == v1alpha1.ReasonPreviousClusterServes:
			return ""
		default:
			return fmt.Sprintf("%s, from which it begins, is %s", r.Member, o.Describe())
		}
	}
	return fmt.Sprintf("%s, from which it begins, has no pod", r.Member)
}

// replaced returns an error if the recorded cluster serves although a recovery is to replace it; nil otherwise.
func replaced(etcd *v1alpha1.Etcd, r *v1alpha1.ClusterRecovery, clusterID string, s *cluster.Snapshot) error {
	if !outlived(r, clusterID, s) {
		return nil
	}
	what := fmt.Sprintf("the members serve as cluster %s, which the recovery of task %s replaces: nothing is applied, and a member that restarts waits for the new cluster", clusterID, r.Task)
	do := fmt.Sprintf("delete task %s to withdraw the recovery", r.Task)
	if why := mayHaveBegun(r, s); why != "" {
		do = fmt.Sprintf("the recovery cannot be withdrawn by deleting the task, since the new cluster may have begun: %s. If %s comes back with data of cluster %s, the recovery can be withdrawn. "+
			"If the new cluster has never served, or what it acknowledged may be lost, withdraw it yourself: %s; to continue with the new cluster, delete the pods of the members that serve: they join it",
			why, r.Member, r.PreviousClusterID, component.WithdrawRecovery(client.ObjectKeyFromObject(etcd)))
	}
	return coded.Error(v1alpha1.ErrClusterID, fmt.Errorf("%s; %s", what, do))
}
