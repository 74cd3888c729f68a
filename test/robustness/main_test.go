// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/operations"
)

// choices returns what a seed chooses, and how often each name is among it.
func choices(t *testing.T, seed uint64, turns int) (all string, names map[string]int) {
	t.Helper()
	p, err := newPlan(options{seed: seed, most: 2})
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]int{}
	machine := &faults.Machine{Name: "main", Members: 3}
	for range turns {
		operation, chosen := p.next(machine)
		names[operation.Name]++
		all += operation.Name
		for _, fault := range chosen {
			names[fault.Kind.Name]++
			all += fmt.Sprintf(", %s after %s", fault.Fault, fault.after)
		}
		all += "\n"
	}
	return all, names
}

func TestASeedReplaysItsChoices(t *testing.T) {
	first, names := choices(t, 7, 100)
	if again, _ := choices(t, 7, 100); again != first {
		t.Errorf("seed 7 chose\n%s\nand then\n%s", first, again)
	}
	if other, _ := choices(t, 8, 100); other == first {
		t.Error("seeds 7 and 8 choose the same")
	}
	for _, k := range faults.All() {
		if names[k.Name] == 0 {
			t.Errorf("%s has no turn in 100 operations", k.Name)
		}
	}
	for _, o := range operations.All() {
		if names[o.Name] == 0 {
			t.Errorf("%s has no turn in 100 operations", o.Name)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	for _, o := range []options{{operations: "rollout,dance"}, {faultKinds: "rain"}} {
		if _, err := newPlan(o); err == nil {
			t.Errorf("%+v is a plan", o)
		}
	}
	p, err := newPlan(options{operations: "rollout", faultKinds: "node cordoned,node tainted", most: 2, always: true})
	if err != nil {
		t.Fatal(err)
	}
	if operation, chosen := p.next(&faults.Machine{Name: "main", Members: 3}); operation.Name != "rollout" || len(chosen) != 2 {
		t.Errorf("chose %s, %v", operation.Name, chosen)
	}
}
