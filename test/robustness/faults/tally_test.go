// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import "testing"

// What is to happen to all members was not in effect if it happened to some.
func TestTally(t *testing.T) {
	var times tally
	both := []string{"main-0", "main-1"}
	if got := times.evidence(both, "stopped"); got != "" {
		t.Errorf("nothing happened: %q", got)
	}
	times.add("main-0")
	times.add("main-0")
	if got := times.evidence(both, "stopped"); got != "" {
		t.Errorf("it happened to one: %q", got)
	}
	times.add("main-1")
	if got, want := times.evidence(both, "stopped"), "stopped: main-0 2 times, main-1 1 times"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Two rules that match the same packets would drop more of them than one.
func TestBetween(t *testing.T) {
	seen := map[pair]bool{}
	for _, p := range between([]string{"a", "b", "c"}) {
		if seen[p] || p.from == p.to {
			t.Errorf("%+v", p)
		}
		seen[p] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d directions between three members", len(seen))
	}
}
