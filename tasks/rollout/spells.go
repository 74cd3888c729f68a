// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// Spells are conditions of a cluster that matter by how long they last, each with the time since when it was
// seen in every observation; zero when it does not hold. They live in memory alone: an operator that starts
// begins to count anew, and so can only wait longer than it must.
type Spells struct {
	// At is the time of the last observation.
	At time.Time
	// LeaderlessSince: no member that answers has known a leader, and there was no quorum of others that could have one.
	LeaderlessSince time.Time
	// NoAnswerSince: no member has answered, although the probe of at least one passes.
	NoAnswerSince time.Time
	// SilentSince: the probe of a pod passes, and its member does not serve. By pod UID.
	SilentSince map[types.UID]time.Time
	// Running: the etcd container of a pod runs. By pod UID.
	Running map[types.UID]Run
}

// Run is one run of a container.
type Run struct {
	// Started is when the kubelet says that it began, by its own clock. It tells one run from another.
	Started time.Time
	// Since is when the operator first saw it, by the operator's clock.
	Since time.Time
}

// maxUnobserved is how long nobody may have looked for a spell to count as uninterrupted.
const maxUnobserved = 10 * time.Second

// Next are the spells after one more observation. Those of nothing are those of somebody who begins to look.
func (s Spells) Next(snapshot *observe.Snapshot) Spells {
	now := snapshot.At
	if now.Sub(s.At) > maxUnobserved {
		s = Spells{}
	}
	n := Spells{At: now, SilentSince: map[types.UID]time.Time{}, Running: map[types.UID]Run{}}
	for _, o := range snapshot.Ordinals {
		if o.Pod != nil && !o.Pod.EtcdStarted.IsZero() && o.Class != v1alpha1.ClassTerminating {
			run := Run{Started: o.Pod.EtcdStarted, Since: now}
			if before := s.Running[o.Pod.UID]; before.Started.Equal(run.Started) {
				run.Since = continued(before.Since, now)
			}
			n.Running[o.Pod.UID] = run
		}
		if notServingThoughReady(&o) {
			n.SilentSince[o.Pod.UID] = continued(s.SilentSince[o.Pod.UID], now)
		}
	}
	if _, quorate := outOfReach(snapshot); !snapshot.Cluster.LeaderKnown && !quorate {
		n.LeaderlessSince = continued(s.LeaderlessSince, now)
	}
	if len(n.SilentSince) > 0 && !snapshot.Cluster.Reachable {
		n.NoAnswerSince = continued(s.NoAnswerSince, now)
	}
	return n
}

// outOfReach names the members that do not answer although their probes pass, for all that is known, and tells whether they
// may be part of a quorum. A probe that passes is a linearizable read that went through, so there was one; it may be with
// any member that runs and does not answer, and with foreign voters. Nobody knows of the probes on a node that is lost.
func outOfReach(snapshot *observe.Snapshot) (names []string, quorate bool) {
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
		// No voter has told the member list: every replica may be one.
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

// lasted tells whether a spell has lasted for a while.
func lasted(since, now time.Time, while time.Duration) bool {
	return !since.IsZero() && now.Sub(since) >= while
}
