// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace/read"
	"k8s.io/apimachinery/pkg/types"
)

// tracker keeps the timers and the refused removals of running tasks, in memory only: a restarted operator waits longer, and never acts
// sooner (ADR 3).
type tracker struct {
	mu    sync.Mutex
	tasks map[types.UID]tracked
}

type tracked struct {
	timers  rollout.Timers
	refused map[types.UID]rollout.RefusedWrite
	updates inplace.Updates
	// revisions are the ControllerRevisions that were read.
	revisions *read.Known
	// unfit are the updates in place that the API server has refused, by pod.
	unfit map[types.UID]unfit
}

// unfit is a refused update in place.
type unfit struct {
	target, message string
	// until is when the update is tried again; zero if never.
	until time.Time
}

// change changes the record of a task, and returns it.
func (t *tracker) change(task types.UID, change func(of *tracked)) tracked {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tasks == nil {
		t.tasks = map[types.UID]tracked{}
	}
	of := t.tasks[task]
	change(&of)
	t.tasks[task] = of
	return of
}

// observe adds an observation to the timers of a task, and returns them.
func (t *tracker) observe(task types.UID, snapshot *cluster.Snapshot) rollout.Timers {
	return t.change(task, func(of *tracked) { of.timers = of.timers.Next(snapshot) }).timers
}

// assess adds an assessment of pods to the record of their updates, and returns that record.
func (t *tracker) assess(task types.UID, snapshot *cluster.Snapshot, assessed map[types.UID]inplace.Assessment) inplace.Updates {
	return t.change(task, func(of *tracked) { of.updates = of.updates.Next(snapshot, assessed, rollout.MaxGap) }).updates
}

// revisions returns the ControllerRevisions that a task has read.
func (t *tracker) revisions(task types.UID) *read.Known {
	return t.change(task, func(of *tracked) {
		if of.revisions == nil {
			of.revisions = &read.Known{}
		}
	}).revisions
}

// refuseUpdate records that the API server refused to update a pod in place. After a restart, the operator tries once more.
func (t *tracker) refuseUpdate(task, pod types.UID, u unfit) {
	t.change(task, func(of *tracked) { of.unfit = memory.With(of.unfit, pod, u) })
}

// refuse records that the API server refused the removal of a pod.
func (t *tracker) refuse(task, pod types.UID, refusal rollout.RefusedWrite) {
	t.change(task, func(of *tracked) { of.refused = memory.With(of.refused, pod, refusal) })
}

// unfitFor returns the refusal of an update in place of a pod to a revision; the zero value if there is none.
func (t *tracker) unfitFor(task, pod types.UID, target string) unfit {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.tasks[task].unfit[pod]; u.target == target {
		return u
	}
	return unfit{}
}

// refusals returns the refused removals of a task by pod UID. The map must not be changed.
func (t *tracker) refusals(task types.UID) map[types.UID]rollout.RefusedWrite {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tasks[task].refused
}

func (t *tracker) forget(task types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tasks, task)
}
