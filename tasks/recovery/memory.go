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

// maxUnobserved is how long nobody may have looked for a loss to count as uninterrupted. It is ten times the poll interval.
const maxUnobserved = 10 * time.Second

// loss is for how long the quorum has been seen to be lost. It permits to stop all members, so it lives in memory alone: what
// a status says survives the operator, and may have been written by a machine whose clock is wrong.
type loss struct {
	// at is when this operator last looked, and generation is that of the task then: one that was suspended has another.
	at         time.Time
	generation int64
	// since is the first of the uninterrupted looks that saw the quorum lost; zero when the last did not.
	since time.Time
}

// next is the loss after one more look. It is pure.
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

// memory is what the handler remembers of the tasks that it runs. An operator that starts without it waits longer.
type memory struct {
	mu     sync.Mutex
	losses map[types.UID]loss
}

// look adds a look to the loss of a task, and returns since when the quorum is lost; zero when it is not.
func (m *memory) look(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.losses == nil {
		m.losses = map[types.UID]loss{}
	}
	m.losses[task] = m.losses[task].next(s, generation)
	return m.losses[task].since
}

func (m *memory) forget(task types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.losses, task)
}
