// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// maxUnobserved is the longest time between two observations in which a loss counts as uninterrupted. It is ten times the poll
// interval.
const maxUnobserved = 10 * time.Second

// losses are for how long the quorum has been seen to be lost, or the members to be started, for each task that runs: timers of the
// phase and of the generation of the task, since one that was suspended has another. They permit to stop all members, or end the task,
// so they live in memory alone: what a status says survives the operator, and may have been written by a machine whose clock is wrong.
// An operator that starts without them waits longer.
type losses struct {
	mu sync.Mutex
	of map[types.UID]lasting.Timer[lasts]
}

// lasts is what a timer is about; the zero value for nothing.
type lasts struct {
	phase      v1alpha1.RecoveryPhase
	generation int64
}

// observe adds an observation to the loss of a task, and returns since when the quorum is lost; zero when it is not.
func (l *losses) observe(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	if lost, _ := quorumLost(s); !lost {
		return l.next(task, lasts{}, s.At)
	}
	return l.next(task, lasts{v1alpha1.RecoveryConfirming, generation}, s.At)
}

// starting adds an observation of members that were started, and returns since when they are; zero while they are held at zero.
func (l *losses) starting(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	if s.StatefulSet.HeldAtZeroBy != "" {
		return l.next(task, lasts{}, s.At)
	}
	return l.next(task, lasts{v1alpha1.RecoveryStarting, generation}, s.At)
}

func (l *losses) next(task types.UID, value lasts, at time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.UID]lasting.Timer[lasts]{}
	}
	l.of[task] = l.of[task].Next(value, at, maxUnobserved)
	return l.of[task].Since()
}

func (l *losses) forget(task types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, task)
}
