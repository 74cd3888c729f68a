// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
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
	// assessed is what the updates rest on.
	assessed assessed
	// revisions are the ControllerRevisions that were read.
	revisions *read.Known
	// unfit are the updates in place that the API server has refused, by pod.
	unfit map[types.UID]unfit
}

// assessed are assessments of pods by one live read. The zero value covers nothing.
type assessed struct {
	at     time.Time
	target string
	pods   map[types.UID]inplace.Assessment
}

// covers reports whether each outdated pod of a cached snapshot is as it was assessed. After a while all are assessed again: a ControllerRevision
// that was missing may be there.
func (a assessed) covers(s *cluster.Snapshot) bool {
	if a.target != s.StatefulSet.UpdateRevision || s.At.Sub(a.at) > rollout.MaxGap {
		return false
	}
	return !slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool {
		return o.Pod != nil && o.Class != v1alpha1.ClassTerminating && !o.Pod.At(a.target) && a.pods[o.Pod.UID].ResourceVersion != o.Pod.ResourceVersion
	})
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

// assess adds an assessment of pods to the record of their updates, and returns that record. It covers later snapshots if it holds until a
// pod changes.
func (t *tracker) assess(task types.UID, snapshot *cluster.Snapshot, pods map[types.UID]inplace.Assessment, holds bool) inplace.Updates {
	return t.change(task, func(of *tracked) {
		of.updates, of.assessed = of.updates.Next(snapshot, pods, rollout.MaxGap), assessed{}
		if holds {
			of.assessed = assessed{snapshot.At, snapshot.StatefulSet.UpdateRevision, pods}
		}
	}).updates
}

// assessAgain adds a cached snapshot to the record of the updates; false if what was assessed last does not cover it.
func (t *tracker) assessAgain(task types.UID, snapshot *cluster.Snapshot) (updates inplace.Updates, covered bool) {
	updates = t.change(task, func(of *tracked) {
		if covered = of.assessed.covers(snapshot); covered {
			of.updates = of.updates.Next(snapshot, of.assessed.pods, rollout.MaxGap)
		}
	}).updates
	return updates, covered
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
	t.change(task, func(of *tracked) { of.unfit, of.assessed = memory.With(of.unfit, pod, u), assessed{} })
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
