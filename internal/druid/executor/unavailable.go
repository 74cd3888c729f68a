// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import "github.com/etcd-foreman/etcd-foreman/api/v1alpha1"

// Unavailable returns the task types that write what etcd-druid owns, each with what to do instead.
func Unavailable() map[v1alpha1.TaskType]string {
	return map[v1alpha1.TaskType]string{
		v1alpha1.RecreateRollout: "a RecreateRollout scales the StatefulSet, which etcd-druid owns; delete the pods by hand, or set replicas of the Etcd to 0 and back " +
			"if an outage is acceptable",
		v1alpha1.MembershipChange: "a MembershipChange scales the StatefulSet, which etcd-druid owns; change spec.replicas, and etcd-druid adds or removes members",
		v1alpha1.QuorumLossRecovery: "a QuorumLossRecovery changes the StatefulSet, the ConfigMap and the volumes of the members, which etcd-druid owns; " +
			"follow its procedure for a permanent quorum loss",
	}
}
