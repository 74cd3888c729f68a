// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// memory is what the engine keeps between reconciles, by Etcd. Everything in it can be lost: then a status is
// written once more, or a task that is deleted in the very moment in which the operator restarts is not cleaned up
// after.
type memory struct {
	mu    sync.Mutex
	etcds map[types.NamespacedName]*recollection
}

type recollection struct {
	// writes are the last ones of the statuses of tasks.
	writes map[types.UID]written
	// runs are the tasks that run: one, or another that runs beside it or has passed it.
	runs map[types.UID]tasks.Task
	// pauses are those of tasks that something failed for: the very record of a failure would wake them.
	pauses map[types.UID]pause
	// troubled are the deleted tasks that could not be cleaned up after, and of which an event has told.
	troubled map[types.UID]bool
}

// pause is until when a task is left alone, and for how long it was.
type pause struct {
	until time.Time
	wait  time.Duration
}

// A task that fails again and again is left alone for the first of these, then for twice as long, and so on up to the
// second.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
)

// written is a write of a status: when it was, whether it could not wait, and the resourceVersion that it made.
type written struct {
	at              time.Time
	urgent          bool
	resourceVersion string
}

// maxCacheLag is how long the cache is waited for. An API server that was restored from a backup may never show again
// what was written to it.
const maxCacheLag = 5 * time.Second

// isBehind tells whether a task in the cache is older than what was written last. The cache will tell of it.
func (w written) isBehind(cached *v1alpha1.EtcdOperatorTask, now time.Time) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, w.resourceVersion)
	return err == nil && order < 0 && now.Sub(w.at) < maxCacheLag
}

// of is what is kept of an Etcd. The caller holds the mutex.
func (m *memory) of(etcd types.NamespacedName) *recollection {
	if m.etcds == nil {
		m.etcds = map[types.NamespacedName]*recollection{}
	}
	r, ok := m.etcds[etcd]
	if !ok {
		r = &recollection{
			writes: map[types.UID]written{}, runs: map[types.UID]tasks.Task{}, pauses: map[types.UID]pause{}, troubled: map[types.UID]bool{},
		}
		m.etcds[etcd] = r
	}
	return r
}

// keep forgets the tasks that are gone, and the Etcd when nothing is left to remember.
func (m *memory) keep(etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(etcd)
	gone := func(uid types.UID) bool {
		return !slices.ContainsFunc(all, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == uid })
	}
	maps.DeleteFunc(r.writes, func(uid types.UID, _ written) bool { return gone(uid) })
	maps.DeleteFunc(r.pauses, func(uid types.UID, _ pause) bool { return gone(uid) })
	if len(r.writes) == 0 && len(r.runs) == 0 && len(r.pauses) == 0 {
		delete(m.etcds, etcd)
	}
}

func (m *memory) lastWrite(t *v1alpha1.EtcdOperatorTask) written {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(t.EtcdKey()).writes[t.UID]
}

func (m *memory) wrote(t *v1alpha1.EtcdOperatorTask, w written) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(t.EtcdKey()).writes[t.UID] = w
}

// pause leaves a task alone for a while.
func (m *memory) pause(t *v1alpha1.EtcdOperatorTask, now time.Time, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(t.EtcdKey()).pauses[t.UID] = pause{now.Add(wait), wait}
}

// backOff leaves a task alone for twice as long as the last time, and returns for how long.
func (m *memory) backOff(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(t.EtcdKey())
	wait := min(max(2*r.pauses[t.UID].wait, firstPause), maxPause)
	r.pauses[t.UID] = pause{now.Add(wait), wait}
	return wait
}

// resume forgets the pause of a task, once it is over.
func (m *memory) resume(t *v1alpha1.EtcdOperatorTask, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.of(t.EtcdKey()); !r.pauses[t.UID].until.After(now) {
		delete(r.pauses, t.UID)
	}
}

// pausedFor is how long a task is still left alone; not more than 0 when it is not.
func (m *memory) pausedFor(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(t.EtcdKey()).pauses[t.UID].until.Sub(now)
}

// running remembers a task of an Etcd that runs. The object itself is kept, because what is recorded in it later
// counts when the task has been deleted.
func (m *memory) running(task tasks.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(task.Object.EtcdKey()).runs[task.Object.UID] = task
}

func (m *memory) ended(t *v1alpha1.EtcdOperatorTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(t.EtcdKey())
	delete(r.runs, t.UID)
	delete(r.troubled, t.UID)
}

// trouble remembers that a deleted task could not be cleaned up after, and reports whether that is new.
func (m *memory) trouble(t *v1alpha1.EtcdOperatorTask) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(t.EtcdKey())
	known := r.troubled[t.UID]
	r.troubled[t.UID] = true
	return !known
}

// deleted are the tasks that ran, and are not among those that there are, by name.
func (m *memory) deleted(etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) []tasks.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	var gone []tasks.Task
	for uid, task := range m.of(etcd).runs {
		if !slices.ContainsFunc(all, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == uid }) {
			gone = append(gone, task)
		}
	}
	slices.SortFunc(gone, func(a, b tasks.Task) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	return gone
}
