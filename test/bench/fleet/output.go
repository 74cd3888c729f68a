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

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/neighbors"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
)

// The targets.
const (
	// maxReady and maxResident are for a thousand Etcds, and for ten thousand; in between they grow evenly.
	maxReady, maxReadyOfMany       = 10, 60    // s
	maxResident, maxResidentOfMany = 200, 1024 // MiB
	// maxReaction is how long 99 % of the events may take until their step: a template that changes, a pod that is ready.
	maxReaction = time.Second
	// maxBusy is the maximum percentage of busy workers of a controller that runs rollouts: one must be idle, or some
	// rollout waits for another.
	maxBusy = 99
)

// results are the results so far. Times are in seconds, memory in MiB; 0 or nil is unknown.
type results struct {
	// MadeIn is how long all Etcds took to become ready, with everything else running on this machine, and WhileMade
	// the maximum resident memory of the operator in that time.
	MadeIn    float64 `json:"madeInSeconds,omitempty"`
	WhileMade float64 `json:"residentWhileMadeMiB,omitempty"`
	// Ready is the time from the start of the operator until it had reconciled every Etcd and its queue was empty, ReadyCPU
	// its CPU time until then, and Unseen the time until it deleted a pod for a change made while it was down.
	Ready    float64 `json:"readySeconds,omitempty"`
	ReadyCPU float64 `json:"readyProcessorSeconds,omitempty"`
	Unseen   float64 `json:"firstDeletionAfterRestartSeconds,omitempty"`
	// Resident memory of the restarted operator: when it was ready, while idle, and the maximum so far.
	AtReady  float64 `json:"residentWhenReadyMiB,omitempty"`
	Idle     float64 `json:"residentIdleMiB,omitempty"`
	Resident float64 `json:"residentMaxMiB,omitempty"`
	// Memory is what the memory of the idle operator is.
	Memory memory `json:"memoryIdle,omitzero"`
	// IdleLoad is the load of an idle operator, with all writes.
	IdleLoad *Load `json:"idle,omitempty"`
	// Neighbors is the reaction for healthy Etcds beside others.
	Neighbors []neighbors.Result `json:"neighbors,omitempty"`
	// Attack is the reaction for healthy Etcds with and without an attack.
	Attack *comparison `json:"attack,omitempty"`

	// Policy is how a template went through the fleet.
	Policy *passage `json:"policy,omitempty"`

	alone, many *rollouts
}

// limit returns the limit for a number of Etcds, of one for a thousand and one for ten thousand.
func limit(etcds int, thousand, tenThousand float64) float64 {
	return thousand + (tenThousand-thousand)*float64(max(etcds-1000, 0))/9000
}

func median(sorted []time.Duration) time.Duration { return sorted[(len(sorted)-1)/2] }

// targets returns the targets that have results so far, for a number of Etcds.
func (r results) targets(etcds int) []target.Target {
	var all []target.Target
	if r.Ready > 0 {
		all = append(all,
			target.New("restart: every Etcd reconciled, queue empty", "s", r.Ready, limit(etcds, maxReady, maxReadyOfMany)),
			target.New("maximum resident memory", "MiB", r.Resident, limit(etcds, maxResident, maxResidentOfMany)))
	}
	if r.many != nil {
		name := fmt.Sprintf("%d rollouts at once: ", len(r.many.each))
		all = append(all,
			target.New(name+"busy workers, maximum", "%", 100*r.many.load.mostBusy(), maxBusy).Against(100*r.alone.load.mostBusy()),
			target.New(name+"from a change to the first deletion, 99 %", "s", percentile(r.many.reactions(), 0.99).Seconds(), maxReaction.Seconds()),
			target.New(name+"from a pod being ready to the next deletion, 99 %", "s", percentile(r.many.gaps(), 0.99).Seconds(), maxReaction.Seconds()))
	}
	if r.IdleLoad != nil {
		all = append(all, target.New("writes while idle, except leases", "", float64(total(r.IdleLoad.Writes)), 0))
	}
	if r.Attack != nil {
		all = append(all, r.Attack.targets()...)
	}
	if r.Policy != nil {
		all = append(all, r.Policy.targets()...)
	}
	return all
}

