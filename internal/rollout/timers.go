// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// Timers record how long conditions of a cluster have lasted: for each, the time since when it was true in every observation; zero while it
// is not. They are kept only in memory, and any gap between two observations resets them, as does a clock that goes back, so a restarted
// operator can only wait longer than it must (ADR 3).
type Timers struct {
	// At is the time of the last observation.
	At time.Time
	// LeaderlessSince: no member that answers has known a leader, and the members that do not answer cannot be a quorum.
	// Nor has a term begun in between: where one has, a quorum has met that this operator did not see (ADR 74).
	LeaderlessSince time.Time
	// Term is the newest raft term that a member has answered with while LeaderlessSince lasts.
	Term uint64
	// LedSince: a member that answers has known a leader.
	LedSince time.Time
	// NoAnswerSince: no member has answered, although the probe of at least one passes.
	NoAnswerSince time.Time
	// NotServingSince: the probe of a pod passes, and its member does not serve. By pod UID.
	NotServingSince map[types.UID]time.Time
	// Running: the etcd container of a pod is running. By pod UID.
	Running map[types.UID]Running
}

// Running is one run of a container.
type Running struct {
	// Started is when it was started by the kubelet's clock. It only distinguishes one run from another.
	Started time.Time
	// Since is when the operator first saw it, by the operator's clock.
	Since time.Time
}

// electionWindow is how long a member may take to hear of a new leader. It is longer than the time from an observation to an action.
const electionWindow = 5 * time.Second

// MaxGap is the longest time between two observations in which a condition counts as uninterrupted.
const MaxGap = 10 * time.Second

// Next returns the timers after one more observation, which is the first for the zero value.
func (t Timers) Next(snapshot *cluster.Snapshot) Timers {
	now := snapshot.At
	if !lasting.Unbroken(t.At, now, MaxGap) {
		t = Timers{}
	}
	next := Timers{At: now, NotServingSince: map[types.UID]time.Time{}, Running: map[types.UID]Running{}}
	for i := range snapshot.Ordinals {
		o := &snapshot.Ordinals[i]
		if o.ReadyButNotServing() {
			next.NotServingSince[o.Pod.UID] = continued(t.NotServingSince[o.Pod.UID], now)
		}
		if o.Pod != nil && !o.Pod.EtcdStarted.IsZero() && o.Class != v1alpha1.ClassTerminating {
			run := Running{Started: o.Pod.EtcdStarted, Since: now}
			if before := t.Running[o.Pod.UID]; before.Started.Equal(run.Started) {
				run.Since = continued(before.Since, now)
			}
			next.Running[o.Pod.UID] = run
		}
	}
	if _, quorate := snapshot.Unreachable(); !snapshot.Cluster.LeaderKnown && !quorate {
		next.LeaderlessSince, next.Term = continued(t.LeaderlessSince, now), max(t.Term, snapshot.Cluster.NewestTerm)
		if next.Term > t.Term {
			next.LeaderlessSince = now
		}
	}
	if snapshot.Cluster.LeaderKnown {
		next.LedSince = continued(t.LedSince, now)
	}
	if len(next.NotServingSince) > 0 && !snapshot.Cluster.Reachable {
		next.NoAnswerSince = continued(t.NoAnswerSince, now)
	}
	return next
}

func continued(since, now time.Time) time.Time {
	if since.IsZero() {
		return now
	}
	return since
}

// within reports whether a time is less than a duration ago. A time in the future is not: it comes from a wrong clock, most likely another
// machine's, and nothing waits for it.
func within(at, now time.Time, while time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age < while
}

// vouchAfter is how long the probe of a member has to have passed, while the operator could not reach the member, to vouch for
// it. A node that is lost is marked within a minute.
const vouchAfter = 2 * time.Minute

// vouchedAfter returns how long the probe of a member has to have passed with a grace period, which may be longer.
func vouchedAfter(grace time.Duration) time.Duration { return max(vouchAfter, grace) }

// cutOff reports whether no member has answered for the grace period although the probes of pods pass. Then the
// operator is cut off, not the cluster, and the rollout works as DEP-07 describes.
func (t Timers) cutOff(now time.Time, grace time.Duration) bool {
	return lasting.Since(t.NoAnswerSince, now, grace)
}

// vouched returns the ordinals of members that do not answer the operator, and that their probes vouch for: a rollout that
// repairs reachability reaches the members one after the other, and has to count those that it cannot reach yet.
func (t Timers) vouched(snapshot *cluster.Snapshot, now time.Time, grace time.Duration) []int {
	var vouched []int
	for i := range snapshot.Ordinals {
		o := &snapshot.Ordinals[i]
		if snapshot.Cluster.LeaderKnown && !o.Answers && o.ReadyButNotServing() && lasting.Since(t.NotServingSince[o.Pod.UID], now, vouchedAfter(grace)) {
			vouched = append(vouched, i)
		}
	}
	return vouched
}

// hasRun reports whether the etcd container of an ordinal has been running for the grace period, without a restart, and still
// is as far as is known. The member need not answer: etcd opens its client port only once it has published itself through raft, and with a bad
// configuration on all members none does.
func (t Timers) hasRun(o *cluster.Ordinal, now time.Time, grace time.Duration) bool {
	return o.Pod != nil && o.Class != v1alpha1.ClassTerminating && (o.Answers || o.Pod.Stale() == "") && lasting.Since(t.Running[o.Pod.UID].Since, now, grace)
}
