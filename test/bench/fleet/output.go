// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
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

const mebibyte = 1 << 20

// The targets.
const (
	maxReady    = 10 * time.Second
	maxResident = 200 // MiB
	// maxSlowdown is how many times as long as one alone the slowest of many rollouts may take.
	maxSlowdown = 1.2
)

// results are what was measured. Times are in seconds, memory in MiB.
type results struct {
	// MadeIn is how long all Etcds took to become ready, on this machine with all else that runs on it.
	MadeIn float64 `json:"madeInSeconds"`
	// Ready is the time from the start of the operator until it had looked at every Etcd and had nothing in line;
	// Unseen that until it deleted a pod for a change that was made while it was away.
	Ready  float64 `json:"readySeconds"`
	Unseen float64 `json:"firstDeletionAfterRestartSeconds"`
	// Resident memory when it was ready, at the end, and the greatest.
	AtReady  float64 `json:"residentWhenReadyMiB"`
	Idle     float64 `json:"residentIdleMiB"`
	Resident float64 `json:"residentMaxMiB"`
	// Cores that an operator with nothing to do uses, and what anybody writes meanwhile.
	Cores  float64        `json:"idleCores"`
	Writes map[string]int `json:"idleWrites"`

	alone rolled
	many  []rolled
}

func slowest(all []rolled) time.Duration {
	var most time.Duration
	for _, r := range all {
		most = max(most, r.took)
	}
	return most
}

// gaps of all rollouts, the shortest first.
func gaps(all []rolled) []time.Duration {
	var g []time.Duration
	for _, r := range all {
		g = append(g, r.gaps...)
	}
	slices.Sort(g)
	return g
}

// reactions of all rollouts, the fastest first.
func reactions(all []rolled) []time.Duration {
	var some []time.Duration
	for _, r := range all {
		some = append(some, r.reaction)
	}
	slices.Sort(some)
	return some
}

func median(sorted []time.Duration) time.Duration { return sorted[(len(sorted)-1)/2] }

func (r results) targets() []target.Target {
	one := r.alone.took.Seconds()
	return []target.Target{
		target.New("restart: every Etcd looked at, nothing in line", "s", r.Ready, maxReady.Seconds()),
		target.New("resident memory, the greatest", "MiB", r.Resident, maxResident),
		target.New(fmt.Sprintf("%d rollouts at once: the slowest, at most %.1f of one alone", len(r.many), maxSlowdown), "s", slowest(r.many).Seconds(), maxSlowdown*one).Against(one),
		target.New("writes with nothing to do, but leases", "", float64(total(r.Writes)), 0),
	}
}

// table is everything for people.
func (r results) table(targets []target.Target) string {
	var out strings.Builder
	some := []rolled{r.alone}
	fmt.Fprintf(&out, "\nafter a restart: first deletion for a change that was made meanwhile after %s; %.0f MiB when ready\n", target.Seconds(r.Unseen), r.AtReady)
	for name, all := range map[string][]rolled{"one rollout alone": some, "rollouts at once": r.many} {
		g, first := gaps(all), reactions(all)
		fmt.Fprintf(&out, "%s: first deletion after %s (slowest %s); from a pod being back to the next deletion %s (slowest %s); all in %s\n", name,
			target.Seconds(median(first).Seconds()), target.Seconds(first[len(first)-1].Seconds()),
			target.Seconds(median(g).Seconds()), target.Seconds(g[len(g)-1].Seconds()), target.Seconds(slowest(all).Seconds()))
	}
	fmt.Fprintf(&out, "with nothing to do: %.2f cores, %.0f MiB", r.Cores, r.Idle)
	for _, kind := range slices.Sorted(maps.Keys(r.Writes)) {
		fmt.Fprintf(&out, "; %d %s", r.Writes[kind], strings.TrimSpace(kind))
	}
	out.WriteString("\n\n" + target.Table(targets))
	return out.String()
}

// write writes bench-fleet.json.
func (b *bench) write(targets []target.Target) error {
	g := gaps(b.results.many)
	encoded, err := json.MarshalIndent(map[string]any{
		"measuredAt": time.Now().UTC().Format(time.RFC3339),
		"machine":    map[string]any{"cpus": runtime.NumCPU(), "os": runtime.GOOS, "arch": runtime.GOARCH},
		"etcds":      b.etcds, "members": members, "podStartSeconds": b.podStart.Seconds(), "idleSeconds": b.idle.Seconds(),
		"results":  b.results,
		"rollouts": map[string]any{"alone": b.results.alone.took.Seconds(), "atOnce": b.rollouts, "slowest": slowest(b.results.many).Seconds(), "medianGap": median(g).Seconds(), "longestGap": g[len(g)-1].Seconds()},
		"targets":  targets,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	path := filepath.Join(filepath.Dir(b.dir), "bench-fleet.json")
	if err := os.WriteFile(path, append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	b.console.Line("\n  results                  %s", path)
	return nil
}
