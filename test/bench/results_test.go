// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
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
	r := results{
		idle: requests{{"get", "etcds"}: 2}, idleGaps: []time.Duration{90 * time.Millisecond},
		changes: &series{interval: 30 * time.Second, figures: took(600, 120*time.Millisecond, 0, 0).figures},
	}
	for _, took := range []float64{45, 47, 90} {
		r.rollouts = append(r.rollouts,
			exampleRollout(quorumAware, took, 0, 0.08, 1),
			exampleRollout(rollingUpdate, took+5, took/3, took/6, 2),
			exampleRollout(onDelete, took+6, took/2, took/4, 3))
	}
	return r
}

func TestTable(t *testing.T) {
	r := exampleRun()
	golden.Check(t, "table.txt", []byte(r.table(r.targets())))
}

func TestTargets(t *testing.T) {
	r := exampleRun()
	if targets := r.targets(); len(targets) != 6 || !target.Met(targets) {
		t.Errorf("%d targets, all met: %t", len(targets), target.Met(targets))
	}
	r.rollouts[0].requests[request{"list", "pods"}] = maxRequests(3)
	if targets := r.targets(); target.Met(targets) || targets[2].Met {
		t.Error("a rollout with too many requests meets its target")
	}
	if said := "too many in pair 1: 46 (43 list pods, 3 delete pods)"; !strings.Contains(r.table(nil), said) || strings.Count(r.table(nil), "too many") != 1 {
		t.Errorf("the table does not say %q of that rollout alone:\n%s", said, r.table(nil))
	}
	if targets := (results{}).targets(); len(targets) != 0 {
		t.Errorf("%d targets without measurements", len(targets))
	}
}

// exampleOf is a scenario measured once in each of its ways.
func exampleOf(name string, figures map[string]rollout) results {
	at := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	r := results{idleGaps: []time.Duration{90 * time.Millisecond}}
	for _, w := range scenarios[at].ways {
		one := figures[w.key]
		one.scenario, one.way = scenarios[at], w
		r.rollouts = append(r.rollouts, one)
	}
	return r
}

// took is a rollout of some seconds.
func took(seconds int, gap time.Duration, restarts, leaderChanges int) rollout {
	return rollout{restarts: restarts, figures: measure.Figures{
		From: time.Unix(0, 0), Until: time.Unix(int64(seconds), 0), LongestGap: gap, LeaderChanges: leaderChanges,
	}}
}

func TestTargetsInPlace(t *testing.T) {
	const short, long = 80 * time.Millisecond, 100 * time.Millisecond
	newPods, rolling := took(20, long, 3, 1), took(24, long, 3, 2)
	for _, test := range []struct {
		scenario string
		own      rollout
		missed   int
	}{
		{resources, took(5, short, 0, 0), 0},
		{resources, took(6, short, 0, 0), 1},
		{resources, took(5, long, 0, 0), 1},
		{resources, took(5, short, 1, 1), 2},
		{agentImage, took(15, long, 0, 0), 0},
		{agentImage, took(16, long, 1, 1), 3},
		{etcdImage, took(14, long, 3, 1), 0},
		{etcdImage, took(15, long+1, 3, 1), 2},
	} {
		r := exampleOf(test.scenario, map[string]rollout{inPlace.key: test.own, quorumAware.key: newPods, rollingUpdate.key: rolling})
		missed := 0
		for _, target := range r.targets() {
			if !target.Met {
				missed++
			}
		}
		if missed != test.missed {
			t.Errorf("%s: %d targets are missed, want %d: %+v", test.scenario, missed, test.missed, r.targets())
		}
	}
}

func TestFrozenMemberAgainstHealthy(t *testing.T) {
	for seconds, met := range map[int]bool{14: true, 15: false} {
		r := exampleOf(healthy3, map[string]rollout{quorumAware.key: took(10, 0, 3, 1), rollingUpdate.key: took(20, 0, 3, 2), onDelete.key: took(20, 0, 3, 2)})
		frozen := exampleOf(frozen3, map[string]rollout{quorumAware.key: took(seconds, 0, 3, 1), rollingUpdate.key: took(50, 0, 3, 2), onDelete.key: took(50, 0, 3, 2)})
		r.rollouts = append(r.rollouts, frozen.rollouts...)
		if target.Met(r.targets()) != met {
			t.Errorf("%d s: %+v", seconds, r.targets())
		}
	}
}

// A pod template follows its Etcd: both patches of an edit make the same change.
func TestEditsOfEtcdAndTemplateAgree(t *testing.T) {
	for _, e := range []edit{raise, changeAgent, changeEtcd, annotate} {
		etcd, template := e.etcd(3, "localhost/i:bench.3"), e.template(3, "localhost/i:bench.3")
		for _, value := range []string{`"cpu":"23m"`, `"memory":"67Mi"`, `"localhost/i:bench.3"`, `restartedAt":"3"`} {
			if strings.Contains(etcd, value) != strings.Contains(template, value) {
				t.Errorf("%s and %s differ in %s", etcd, template, value)
			}
		}
		for _, patch := range []string{etcd, template} {
			if !json.Valid([]byte(patch)) {
				t.Errorf("%s is no JSON", patch)
			}
		}
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
	for _, w := range newPods {
		r := rollout{way: w, figures: measure.Figures{From: time.Unix(10, 0)}}
		r.count(replacements)
		if r.reaction != 2*time.Second || len(r.overheads)+len(r.handovers) != 2 || w.managed != (len(r.handovers) == 1) {
			t.Errorf("%s: %+v", w.name, r)
		}
	}
}
