// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
)

// results are those of all parts.
type results struct {
	// theirs and ours replaced pods while a member hung; raised is the change in place.
	theirs, ours, raised result
}

// row is one figure of every part, for humans.
type row struct {
	Name, Theirs, Ours, Raised string
}

func (r results) rows() []row {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	all := func(name string, show func(result) string) row {
		return row{name, show(r.theirs), show(r.ours), show(r.raised)}
	}
	return []row{
		all("time without writes", func(r result) string { return seconds(r.figures.WithoutWrites) }),
		all("longest write gap", func(r result) string { return seconds(r.figures.LongestGap) }),
		all("leader changes", func(r result) string { return fmt.Sprint(r.figures.LeaderChanges) }),
		all("restarts of etcd", func(r result) string { return fmt.Sprint(r.restarts) }),
		all("rollout took", func(r result) string { return seconds(r.took()) }),
		all("acknowledged writes", func(r result) string { return fmt.Sprint(r.figures.Acknowledged) }),
		all("of them lost", func(result) string { return "0" }),
	}
}

// table returns the comparison for a terminal.
func (r results) table() string {
	const format = "  %-22s %16s %20s %20s\n"
	out := fmt.Sprintf(format, "", "one member hangs:", "", "all healthy:") +
		fmt.Sprintf(format, "", "RollingUpdate", "QuorumAwareRollout", "resources in place")
	for _, r := range r.rows() {
		out += fmt.Sprintf(format, r.Name, r.Theirs, r.Ours, r.Raised)
	}
	return out
}

func (r result) took() time.Duration { return r.figures.Until.Sub(r.figures.From) }

// outcome is a machine-readable result.
type outcome struct {
	LongestWriteGapSeconds float64 `json:"longestWriteGapSeconds"`
	SecondsWithoutWrites   float64 `json:"secondsWithoutWrites"`
	LeaderChanges          int     `json:"leaderChanges"`
	RestartsOfEtcd         int     `json:"restartsOfEtcd"`
	RolloutSeconds         float64 `json:"rolloutSeconds"`
	AcknowledgedWrites     int     `json:"acknowledgedWrites"`
}

func (r result) outcome() outcome {
	return outcome{
		LongestWriteGapSeconds: rounded(r.figures.LongestGap),
		SecondsWithoutWrites:   rounded(r.figures.WithoutWrites),
		LeaderChanges:          r.figures.LeaderChanges,
		RestartsOfEtcd:         r.restarts,
		RolloutSeconds:         rounded(r.took()),
		AcknowledgedWrites:     r.figures.Acknowledged,
	}
}

// rounded returns a duration in seconds, rounded to milliseconds.
func rounded(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

//go:embed page.html.tmpl
var pageTemplate string

var page = template.Must(template.New("page").Parse(pageTemplate))

// write writes demo.json, demo.svg and demo.html.
func (d *demo) write(r results) error {
	figures, err := json.MarshalIndent(map[string]outcome{
		"rollingUpdate": r.theirs.outcome(), "quorumAwareRollout": r.ours.outcome(), "inPlace": r.raised.outcome(),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	var picture, document bytes.Buffer
	if err := d.chart(r).Write(&picture); err != nil {
		return err
	}
	err = page.Execute(&document, struct {
		Rows    []row
		Picture template.HTML
		Version string
	}{r.rows(), template.HTML(picture.String()), time.Now().UTC().Format("2 January 2006, 15:04 MST")})
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	d.console.Line("")
	for _, file := range []struct {
		name, what string
		content    []byte
	}{
		{"demo.html", "table and timeline", document.Bytes()},
		{"demo.svg", "timeline", picture.Bytes()},
		{"demo.json", "figures", append(figures, '\n')},
	} {
		path := filepath.Join(d.cluster.Local, file.name)
		if err := os.WriteFile(path, file.content, 0o644); err != nil {
			return fmt.Errorf("writing the %s: %w", file.what, err)
		}
		d.console.Line("  %-22s %s", file.what, path)
	}
	d.console.Line("")
	return nil
}

func (d *demo) chart(r results) timeline.Chart {
	hangs := d.cluster.PodName(frozen)
	return timeline.Chart{
		Title:    fmt.Sprintf("A new pod template for a %d-member etcd: while one member hangs, and in place", replicas),
		Subtitle: "In the first two, " + hangs + " was frozen (SIGSTOP) before the template changed. A writer for each member puts a key every 50 ms.",
		Axis:     "seconds since the change of the template",
		Runs:     []timeline.Run{d.drawn(r.theirs), d.drawn(r.ours), d.drawn(r.raised)},
	}
}

func (d *demo) drawn(r result) timeline.Run {
	run := timeline.Run{
		Name: r.way.name,
		From: r.figures.From, Until: r.figures.Until,
		Pods: r.report.Pods, Revision: r.change.Revision,
		Reigns: r.reigns(), Gaps: r.figures.Gaps, Steps: r.steps,
	}
	if !r.way.healthy {
		run.Frozen, run.FrozenAt = d.cluster.PodName(frozen), r.frozen
	}
	for i := range replicas {
		run.Members = append(run.Members, d.cluster.PodName(i))
	}
	caused := slices.ContainsFunc(run.Gaps, func(g measure.Gap) bool { return !run.Quiet(g) })
	run.Summary, run.Good = summary(r, caused), !caused
	return run
}
