// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type objects map[types.NamespacedName]client.Object

// Table has objects by kind: those of the server, or those of a cache.
type Table struct {
	objects map[string]objects
	// sorted are the objects of a kind by name, as long as they have not changed; mu is for those who list at the same time.
	sorted map[string][]client.Object
	mu     *sync.Mutex
}

func newTable() Table {
	return Table{objects: map[string]objects{}, sorted: map[string][]client.Object{}, mu: &sync.Mutex{}}
}

// Find returns an object, which may not be changed; nil if there is none.
func (t *Table) Find(kind string, key types.NamespacedName) client.Object {
	return t.objects[kind][key]
}

func (t *Table) take(c Change) {
	delete(t.sorted, c.Kind)
	if t.objects[c.Kind] == nil {
		t.objects[c.Kind] = objects{}
	}
	if c.After == nil {
		delete(t.objects[c.Kind], c.Key)
		return
	}
	t.objects[c.Kind][c.Key] = c.After
}

// All returns the objects of a kind by name. Neither they nor the list may be changed.
func (t *Table) All(kind string) []client.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, known := t.sorted[kind]
	if !known {
		all = slices.SortedFunc(maps.Values(t.objects[kind]), func(a, b client.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
		t.sorted[kind] = all
	}
	return all
}

// Of returns all objects of a type, which may not be changed, by name.
func Of[T client.Object](t *Table) (all []T) {
	var zero T
	for _, o := range t.All(reflect.TypeOf(zero).Elem().Name()) {
		all = append(all, o.(T))
	}
	return all
}

// Find returns an object of a type, which may not be changed; nil if there is none.
func Find[T client.Object](t *Table, namespace, name string) (found T) {
	o, _ := t.Find(reflect.TypeOf(found).Elem().Name(), types.NamespacedName{Namespace: namespace, Name: name}).(T)
	return o
}

// fill gives an object the content of another one, of the same kind; shared, they share its memory.
func fill(into, from client.Object, shared bool) error {
	if u, ok := into.(runtime.Unstructured); ok {
		kind := into.GetObjectKind().GroupVersionKind()
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
		if err != nil {
			return fmt.Errorf("converting a %T: %w", from, err)
		}
		u.SetUnstructuredContent(content)
		into.GetObjectKind().SetGroupVersionKind(kind)
		return nil
	}
	if reflect.TypeOf(into) != reflect.TypeOf(from) {
		return fmt.Errorf("reading a %T as a %T: not modeled", from, into)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(own(from, shared)).Elem())
	return nil
}

// own returns an object, or a copy of it, unless who reads it shares what is stored and changes nothing in it.
func own(o client.Object, shared bool) runtime.Object {
	if shared {
		return o
	}
	return o.DeepCopyObject()
}
