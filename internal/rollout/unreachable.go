// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// VouchAfter is how long the probe of a member has to have passed, while the operator could not reach the member, to vouch for
// it. A node that is lost is marked within a minute.
const VouchAfter = 2 * time.Minute

// VouchedAfter returns how long the probe of a member has to have passed with a grace period, which may be longer.
func VouchedAfter(grace time.Duration) time.Duration { return max(VouchAfter, grace) }

// CutOff reports whether no member has answered for the grace period although the probes of pods pass. Then the
// operator is cut off, not the cluster, and the rollout works as DEP-07 describes.
func (t Timers) CutOff(now time.Time, grace time.Duration) bool {
	return Lasted(t.NoAnswerSince, now, grace)
}

// Vouched returns the ordinals of members that do not answer the operator, and that their probes vouch for: a rollout that
// repairs reachability reaches the members one after the other, and has to count those that it cannot reach yet.
func (t Timers) Vouched(snapshot *cluster.Snapshot, now time.Time, grace time.Duration) []int {
	var vouched []int
	for i := range snapshot.Ordinals {
		o := &snapshot.Ordinals[i]
		if snapshot.Cluster.LeaderKnown && !o.Answers && o.ReadyButNotServing() && Lasted(t.NotServingSince[o.Pod.UID], now, VouchedAfter(grace)) {
			vouched = append(vouched, i)
		}
	}
	return vouched
}

// HasRun reports whether the etcd container of an ordinal has been running for the grace period, without a restart, and still
// is as far as is known. The member need not answer: etcd opens its client port only once it has published itself through raft, and with a bad
// configuration on all members none does.
func (t Timers) HasRun(o *cluster.Ordinal, now time.Time, grace time.Duration) bool {
	return o.Pod != nil && o.Class != v1alpha1.ClassTerminating && (o.Answers || o.Pod.Stale() == "") && Lasted(t.Running[o.Pod.UID].Since, now, grace)
}
