// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// HandoverWindow is how long an attempt to move leadership may take to show.
const HandoverWindow = 2 * time.Second

// IsHandoverUnderWay reports whether leadership was moved a moment ago and that does not show yet: the leader is still the
// old one, or a member that answers does not know the new one.
func IsHandoverUnderWay(last *v1alpha1.LeaderHandover, snapshot *cluster.Snapshot, now time.Time) bool {
	if last == nil || !Within(last.LastAttemptTime.Time, now, HandoverWindow) {
		return false
	}
	return slices.ContainsFunc(snapshot.Ordinals, func(o cluster.Ordinal) bool {
		return o.Answers && !o.Serving || o.Role == v1alpha1.RoleLeader && o.Name == last.From
	})
}
