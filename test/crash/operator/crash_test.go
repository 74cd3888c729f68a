// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package operator_test kills the whole operator at each of its writes, before a real API server, its etcd and the real StatefulSet controller.
// There is no kubelet: pods, members, the agent and its Jobs are simulated, so what a member does with its data is not seen here;
// test/integration/member and the end-to-end tests have that. test/crash/engine does the same to the task engine alone, in memory.
package operator_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
)

var all = flag.Bool("crash-all", false, "every kind of disturbance at every write, which takes long")

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager()))
}

// disturbance is what happens to a run at a write.
type disturbance struct {
	// what is the write, and nth which of those that are the same. How often a status is written differs from run to run, so a number would
	// not say which write it is.
	what string
	nth  int
	fate disturb.Fate
	// past are the kinds of which the successor of a killed operator begins with an older state.
	past []string
	// hold are the kinds whose watches are held from then on, for so long: events of other kinds overtake theirs.
	hold []string
	long time.Duration
}

func (d disturbance) String() string {
	how := d.fate.String()
	if len(d.hold) > 0 {
		how = fmt.Sprintf("%s held for %s", strings.Join(d.hold, " and "), d.long)
	}
	if len(d.past) > 0 {
		how += fmt.Sprintf(" and successor with %s from the past", strings.Join(d.past, " and "))
	}
	return fmt.Sprintf("%s at %s %d", how, d.what, d.nth)
}

// kinds are those whose events matter while tasks run.
var kinds = []string{"etcds", "etcdoperatortasks", "statefulsets", "pods", "configmaps"}

// longer is longer than the operator waits for its cache to show what it wrote.
const longer = 6 * time.Second

// disturbances of a run with some writes. Without -crash-all they are a sample of those that occur in every run, which is the first of its
// kind, of its name and in its stage: each third, one way for each, and the one that records the end, which is lost.
func disturbances(writes []disturb.Write, scenario string) []disturbance {
	var every, sample []disturbance
	var last disturbance
	seen, i := map[string]int{}, 0
	for _, write := range writes {
		seen[write.What()]++
		ways := waysAt(disturbance{what: write.What(), nth: seen[write.What()]})
		every = append(every, ways...)
		// A pod is patched where a kubelet has not passed on a ConfigMap yet, or a label differs: not in every run.
		if write.Kind == "etcds" || write.Kind == "configmaps" || write.Verb == "patch" && write.Kind == "pods" || seen[write.What()] > 1 {
			continue
		}
		if write.Kind == "etcdoperatortasks" {
			last = ways[1]
		}
		if i++; i%3 == 2 {
			sample = append(sample, ways[(i/3+len(scenario))%4])
		}
	}
	if *all {
		return every
	}
	return append(sample, last)
}

func waysAt(at disturbance) []disturbance {
	with := func(change func(*disturbance)) disturbance {
		d := at
		change(&d)
		return d
	}
	ways := []disturbance{
		with(func(d *disturbance) { d.fate = disturb.KilledAfter }),
		with(func(d *disturbance) { d.fate = disturb.KilledBefore }),
		with(func(d *disturbance) { d.fate = disturb.AnswerLost }),
		with(func(d *disturbance) { d.fate, d.past, d.long = disturb.KilledAfter, kinds, 3*time.Second }),
		with(func(d *disturbance) { d.fate = disturb.NotSent }),
		with(func(d *disturbance) {
			d.fate, d.past, d.long = disturb.KilledAfter, []string{"etcdoperatortasks"}, 3*time.Second
		}),
		with(func(d *disturbance) { d.hold, d.long = []string{"statefulsets", "pods"}, 2*time.Second }),
	}
	for _, k := range kinds[:4] {
		ways = append(ways, with(func(d *disturbance) { d.hold, d.long = []string{k}, longer }))
	}
	return ways
}

// outcome is what a run has come to.
type outcome struct {
	state, acts string
	writes      []disturb.Write
}

// calm is for how long nothing may change at the end of an undisturbed run: longer than what is compared waits to be written.
const calm = 3 * time.Second

// undisturbed runs a scenario.
func undisturbed(t *testing.T, s scenario) outcome {
	t.Helper()
	w := newWorld(t, s, disturbance{})
	w.begin()
	w.until("the task has ended", w.hasEnded)
	state, since := "", time.Now()
	w.until("nothing changes any more", func() bool {
		if now := w.state(); now != state {
			state, since = now, time.Now()
		}
		return time.Since(since) > calm
	})
	w.operator.stop()
	w.mu.Lock()
	if len(w.broken) > 0 {
		t.Fatalf("undisturbed: %v", w.broken)
	}
	w.mu.Unlock()
	return outcome{state, w.acts(), w.writes}
}

// after is for how long a run is watched once it has come to its end: for a second act.
const after = time.Second

// run runs a scenario with a disturbance. It reports whether that came about: a write that another one depends on may not be needed.
func run(t *testing.T, s scenario, d disturbance, want outcome) (hit bool) {
	t.Helper()
	w := newWorld(t, s, d)
	w.begin()
	w.until("it ends as it would undisturbed, which is\n"+want.state+"\n"+want.acts, func() bool { return w.hasEnded() && w.state() == want.state && w.acts() == want.acts })
	for end := time.Now().Add(after); time.Now().Before(end); <-time.After(poll) {
		w.tick()
	}
	if state, acts := w.state(), w.acts(); acts != want.acts {
		t.Errorf("afterwards it was\n%s\n%s\nand not\n%s\n%s", state, acts, want.state, want.acts)
	}
	w.operator.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) > 0 {
		t.Errorf("broken: %v\nwrites: %v", w.broken, w.writes)
	}
	return !w.hit.IsZero()
}

// Whatever write the operator is disturbed at, it or the next one brings the task to the end that it would have come to, and does nothing twice.
func TestEveryWrite(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			want := undisturbed(t, s)
			t.Logf("undisturbed it ends as\n%s\n%s\nby %d writes: %v", want.state, want.acts, len(want.writes), want.writes)
			some := disturbances(want.writes, s.name)
			hits := make([]bool, len(some))
			t.Run("disturbed", func(t *testing.T) {
				for i, d := range some {
					t.Run(d.String(), func(t *testing.T) {
						t.Parallel()
						hits[i] = run(t, s, d, want)
					})
				}
			})
			report(t, some, hits)
		})
	}
}

// report fails the test if more than a third of the runs did not come to the write that they were to be disturbed at. Of those that are the
// same in a stage, only the first is in every run: how many follow it depends on how busy the machine is.
func report(t *testing.T, some []disturbance, hits []bool) {
	t.Helper()
	due, missed := 0, 0
	for i, d := range some {
		if d.nth == 1 {
			due++
		}
		if !hits[i] {
			t.Logf("not disturbed: %s", d)
		}
		if d.nth == 1 && !hits[i] {
			missed++
		}
	}
	t.Logf("%d runs; %d of the %d whose write is in every run did not come to it", len(some), missed, due)
	if missed*3 > due {
		t.Errorf("%d of %d runs were not disturbed", missed, due)
	}
}
