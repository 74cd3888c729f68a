// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// maxUnwatched is the longest time between two executions of a task in which what it has asked for still counts.
const maxUnwatched = time.Minute

// stays has the present stay of each task in its phase, as this operator has watched it. They live in memory alone: an operator that starts
// without them asks again.
type stays struct {
	mu sync.Mutex
	of map[types.UID]stay
}

// stay is a time without a gap in which a task was executed in one phase. From Saving to Stopping is one: the final snapshot has to be of the
// same stay until the members are stopped.
type stay struct {
	phase v1alpha1.RecoveryPhase
	// generation of the task: one that was suspended has another, however short that was.
	generation int64
	// since when it lasts, and when the task was last executed.
	since, at time.Time
}

// next adds an execution of a task, and returns its stay, and whether that has begun before.
func (s *stays) next(task *v1alpha1.EtcdOperatorTask, now time.Time) (present stay, unbroken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	phase := task.Status.Recovery.Phase
	if phase == v1alpha1.RecoveryStopping {
		phase = v1alpha1.RecoverySaving
	}
	present = s.of[task.UID]
	unbroken = present.phase == phase && present.generation == task.Generation && lasting.Unbroken(present.at, now, maxUnwatched)
	if !unbroken {
		present = stay{phase: phase, generation: task.Generation, since: now}
	}
	present.at = now
	if s.of == nil {
		s.of = map[types.UID]stay{}
	}
	s.of[task.UID] = present
	return present, unbroken
}

func (s *stays) forget(task types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, task)
}
