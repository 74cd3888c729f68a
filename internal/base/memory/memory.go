// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package memory keeps values for Etcds and tasks in the memory of this process.
package memory

import (
	"maps"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PerEtcd holds a value for each Etcd. An Etcd that was created again under its name has no
// value yet. The zero PerEtcd is ready for use, by several goroutines. A value is replaced, never changed in place.
type PerEtcd[T any] struct {
	mu     sync.Mutex
	values map[types.NamespacedName]valueOf[T]
}

type valueOf[T any] struct {
	etcd  types.UID
	value T
}

// Of returns the value of an Etcd; the zero value when there is none.
func (p *PerEtcd[T]) Of(etcd *v1alpha1.Etcd) (value T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.values[client.ObjectKeyFromObject(etcd)]; v.etcd == etcd.UID {
		return v.value
	}
	return value
}

// Set replaces the value of an Etcd.
func (p *PerEtcd[T]) Set(etcd *v1alpha1.Etcd, value T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.values == nil {
		p.values = map[types.NamespacedName]valueOf[T]{}
	}
	p.values[client.ObjectKeyFromObject(etcd)] = valueOf[T]{etcd.UID, value}
}

// Forget removes the value of the Etcd of a name.
func (p *PerEtcd[T]) Forget(etcd types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.values, etcd)
}

// PerTask holds a value for each task. The zero PerTask is ready for use, by several goroutines.
type PerTask[T any] struct {
	mu     sync.Mutex
	values map[types.UID]T
}

// Of returns the value of a task; the zero value if it has none.
func (p *PerTask[T]) Of(task types.UID) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[task]
}

// Change lets a function change the value of a task, and returns it.
func (p *PerTask[T]) Change(task types.UID, change func(value *T)) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.values == nil {
		p.values = map[types.UID]T{}
	}
	value := p.values[task]
	change(&value)
	p.values[task] = value
	return value
}

// Forget removes the value of a task.
func (p *PerTask[T]) Forget(task types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.values, task)
}

// With returns a copy of a map, which may be nil, in which a key has a value. The map is left as it is.
func With[M ~map[K]V, K comparable, V any](m M, key K, value V) M {
	next := make(M, len(m)+1)
	maps.Copy(next, m)
	next[key] = value
	return next
}
