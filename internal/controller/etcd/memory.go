// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what this process remembers of Etcds. To lose it costs a write of a status, a rendering, two
// seconds, or a longer wait.
type memory struct {
	mu    sync.Mutex
	etcds map[types.NamespacedName]remembered
}

// remembered is what is remembered of one Etcd.
type remembered struct {
	// written is when its status was last written.
	written time.Time
	// overwritten is the resourceVersion that it then had. A cache that still shows it is late, and a write
	// would only be refused.
	overwritten string
	// lostSince is when its quorum was first seen to be gone; zero while it is there.
	lostSince time.Time
	// secrets is what its Secrets were last found to be like.
	secrets checkedSecrets
	// warnings of claims that wait for their volumes. It is replaced, never changed.
	warnings map[types.UID]claimWarning
	// comparison of its objects that found nothing to do, the last one.
	comparison comparison
	// absences of its members, while its update strategy is to change to RollingUpdate. They are replaced, never changed.
	absences absences
	// obstruction by objects that are not its own, the last one.
	obstruction obstruction
}

func (m *memory) of(etcd types.NamespacedName) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.etcds[etcd]
}

func (m *memory) change(etcd types.NamespacedName, change func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.etcds == nil {
		m.etcds = map[types.NamespacedName]remembered{}
	}
	r := m.etcds[etcd]
	change(&r)
	m.etcds[etcd] = r
}

func (m *memory) forget(etcd types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.etcds, etcd)
}

// lostFor is for how long the quorum of an Etcd has been gone, now that it was seen to be there or not.
func (m *memory) lostFor(etcd types.NamespacedName, quorate bool, now time.Time) time.Duration {
	m.change(etcd, func(r *remembered) {
		switch {
		case quorate:
			r.lostSince = time.Time{}
		case r.lostSince.IsZero():
			r.lostSince = now
		}
	})
	if quorate {
		return 0
	}
	return now.Sub(m.of(etcd).lostSince)
}
