// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// hangsAfter is how long a member that hangs keeps an observation waiting at least. One that answers does so in milliseconds, and
// one that does not run refuses the connection.
const hangsAfter = time.Second

// hangs reports whether members of an Etcd hang, by a Snapshot that took so long.
func hangs(s *cluster.Snapshot, took time.Duration) bool {
	return s != nil && took >= hangsAfter && slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Pod != nil && !o.Answers })
}

// hanging is how often in a row members of an Etcd hung, and until when the last wait lasts. Each look at them keeps a worker for
// seconds, so they are looked at less and less often, down to as often as those of a healthy Etcd. What changes in the
// meantime is an event, which comes before the wait is over, and begins with short waits again.
type hanging struct {
	times int
	until time.Time
}

// next returns what follows after another look.
func (h hanging) next(hangs bool, now time.Time) hanging {
	switch {
	case !hangs:
		return hanging{}
	case now.Before(h.until):
		h.times = 0
	}
	h.times++
	h.until = now.Add(h.wait())
	return h
}

// wait returns for how long to wait at least; 0 while nothing hangs.
func (h hanging) wait() time.Duration {
	wait := pollTroubled
	for range h.times - 1 {
		wait = min(2*wait, pollHealthy)
	}
	if h.times == 0 {
		return 0
	}
	return wait
}
