// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// census counts what has occurred in runs, by kind and name: what has not was not tested.
type census map[string]map[string]int

func (c census) add(kind, name string) { c.addAll(kind, map[string]int{name: 1}) }

func (c census) addAll(kind string, counted map[string]int) {
	if c[kind] == nil {
		c[kind] = map[string]int{}
	}
	for name, n := range counted {
		c[kind][name] += n
	}
}

// status counts what the status of a task says, at each change of it.
func (c census) status(t *v1alpha1.EtcdOperatorTask) {
	_, blocked := t.Status.Held()
	for _, b := range blocked {
		c.add("guard", string(b.Guard))
	}
	for _, condition := range t.Status.Conditions {
		c.add("reason", condition.Reason)
	}
	for _, e := range t.Status.LastErrors {
		c.add("code", string(e.Code))
	}
	if o := t.Status.LastOperation; o != nil {
		action, _, _ := strings.Cut(o.Name, " ")
		c.add("step", action)
	}
}

// lacks returns which of some names of a kind have not occurred.
func (c census) lacks(kind string, names []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return c[kind][name] > 0 })
}

// names returns the names of a kind that have occurred.
func (c census) names(kind string) []string { return slices.Sorted(maps.Keys(c[kind])) }
