// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package lock excludes the controllers of one process from each other, Etcd by Etcd: while a step of a task is decided and
// carried out, nothing else stops, scales or replaces members.
package lock

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Locks has a lock for each Etcd. The zero value is ready for use.
type Locks struct {
	mu    sync.Mutex
	locks map[types.NamespacedName]*lock
}

// lock is the lock of one Etcd, with the number of goroutines that hold it or wait for it. It is a channel of capacity one: for
// testing/synctest, a goroutine that waits for a channel is durably blocked, but one that waits for a mutex is not.
type lock struct {
	held  chan struct{}
	users int
}

// One is a lock for what is not about an Etcd, for those who send requests while they have it. The zero value is ready for use.
type One struct{ locks Locks }

// Lock waits for the lock and returns the function that releases it.
func (o *One) Lock() (unlock func()) { return o.locks.Lock(types.NamespacedName{}) }

// Lock waits for the lock of an Etcd and returns the function that releases it.
func (l *Locks) Lock(etcd types.NamespacedName) (unlock func()) {
	l.mu.Lock()
	k, ok := l.locks[etcd]
	if !ok {
		if l.locks == nil {
			l.locks = map[types.NamespacedName]*lock{}
		}
		k = &lock{held: make(chan struct{}, 1)}
		l.locks[etcd] = k
	}
	k.users++
	l.mu.Unlock()

	k.held <- struct{}{}
	return func() {
		<-k.held
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.locks, etcd)
		}
	}
}
