// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
)

func TestExcludes(t *testing.T) {
	named := func(name string) Kind {
		k, known := Named(name)
		if !known {
			t.Fatalf("there is no fault %q", name)
		}
		return k
	}
	takeover := named("operator takes over with an old cache")
	for name, want := range map[string]bool{
		"operator takes over with an old cache": true,
		"operator killed (SIGKILL)":             true,
		"API server slow":                       true,
		"member killed (SIGKILL)":               false,
		"node cordoned":                         false,
	} {
		if other := named(name); takeover.Excludes(other) != want || other.Excludes(takeover) != want {
			t.Errorf("with %s: %t, %t, want %t", name, takeover.Excludes(other), other.Excludes(takeover), want)
		}
	}
	if a, b := named("node cordoned"), named("node tainted"); a.Excludes(b) {
		t.Error("kinds that need nothing exclude each other")
	}
}

// Every cache is that of an operator that takes over, at different moments, and the same seed gives the same ones.
func TestChooseTakeover(t *testing.T) {
	kind, _ := Named("operator takes over with an old cache")
	m := &Machine{Name: "main", Members: 3}
	a, b := rand.New(rand.NewPCG(1, 0)), rand.New(rand.NewPCG(1, 0))
	resources, delays := map[string]bool{}, map[int]bool{}
	for range 100 {
		f := kind.Choose(m, a, false)
		if again := kind.Choose(m, b, false); again.Target() != f.Target() || again.target.delay != f.target.delay {
			t.Fatalf("%+v, and then %+v", f.target, again.target)
		}
		resources[f.target.resource] = true
		delays[int(f.target.delay.Seconds())] = true
	}
	if len(resources) != len(watched) || len(delays) < 9 {
		t.Errorf("%v, %v", resources, delays)
	}
}

// In a migration, faults are for the members of both StatefulSets, as far as they have a pod.
func TestFaultsOfAMigration(t *testing.T) {
	m := &Machine{Name: "main", Other: "next", Members: 2, Roster: &view.Roster{}}
	random := rand.New(rand.NewPCG(1, 0))
	targets := func() string {
		all := map[string]bool{}
		for range 100 {
			all[anyMember(m, random).name] = true
		}
		return fmt.Sprint(slices.Sorted(maps.Keys(all)))
	}
	if got := targets(); got != "[main-0 main-1]" {
		t.Errorf("without a migration: %s", got)
	}
	m.Both = true
	if got := targets(); got != "[main-0 main-1 next-0 next-1]" {
		t.Errorf("in a migration: %s", got)
	}
	every := allMembers(m, random).members
	if got := m.present(every); len(got) != 4 {
		t.Errorf("nobody has a pod, and %v are hit", got)
	}
	for _, name := range []string{"main-0", "main-1", "next-0"} {
		m.Roster.Add(view.Pod{Name: name})
	}
	if got := fmt.Sprint(m.present(every)); got != "[main-0 main-1 next-0]" {
		t.Errorf("hit are %s", got)
	}
	if got := m.present([]string{"next-1"}); len(got) != 1 {
		t.Errorf("a single target is replaced: %v", got)
	}
	if got := setOf("next-1"); got != "next" {
		t.Errorf("the StatefulSet of next-1 is %s", got)
	}
}
