// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// maxUnobserved is the longest time between two observations in which a loss counts as uninterrupted. It is ten times the poll
// interval.
const maxUnobserved = 10 * time.Second

// losses are for how long the quorum has been seen to be lost, for each task that runs: timers of the generation of the task, since one
// that was suspended has another. They permit to stop all members, so they live in memory alone: what a status says survives the
// operator, and may have been written by a machine whose clock is wrong. An operator that starts without them waits longer.
type losses struct {
	mu sync.Mutex
	of map[types.UID]lasting.Timer[int64]
}

// observe adds an observation to the loss of a task, and returns since when the quorum is lost; zero when it is not.
func (l *losses) observe(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	if lost, _ := quorumLost(s); !lost {
		generation = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.UID]lasting.Timer[int64]{}
	}
	l.of[task] = l.of[task].Next(generation, s.At, maxUnobserved)
	return l.of[task].Since()
}

func (l *losses) forget(task types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, task)
}
