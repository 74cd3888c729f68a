// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
)

// memory is what the engine keeps between reconciles, by Etcd. Everything in it can be lost: then a status is
// written once more, or a task that is deleted in the very moment in which the operator restarts is not cleaned up
// after.
type memory struct {
	mu    sync.Mutex
	etcds map[types.NamespacedName]*recollection
}

type recollection struct {
	// writes are the times at which the statuses of tasks were last written.
	writes map[types.UID]time.Time
	// run is the task that runs.
	run *tasks.Task
}

// of is what is kept of an Etcd. The caller holds the mutex.
func (m *memory) of(etcd types.NamespacedName) *recollection {
	if m.etcds == nil {
		m.etcds = map[types.NamespacedName]*recollection{}
	}
	r, ok := m.etcds[etcd]
	if !ok {
		r = &recollection{writes: map[types.UID]time.Time{}}
		m.etcds[etcd] = r
	}
	return r
}

// keep forgets the tasks that are gone, and the Etcd when none is left.
func (m *memory) keep(etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(etcd)
	maps.DeleteFunc(r.writes, func(uid types.UID, _ time.Time) bool {
		return !slices.ContainsFunc(all, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == uid })
	})
	if len(r.writes) == 0 && r.run == nil {
		delete(m.etcds, etcd)
	}
}

func (m *memory) lastWrite(t *v1alpha1.EtcdOperatorTask) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(t.EtcdKey()).writes[t.UID]
}

func (m *memory) wrote(t *v1alpha1.EtcdOperatorTask, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(t.EtcdKey()).writes[t.UID] = at
}

// running remembers the task of an Etcd that runs. The object itself is kept, because what is recorded in it later
// counts when the task has been deleted.
func (m *memory) running(task tasks.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(task.Object.EtcdKey()).run = &task
}

func (m *memory) ended(t *v1alpha1.EtcdOperatorTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.of(t.EtcdKey()); r.run != nil && r.run.Object.UID == t.UID {
		r.run = nil
	}
}

func (m *memory) ran(etcd types.NamespacedName) *tasks.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(etcd).run
}

// cleanUpAfterDeleted cleans up after a task that ran and has been deleted, which aborts it between two steps.
func (r *Reconciler) cleanUpAfterDeleted(ctx context.Context, etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) error {
	defer r.memory.keep(etcd, all)
	task := r.memory.ran(etcd)
	if task == nil || slices.ContainsFunc(all, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == task.Object.UID }) {
		return nil
	}
	if err := r.Registry[task.Object.Spec.Type].Handler.Cleanup(ctx, *task); err != nil {
		return err
	}
	r.memory.ended(task.Object)
	return nil
}
