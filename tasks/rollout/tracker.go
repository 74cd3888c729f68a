// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/timers"
	"k8s.io/apimachinery/pkg/types"
)

// tracker keeps the timers and the refused removals of the tasks that are running. It lives in memory alone: an operator
// that starts without it waits longer, and never acts sooner (ADR 3).
type tracker struct {
	mu    sync.Mutex
	tasks map[types.UID]tracked
}

type tracked struct {
	timers  timers.Timers
	refused map[types.UID]rollout.Refusal
}

// observe adds an observation to the timers of a task, and returns them.
func (t *tracker) observe(task types.UID, snapshot *cluster.Snapshot) timers.Timers {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.tasks[task]
	of.timers = of.timers.Next(snapshot)
	t.put(task, of)
	return of.timers
}

// refuse records that the API server refused the removal of a pod.
func (t *tracker) refuse(task, pod types.UID, refusal rollout.Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.tasks[task]
	of.refused = maps.Clone(of.refused)
	if of.refused == nil {
		of.refused = map[types.UID]rollout.Refusal{}
	}
	of.refused[pod] = refusal
	t.put(task, of)
}

// refusals are the refused removals of a task, by pod UID. The map is never changed afterwards.
func (t *tracker) refusals(task types.UID) map[types.UID]rollout.Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tasks[task].refused
}

func (t *tracker) forget(task types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tasks, task)
}

func (t *tracker) put(task types.UID, of tracked) {
	if t.tasks == nil {
		t.tasks = map[types.UID]tracked{}
	}
	t.tasks[task] = of
}
