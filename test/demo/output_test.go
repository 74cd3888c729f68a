// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

func exampleResults() results {
	zero := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	after := func(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }
	theirs := result{way: rollingUpdate, restarts: 3, figures: measure.Figures{
		From: zero, Until: after(51.2345), Acknowledged: 1700, LongestGap: 7900 * time.Millisecond,
		WithoutWrites: 15500 * time.Millisecond, Gaps: []measure.Gap{{From: after(1), To: after(8.6)}}, LeaderChanges: 2,
	}}
	ours := result{way: quorumAware, restarts: 3, figures: measure.Figures{
		From: zero, Until: after(46), Acknowledged: 2700, LongestGap: 90 * time.Millisecond, LeaderChanges: 1,
	}}
	raised := result{way: inPlace, figures: measure.Figures{From: zero, Until: after(2.25), Acknowledged: 130, LongestGap: 60 * time.Millisecond}}
	return results{theirs: theirs, ours: ours, raised: raised}
}

func TestTable(t *testing.T) {
	want := `
                         one member hangs:                              all healthy:
                            RollingUpdate   QuorumAwareRollout   resources in place
  time without writes             15.50 s               0.00 s               0.00 s
  longest write gap                7.90 s               0.09 s               0.06 s
  leader changes                        2                    1                    0
  restarts of etcd                      3                    3                    0
  rollout took                    51.23 s              46.00 s               2.25 s
  acknowledged writes                1700                 2700                  130
  of them lost                          0                    0                    0
`
	if got := "\n" + exampleResults().table(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

func TestSummary(t *testing.T) {
	r := exampleResults()
	if got := summary(r.raised, false); got != "always writable · 0 restarts · 0 leader changes · done in 2.2 s" {
		t.Error(got)
	}
	if got := summary(r.theirs, true); got != "no writes for 15.5 s · 2 leader changes · rolled out in 51 s" {
		t.Error(got)
	}
	if got := summary(r.ours, false); got != "always writable · 1 leader change · rolled out in 46 s" {
		t.Error(got)
	}
}

// A gap while no pod changed and one member led is the machine's: the summary says so, and does not count it against the rollout.
func TestGapWhileNothingChanged(t *testing.T) {
	d := &demo{cluster: stage.Cluster{Name: "m"}}
	r := exampleResults().theirs
	r.figures.WithoutWrites = 350 * time.Millisecond
	r.figures.Gaps = []measure.Gap{{From: r.figures.From.Add(25 * time.Second), To: r.figures.From.Add(25350 * time.Millisecond)}}
	r.report.Stopped = r.figures.Until
	r.report.Sightings = []measure.Sighting{{At: r.figures.From, Pod: "m-2", Member: 1, Leader: 1, Term: 5}, {At: r.figures.Until, Pod: "m-2", Member: 1, Leader: 1, Term: 5}}
	if run := d.drawn(r); !run.Good || run.Summary != "no writes for 0.3 s while nothing changed · 2 leader changes · rolled out in 51 s" {
		t.Errorf("nothing changed: good is %t, %s", run.Good, run.Summary)
	}
	r.steps = []timeline.Step{{At: r.figures.Gaps[0].From, Pod: "m-1"}}
	if run := d.drawn(r); run.Good || run.Summary != "no writes for 0.3 s · 2 leader changes · rolled out in 51 s" {
		t.Errorf("a pod was deleted: good is %t, %s", run.Good, run.Summary)
	}
}

func TestWrite(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{cluster: stage.Cluster{Stage: &stage.Stage{Local: t.TempDir()}, Name: "m"}, console: console.New(null)}
	if err := d.write(exampleResults()); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(d.cluster.Local, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	var figures map[string]map[string]float64
	if err := json.Unmarshal([]byte(read("demo.json")), &figures); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]float64{"longestWriteGapSeconds": 7.9, "secondsWithoutWrites": 15.5, "leaderChanges": 2, "rolloutSeconds": 51.235} {
		if got := figures["rollingUpdate"][field]; got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
		if _, ok := figures["quorumAwareRollout"][field]; !ok {
			t.Errorf("quorumAwareRollout has no %s", field)
		}
	}
	document := read("demo.html")
	if !strings.Contains(document, read("demo.svg")) || !strings.Contains(document, "15.50 s") || strings.Contains(document, "ZgotmplZ") {
		t.Error("the page lacks its picture or its figures")
	}
}
