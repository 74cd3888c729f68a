// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"k8s.io/apimachinery/pkg/types"
)

// memory is what the handler keeps of the tasks it runs. Nothing depends on it but how soon something happens:
// an operator that starts without it waits longer.
type memory struct {
	mu    sync.Mutex
	tasks map[types.UID]recollection
}

type recollection struct {
	// last is the last observation, and spells are those until then.
	last    *observe.Snapshot
	spells  Spells
	refused map[types.UID]Refusal
}

// observe adds an observation to the spells of a task.
func (m *memory) observe(task types.UID, snapshot *observe.Snapshot) Spells {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.tasks[task]
	r.last, r.spells = snapshot, r.spells.Next(snapshot)
	m.put(task, r)
	return r.spells
}

// last is the last observation of a task, with the spells until then; nil when there was none.
func (m *memory) last(task types.UID) (*observe.Snapshot, Spells) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[task].last, m.tasks[task].spells
}

// refuse remembers that a removal cannot come any more: the API server refused it, or it was not sent.
func (m *memory) refuse(task, pod types.UID, refusal Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.tasks[task]
	r.refused = maps.Clone(r.refused)
	if r.refused == nil {
		r.refused = map[types.UID]Refusal{}
	}
	r.refused[pod] = refusal
	m.put(task, r)
}

// refusals are the refusals of a task, by pod UID. The map is never changed afterwards.
func (m *memory) refusals(task types.UID) map[types.UID]Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[task].refused
}

// lastWithdrawal is when a removal of a task was last announced and not sent.
func (m *memory) lastWithdrawal(task types.UID) time.Time {
	var last time.Time
	for _, refusal := range m.refusals(task) {
		if refusal.Withdrawn {
			last = latest(last, refusal.At)
		}
	}
	return last
}

func (m *memory) forget(task types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tasks, task)
}

func (m *memory) put(task types.UID, r recollection) {
	if m.tasks == nil {
		m.tasks = map[types.UID]recollection{}
	}
	m.tasks[task] = r
}