// table returns the results so far for humans.
func (r results) table(targets []target.Target) string {
	var out strings.Builder
	if r.Ready > 0 {
		fmt.Fprintf(&out, "\nafter a restart: first deletion for a change made while the operator was down after %s; %.0f MiB when ready\n", target.Seconds(r.Unseen), r.AtReady)
	}
	for _, some := range []*rollouts{r.alone, r.many} {
		if some == nil {
			continue
		}
		gaps, first := some.gaps(), some.reactions()
		fmt.Fprintf(&out, "rollouts at once: %d; first deletion after %s; from a pod being ready to the next deletion %s; total %s; %.1f requests of the operator for each\n  %s\n", len(some.each),
			spread(first), spread(gaps), target.Seconds(some.slowest().Seconds()), some.load.Requests/float64(len(some.each)), some.load)
	}
	if r.many != nil {
		// Not a target: on a machine with few CPUs, the API server dominates.
		fmt.Fprintf(&out, "the slowest of %d took %.1f times as long as one alone; the machine's CPUs were %.0f %% busy\n",
			len(r.many.each), r.many.slowest().Seconds()/r.alone.slowest().Seconds(), 100*r.many.load.Machine/float64(runtime.NumCPU()))
	}
	if r.IdleLoad != nil {
		fmt.Fprintf(&out, "idle: %.0f MiB, %s; %s\n", r.Idle, r.Memory, r.IdleLoad)
		for _, kind := range slices.Sorted(maps.Keys(r.IdleLoad.Writes)) {
			fmt.Fprintf(&out, "  writes: %d %s\n", r.IdleLoad.Writes[kind], strings.TrimSpace(kind))
		}
	}
	for _, n := range r.Neighbors {
		fmt.Fprintf(&out, "beside %s: a task is rejected after %s (slowest %s), a change observed after %s (slowest %s)\n", n.Beside,
			target.Seconds(n.Task), target.Seconds(n.MaxTask), target.Seconds(n.Etcd), target.Seconds(n.MaxEtcd))
	}
	if r.Attack != nil {
		out.WriteString("\n" + r.Attack.table())
	}
	if r.Policy != nil {
		out.WriteString("\n" + r.Policy.table())
	}
	out.WriteString("\n" + target.Table(targets))
	return out.String()
}

// spread describes some times, the shortest first.
func spread(sorted []time.Duration) string {
	return fmt.Sprintf("%s (99 %% within %s, slowest %s)", target.Seconds(median(sorted).Seconds()), target.Seconds(percentile(sorted, 0.99).Seconds()), target.Seconds(sorted[len(sorted)-1].Seconds()))
}

// summary returns a summary of rollouts for the file.
func (r *rollouts) summary() map[string]any {
	gaps, first := r.gaps(), r.reactions()
	return map[string]any{
		"atOnce": len(r.each), "slowest": r.slowest().Seconds(), "load": r.load,
		"medianReaction": median(first).Seconds(), "p99Reaction": percentile(first, 0.99).Seconds(), "slowestReaction": first[len(first)-1].Seconds(),
		"medianGap": median(gaps).Seconds(), "p99Gap": percentile(gaps, 0.99).Seconds(), "longestGap": gaps[len(gaps)-1].Seconds(),
		"requestsOfEach": r.load.Requests / float64(len(r.each)),
	}
}

// write writes the results so far to bench-fleet.json.
func (b *bench) write() error {
	if b.results.Ready > 0 {
		if _, greatest := b.operator.memory(); greatest > 0 {
			b.results.Resident = greatest
		}
	}
	all := map[string]any{
		"measuredAt": time.Now().UTC().Format(time.RFC3339),
		"machine":    map[string]any{"cpus": runtime.NumCPU(), "os": runtime.GOOS, "arch": runtime.GOARCH},
		"etcds":      b.etcds, "members": simulated.Members, "podStartSeconds": b.podStart.Seconds(), "idleSeconds": b.idle.Seconds(),
		"results": b.results, "targets": b.results.targets(b.etcds),
	}
	if b.results.alone != nil {
		all["oneRollout"] = b.results.alone.summary()
	}
	if b.results.many != nil {
		all["manyRollouts"] = b.results.many.summary()
	}
	encoded, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(b.file(), append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// file returns the path of the results.
func (b *bench) file() string { return filepath.Join(filepath.Dir(b.dir), "bench-fleet.json") }
