// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
)

func exampleRollout(w way, took, without, gap float64, changes int) rollout {
	zero := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	duration := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	r := rollout{scenario: scenarios[1], way: w, figures: measure.Figures{
		From: zero, Until: zero.Add(duration(took)), WithoutWrites: duration(without), LongestGap: duration(gap), LeaderChanges: changes,
	}}
	if w.managed {
		r.reaction, r.overheads, r.handovers = duration(took/50), []time.Duration{duration(took / 500)}, []time.Duration{duration(took / 400)}
		r.requests = requests{{"list", "pods"}: int(took / 5), {"delete", "pods"}: 3}
	} else {
		r.overheads = []time.Duration{duration(took / 1000)}
	}
	return r
}

func exampleRun() results {
	r := results{idle: requests{{"get", "etcds"}: 2}}
	for _, took := range []float64{45, 47, 90} {
		r.rollouts = append(r.rollouts,
			exampleRollout(ways[0], took, 0, 0.08, 1),
			exampleRollout(ways[1], took+5, took/3, took/6, 2),
			exampleRollout(ways[2], took+6, took/2, took/4, 3))
	}
	return r
}

func TestTable(t *testing.T) {
	r := exampleRun()
	golden.Check(t, "table.txt", []byte(r.table(r.targets())))
}

func TestTargets(t *testing.T) {
	r := exampleRun()
	if targets := r.targets(); len(targets) != 5 || !target.Met(targets) {
		t.Errorf("%d targets, all met: %t", len(targets), target.Met(targets))
	}
	r.rollouts[0].requests[request{"list", "pods"}] = maxRequests(3)
	if targets := r.targets(); target.Met(targets) || targets[2].Met {
		t.Error("a rollout with too many requests meets its target")
	}
	if targets := (results{}).targets(); len(targets) != 0 {
		t.Errorf("%d targets without measurements", len(targets))
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		numbers []int
		want    int
	}{{nil, 0}, {[]int{7}, 7}, {[]int{3, 1}, 1}, {[]int{9, 1, 5}, 5}} {
		if got := median(test.numbers); got != test.want {
			t.Errorf("median of %v is %d, want %d", test.numbers, got, test.want)
		}
	}
}

func TestChooseScenarios(t *testing.T) {
	c, err := chooseScenarios("5-frozen,idle")
	if err != nil || !c.idle || len(c.ofSize(3)) != 0 || len(c.ofSize(5)) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := chooseScenarios("4-healthy"); err == nil {
		t.Error("an unknown scenario is no error")
	}
}

func TestAFrozenMemberNeverLeads(t *testing.T) {
	for _, s := range scenarios {
		led := map[int]bool{}
		for pair := range 10 {
			led[s.leader(pair)] = true
		}
		if want := s.members; s.frozen && (led[0] || len(led) != want-1) || !s.frozen && len(led) != want {
			t.Errorf("%s is led by %v", s.name, led)
		}
	}
}

func TestCount(t *testing.T) {
	replacements := []measure.Replacement{
		{Deleted: time.Unix(12, 0)},
		{Deleted: time.Unix(20, 0), Overhead: 100 * time.Millisecond},
		{Deleted: time.Unix(30, 0), Overhead: 300 * time.Millisecond, Led: true},
		{Deleted: time.Unix(31, 0)},
	}
	for _, w := range ways {
		r := rollout{way: w, figures: measure.Figures{From: time.Unix(10, 0)}}
		r.count(replacements)
		if r.reaction != 2*time.Second || len(r.overheads)+len(r.handovers) != 2 || w.managed != (len(r.handovers) == 1) {
			t.Errorf("%s: %+v", w.name, r)
		}
	}
}
