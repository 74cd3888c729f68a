// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// NewLocker makes a Locker for one process.
func NewLocker() Locker { return &locker{locks: map[types.NamespacedName]*lock{}} }

type locker struct {
	mu    sync.Mutex
	locks map[types.NamespacedName]*lock
}

// lock is the lock of one Etcd, with the number of those who hold it or wait for it.
type lock struct {
	mu    sync.Mutex
	users int
}

func (l *locker) Lock(etcd types.NamespacedName) func() {
	l.mu.Lock()
	k, ok := l.locks[etcd]
	if !ok {
		k = &lock{}
		l.locks[etcd] = k
	}
	k.users++
	l.mu.Unlock()

	k.mu.Lock()
	return func() {
		k.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.locks, etcd)
		}
	}
}
