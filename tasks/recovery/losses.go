// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"k8s.io/apimachinery/pkg/types"
)

// maxUnobserved is the longest time between two observations in which a loss counts as uninterrupted. It is ten times the poll
// interval.
const maxUnobserved = 10 * time.Second

// loss is for how long the quorum has been seen to be lost. It permits to stop all members, so it lives in memory alone: what
// a status says survives the operator, and may have been written by a machine whose clock is wrong.
type loss struct {
	// at is the last observation, and generation is that of the task then: one that was suspended has another.
	at         time.Time
	generation int64
	// since is the first of the uninterrupted observations of a lost quorum; zero when the last was of another state.
	since time.Time
}

// next is the loss after one more observation. It is pure.
func (l loss) next(s *cluster.Snapshot, generation int64) loss {
	n := loss{at: s.At, generation: generation}
	if lost, _ := quorumLost(s); !lost {
		return n
	}
	n.since = s.At
	if !l.since.IsZero() && l.generation == generation && s.At.Sub(l.at) <= maxUnobserved {
		n.since = l.since
	}
	return n
}

// losses are those of the tasks that run, in memory alone. An operator that starts without them waits longer.
type losses struct {
	mu sync.Mutex
	of map[types.UID]loss
}

// observe adds an observation to the loss of a task, and returns since when the quorum is lost; zero when it is not.
func (l *losses) observe(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.UID]loss{}
	}
	l.of[task] = l.of[task].next(s, generation)
	return l.of[task].since
}

func (l *losses) forget(task types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, task)
}
