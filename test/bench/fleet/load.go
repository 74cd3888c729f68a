// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// lateAfter is how long a reconcile of an Etcd may wait for a worker before it counts as late, in seconds. It is a bound of
// the histogram's buckets.
const lateAfter = 0.1

// counters are the counts up to a moment.
type counters struct {
	at time.Time
	// programs are the CPU times of the benchmark and of the programs that it started, by name.
	programs map[string]time.Duration
	// machine is the CPU time of all programs on the machine.
	machine time.Duration
	// writes are those of the API server, by kind; requests are all of the operator's.
	writes   map[string]float64
	requests float64
	// looks counts reconciles of Etcds: their number, wait and work times in seconds, and how many were late.
	looks, waited, worked, late float64
}

// Load is the load of a period.
type Load struct {
	Seconds float64 `json:"seconds"`
	// Machine is the number of busy cores, and Programs the cores used by each program.
	Machine  float64            `json:"busyCores"`
	Programs map[string]float64 `json:"coresByProgram"`
	// Requests of the operator to the API server, and all writes there.
	Requests float64        `json:"operatorRequests"`
	Writes   map[string]int `json:"writes"`
	// Looks are reconciles of Etcds: their number, the mean wait for a worker, the mean duration, and how many waited longer
	// than 0.1 s. A reconcile also waits for the previous one of the same Etcd.
	Looks  float64 `json:"looks"`
	Waited float64 `json:"meanWaitSeconds"`
	Worked float64 `json:"meanWorkSeconds"`
	Late   float64 `json:"waitedLong"`
	// Workers by controller, where they were watched.
	Workers map[string]Workers `json:"workers,omitempty"`
}

// count takes a sample of all counters.
func (b *bench) count(ctx context.Context) (counters, error) {
	c := counters{at: time.Now()}
	var err error
	if c.writes, err = b.server.writes(ctx); err != nil {
		return c, err
	}
	if c.programs, c.machine, err = processorTimes(); err != nil {
		return c, err
	}
	families, err := scrape(ctx, http.DefaultClient, b.operator.metrics)
	if err != nil {
		return c, err
	}
	c.requests = sum(families["rest_client_requests_total"], nil)
	for _, m := range families["workqueue_queue_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		c.looks += float64(h.GetSampleCount())
		c.waited += h.GetSampleSum()
		c.late += float64(h.GetSampleCount()) - within(h, lateAfter)
	}
	for _, m := range families["workqueue_work_duration_seconds"].GetMetric() {
		c.worked += m.GetHistogram().GetSampleSum()
	}
	return c, nil
}

// within returns the number of samples that do not exceed a bucket's bound.
func within(h *dto.Histogram, bound float64) float64 {
	most := uint64(0)
	for _, b := range h.GetBucket() {
		// The bounds are computed and not exact.
		if b.GetUpperBound() < bound*1.01 {
			most = max(most, b.GetCumulativeCount())
		}
	}
	return float64(most)
}

// since returns the load since an earlier count.
func (c counters) since(before counters) Load {
	seconds := c.at.Sub(before.at).Seconds()
	l := Load{
		Seconds: seconds, Machine: (c.machine - before.machine).Seconds() / seconds, Programs: map[string]float64{},
		Requests: c.requests - before.requests, Writes: newWrites(before.writes, c.writes),
		Looks: c.looks - before.looks, Late: c.late - before.late,
	}
	if l.Looks > 0 {
		l.Waited, l.Worked = (c.waited-before.waited)/l.Looks, (c.worked-before.worked)/l.Looks
	}
	for name, used := range c.programs {
		l.Programs[name] = (used - before.programs[name]).Seconds() / seconds
	}
	return l
}

// String describes a Load.
func (l Load) String() string {
	var programs []string
	byUse := func(a, b string) int { return int(1000 * (l.Programs[b] - l.Programs[a])) }
	for _, name := range slices.SortedFunc(maps.Keys(l.Programs), byUse) {
		programs = append(programs, fmt.Sprintf("%s %.2f", name, l.Programs[name]))
	}
	said := fmt.Sprintf("%.2f cores busy (%s); %.0f requests of the operator (%.0f/s), %d writes in total; %.0f reconciles of Etcds: mean wait %.1f ms, %.0f of them over %.0f ms; mean duration %.1f ms",
		l.Machine, strings.Join(programs, ", "), l.Requests, l.Requests/l.Seconds, total(l.Writes),
		l.Looks, 1000*l.Waited, l.Late, 1000*lateAfter, 1000*l.Worked)
	for _, name := range slices.Sorted(maps.Keys(l.Workers)) {
		said += fmt.Sprintf("; controller %s: at most %.0f of %.0f workers busy", name, l.Workers[name].Busy, l.Workers[name].Of)
	}
	return said
}

// operatorProgram is the name of the operator's program.
const operatorProgram = "etcd-foreman"

// tick is the unit of CPU times in Linux.
const tick = 10 * time.Millisecond

// processorTimes returns the CPU times of this process and its children, by program, and of the machine.
func processorTimes() (programs map[string]time.Duration, machine time.Duration, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, 0, fmt.Errorf("listing processes: %w", err)
	}
	programs = map[string]time.Duration{}
	self := strconv.Itoa(os.Getpid())
	for _, path := range stats {
		p, ok := readProcess(path)
		if ok && (p.pid == self || p.parent == self) {
			programs[p.name] += p.used
		}
	}
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, 0, fmt.Errorf("reading the CPU times of the machine: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line)[1:] {
		// The fourth and the fifth are the idle and I/O wait times.
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != 3 && i != 4 {
			machine += time.Duration(n) * tick
		}
	}
	return programs, machine, nil
}

// process describes a process.
type process struct {
	pid, parent, name string
	used              time.Duration
}

// readProcess reads the stat of a process; false if it is gone.
func readProcess(path string) (process, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return process{}, false
	}
	// The name of the program, in parentheses, may contain spaces.
	pid, rest, _ := strings.Cut(string(data), " (")
	end := strings.LastIndexByte(rest, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(rest[end+1:])
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return process{pid: pid, parent: fields[1], name: rest[:end], used: time.Duration(user+system) * tick}, true
}
