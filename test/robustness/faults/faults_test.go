// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"testing"
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
