// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
)

// memory is what the engine keeps between reconciles. Everything in it can be lost: then a status is written
// once more, or a task that is deleted in the very moment in which the operator restarts is not cleaned up
// after.
type memory struct {
	mu     sync.Mutex
	writes map[types.UID]time.Time
	runs   map[types.NamespacedName]tasks.Task
}

func (m *memory) lastWrite(task types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes[task]
}

func (m *memory) wrote(task types.UID, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writes == nil {
		m.writes = map[types.UID]time.Time{}
	}
	m.writes[task] = at
}

// running remembers the task of an Etcd that runs. The task is looked at again when it has been deleted, so
// what is recorded in it later counts: it is the object itself that is kept.
func (m *memory) running(task tasks.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = map[types.NamespacedName]tasks.Task{}
	}
	m.runs[task.Object.EtcdKey()] = task
}

func (m *memory) ended(t *v1alpha1.EtcdOperatorTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writes, t.UID)
	if task, ok := m.runs[t.EtcdKey()]; ok && task.Object.UID == t.UID {
		delete(m.runs, t.EtcdKey())
	}
}

func (m *memory) ran(etcd types.NamespacedName) (tasks.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	task, ok := m.runs[etcd]
	return task, ok
}

// cleanUpAfterDeleted cleans up after a task that ran and has been deleted, which aborts it between two steps.
func (r *Reconciler) cleanUpAfterDeleted(ctx context.Context, etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) error {
	task, ok := r.memory.ran(etcd)
	if !ok {
		return nil
	}
	for _, t := range all {
		if t.UID == task.Object.UID {
			return nil
		}
	}
	if err := r.Registry[task.Object.Spec.Type].Handler.Cleanup(ctx, task); err != nil {
		return err
	}
	r.memory.ended(task.Object)
	return nil
}
