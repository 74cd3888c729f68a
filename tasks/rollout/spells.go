// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"k8s.io/apimachinery/pkg/types"
)

// Spells are conditions of a cluster that matter by how long they last, each with the time since when it was
// seen in every observation; zero when it does not hold. They live in memory alone: an operator that starts
// begins to count anew, and so can only wait longer than it must.
type Spells struct {
	// At is the time of the last observation.
	At time.Time
	// LeaderlessSince: no member that answers has known a leader.
	LeaderlessSince time.Time
	// NoAnswerSince: no member has answered, although the probe of at least one passes.
	NoAnswerSince time.Time
	// SilentSince: the probe of a pod passes, and its member does not serve. By pod UID.
	SilentSince map[types.UID]time.Time
}

// maxUnobserved is how long nobody may have looked for a spell to count as uninterrupted.
const maxUnobserved = 10 * time.Second

// next are the spells after one more observation.
func (s Spells) next(snapshot *observe.Snapshot) Spells {
	now := snapshot.At
	if now.Sub(s.At) > maxUnobserved {
		s = Spells{}
	}
	n := Spells{At: now, SilentSince: map[types.UID]time.Time{}}
	ready := false
	for _, o := range snapshot.Ordinals {
		if o.Class == v1alpha1.ClassUnready && o.Pod.Ready {
			n.SilentSince[o.Pod.UID] = continued(s.SilentSince[o.Pod.UID], now)
		}
		ready = ready || o.Pod != nil && o.Pod.Ready
	}
	if !snapshot.Cluster.LeaderKnown {
		n.LeaderlessSince = continued(s.LeaderlessSince, now)
	}
	if ready && !snapshot.Cluster.Reachable {
		n.NoAnswerSince = continued(s.NoAnswerSince, now)
	}
	return n
}

func continued(since, now time.Time) time.Time {
	if since.IsZero() {
		return now
	}
	return since
}

// lasted tells whether a spell has lasted for a while.
func (Spells) lasted(since, now time.Time, while time.Duration) bool {
	return !since.IsZero() && now.Sub(since) >= while
}
