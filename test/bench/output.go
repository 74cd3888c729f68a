// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
)

// table returns all results for humans.
func (r results) table(targets []target.Target) string {
	var out strings.Builder
	if len(r.rollouts) > 0 {
		const format = "%-13s %-20s %20s %12s %15s %9s %10s %16s %17s %14s\n"
		fmt.Fprintf(&out, "\n"+format, "medians", "", "time without writes", "longest gap", "leader changes", "restarts", "rollout", "first deletion", "overhead per pod", "with handover")
		for _, s := range r.measured() {
			for _, way := range s.ways {
				m := mediansOf(r.of(s, way))
				reaction, overhead, handover := target.Seconds(m.Reaction), target.Seconds(m.Overhead), ""
				switch {
				case way.key == inPlace.key:
					reaction, overhead = "", ""
				case way.managed:
					handover = target.Seconds(m.Handover)
				}
				fmt.Fprintf(&out, format, s.name, way.name, target.Seconds(m.WithoutWrites), target.Seconds(m.LongestGap),
					fmt.Sprint(m.LeaderChanges), fmt.Sprint(m.Restarts), target.Seconds(m.Took), reaction, overhead, handover)
			}
		}
	}
	for _, s := range r.measured() {
		fmt.Fprintf(&out, "\nAPI requests of a rollout, %s: %s\n", s.name, breakdown(r.typicalRequests(s, s.ways[0])))
		for _, one := range r.of(s, quorumAware) {
			if s.ways[0].key == quorumAware.key && one.requests.total() > maxRequests(s.members) {
				fmt.Fprintf(&out, "  too many in pair %d: %s\n", one.pair+1, breakdown(one.requests))
			}
		}
	}
	if len(r.idleGaps) > 0 {
		fmt.Fprintf(&out, "\nlongest gap of an idle minute: %s\n", target.Seconds(median(r.idleGaps).Seconds()))
	}
	if r.changes != nil {
		fmt.Fprintf(&out, "\n%s: %s\n", changes, r.changes)
	}
	for _, one := range r.resizes {
		fmt.Fprintf(&out, "\n%s: %s\n", members, one)
	}
	if r.idle != nil {
		fmt.Fprintf(&out, "\nAPI requests in an idle minute: %s\n", breakdown(r.idle))
	}
	if len(targets) > 0 {
		out.WriteString("\n" + target.Table(targets))
	}
	return out.String()
}

// breakdown returns requests by kind, the most frequent first.
func breakdown(r requests) string {
	kinds := slices.SortedFunc(maps.Keys(r), func(a, b request) int {
		return cmp.Or(cmp.Compare(r[b], r[a]), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	var parts []string
	for _, k := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s %s", r[k], k.Verb, k.Resource))
	}
	if len(parts) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", r.total(), strings.Join(parts, ", "))
}

// write writes bench.json.
func (b *bench) write(targets []target.Target) error {
	document := map[string]any{
		"measuredAt": time.Now().UTC().Format(time.RFC3339),
		"machine":    map[string]any{"cpus": runtime.NumCPU(), "os": runtime.GOOS, "arch": runtime.GOARCH},
		"pairs":      b.pairs,
		"scenarios":  b.results.document(),
		"targets":    targets,
	}
	if b.results.idle != nil {
		document["idleRequestsPerMinute"] = b.results.idle.byKind()
	}
	if gaps := b.results.idleGaps; len(gaps) > 0 {
		document["idleMinute"] = map[string]any{"median": median(gaps).Seconds(), "longestWriteGapSeconds": inSeconds(gaps)}
	}
	if s := b.results.changes; s != nil {
		document[changes] = map[string]any{
			"changes": numberOfChanges, "intervalSeconds": s.interval.Seconds(), "seconds": s.figures.Until.Sub(s.figures.From).Seconds(), "restartsOfEtcd": s.restarts,
			"leaderChanges": s.figures.LeaderChanges, "longestWriteGapSeconds": s.figures.LongestGap.Seconds(), "secondsWithoutWrites": s.figures.WithoutWrites.Seconds(),
		}
	}
	if len(b.results.resizes) > 0 {
		document[members] = b.results.resizesDocument()
	}
	encoded, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	path := filepath.Join(b.stage.Local, "bench.json")
	if err := os.WriteFile(path, append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	b.console.Line("\n  results                  %s", path)
	return nil
}

func inSeconds(all []time.Duration) []float64 {
	var seconds []float64
	for _, d := range all {
		seconds = append(seconds, d.Seconds())
	}
	return seconds
}

// document returns the part of bench.json on rollouts.
func (r results) document() map[string]any {
	document := map[string]any{}
	for _, s := range r.measured() {
		of := map[string]any{}
		for _, way := range s.ways {
			var runs []medians
			for _, one := range r.of(s, way) {
				runs = append(runs, mediansOf([]rollout{one}))
			}
			entry := map[string]any{"median": mediansOf(r.of(s, way)), "runs": runs}
			if way.managed {
				entry["requests"] = r.typicalRequests(s, way).byKind()
				var each []map[string]int
				for _, one := range r.of(s, way) {
					each = append(each, one.requests.byKind())
				}
				entry["requestsOfEach"] = each
			}
			of[way.key] = entry
		}
		document[s.name] = of
	}
	return document
}

// byKind returns a number for each verb and resource.
func (r requests) byKind() map[string]int {
	document := map[string]int{"total": r.total()}
	for kind, n := range r {
		document[kind.Verb+" "+kind.Resource] = n
	}
	return document
}
