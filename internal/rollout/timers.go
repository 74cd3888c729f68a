// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// Timers are how long conditions of a cluster have lasted: for each, the time since when it was true in every
// observation; zero while it is not. They are kept in memory alone, and any gap between two observations resets them, so an
// operator that starts can only wait longer than it must (ADR 3).
type Timers struct {
	// At is the time of the last observation.
	At time.Time
	// LeaderlessSince: no member that answers has known a leader, and the members that do not answer cannot be a quorum.
	LeaderlessSince time.Time
	// NoAnswerSince: no member has answered, although the probe of at least one passes.
	NoAnswerSince time.Time
	// SilentSince: the probe of a pod passes, and its member does not serve. By pod UID.
	SilentSince map[types.UID]time.Time
	// Running: the etcd container of a pod is running. By pod UID.
	Running map[types.UID]Run
}

// Run is one run of a container.
type Run struct {
	// Started is when it began by the kubelet's clock, which only distinguishes one run from another.
	Started time.Time
	// Since is when the operator first saw it, by the operator's clock.
	Since time.Time
}

// maxGap is the longest time between two observations in which a condition counts as uninterrupted.
const maxGap = 10 * time.Second

// Next returns the timers after one more observation. Those of the zero value are those of the first.
func (t Timers) Next(snapshot *cluster.Snapshot) Timers {
	now := snapshot.At
	if now.Sub(t.At) > maxGap {
		t = Timers{}
	}
	next := Timers{At: now, SilentSince: map[types.UID]time.Time{}, Running: map[types.UID]Run{}}
	for i := range snapshot.Ordinals {
		o := &snapshot.Ordinals[i]
		if isReadyAndSilent(o) {
			next.SilentSince[o.Pod.UID] = continued(t.SilentSince[o.Pod.UID], now)
		}
		if o.Pod != nil && !o.Pod.EtcdStarted.IsZero() && o.Class != v1alpha1.ClassTerminating {
			run := Run{Started: o.Pod.EtcdStarted, Since: now}
			if before := t.Running[o.Pod.UID]; before.Started.Equal(run.Started) {
				run.Since = continued(before.Since, now)
			}
			next.Running[o.Pod.UID] = run
		}
	}
	if _, quorate := unreachable(snapshot); !snapshot.Cluster.LeaderKnown && !quorate {
		next.LeaderlessSince = continued(t.LeaderlessSince, now)
	}
	if len(next.SilentSince) > 0 && !snapshot.Cluster.Reachable {
		next.NoAnswerSince = continued(t.NoAnswerSince, now)
	}
	return next
}

// isReadyAndSilent reports whether the probe of a member passes that does not serve the operator.
func isReadyAndSilent(o *cluster.Ordinal) bool {
	return o.Class == v1alpha1.ClassUnready && o.Pod.Ready
}

// unreachable names the members that do not answer although their probes pass, as far as is known, and reports whether they
// may be part of a quorum (ADR 14). A probe that passes is a linearizable read that went through, so there was a quorum; it
// may include any member that is running and does not answer, and foreign voters. Probe results from a lost node are stale.
func unreachable(snapshot *cluster.Snapshot) (names []string, quorate bool) {
	silent, voters := 0, len(snapshot.Cluster.Voters)
	for _, o := range snapshot.Ordinals {
		switch {
		case o.Answers:
		case o.Class == v1alpha1.ClassTerminating:
			silent++
		case o.Class == v1alpha1.ClassUnready:
			silent++
			if o.Pod.Ready || o.Pod.Node.Trouble != "" {
				names = append(names, o.Name)
			}
		}
	}
	for _, v := range snapshot.Cluster.Voters {
		if v.Ordinal < 0 && !v.Serving {
			silent++
		}
	}
	if voters == 0 {
		// No voter has returned the member list: every replica may be one.
		voters = snapshot.Replicas()
	}
	return names, len(names) > 0 && quorum.Exists(silent, voters)
}

func continued(since, now time.Time) time.Time {
	if since.IsZero() {
		return now
	}
	return since
}

// lasted reports whether a condition has lasted for a while.
func lasted(since, now time.Time, while time.Duration) bool {
	return !since.IsZero() && now.Sub(since) >= while
}

// within reports whether something was less than a while ago. A time in the future was not: it was taken by a clock that is
// wrong, most likely that of another machine, and nothing waits for it.
func within(at, now time.Time, while time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age < while
}
