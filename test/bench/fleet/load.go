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

// lateAfter is how long a reconcile may wait for a worker before it counts as late, in seconds. It is a bound of the histogram's buckets.
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
	queues   map[string]Queue
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
	// Queues by controller.
	Queues map[string]Queue `json:"queues"`
	// Workers by controller, where they were watched.
	Workers map[string]Workers `json:"workers,omitempty"`
}

// Queue counts the reconciles of a controller: their number, the seconds that they waited for a worker and took, and how many waited longer than
// lateAfter. A reconcile also waits for the previous one of the same Etcd.
type Queue struct {
	Reconciles float64 `json:"reconciles"`
	Waited     float64 `json:"waitedSeconds"`
	Worked     float64 `json:"workedSeconds"`
	Late       float64 `json:"waitedLong"`
}

// String describes a Queue.
func (q Queue) String() string {
	return fmt.Sprintf("%.0f reconciles: mean wait %.1f ms, %.0f of them over %.0f ms; mean duration %.1f ms",
		q.Reconciles, 1000*q.Waited/max(1, q.Reconciles), q.Late, 1000*lateAfter, 1000*q.Worked/max(1, q.Reconciles))
}

// queues are those of all controllers.
func queues(families map[string]*dto.MetricFamily) map[string]Queue {
	all := map[string]Queue{}
	for _, m := range families["workqueue_queue_duration_seconds"].GetMetric() {
		h, name := m.GetHistogram(), labelsOf(m)["name"]
		n := float64(h.GetSampleCount())
		all[name] = Queue{Reconciles: n, Waited: h.GetSampleSum(), Late: n - within(h, lateAfter)}
	}
	for _, m := range families["workqueue_work_duration_seconds"].GetMetric() {
		q := all[labelsOf(m)["name"]]
		q.Worked = m.GetHistogram().GetSampleSum()
		all[labelsOf(m)["name"]] = q
	}
	return all
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
	c.queues = queues(families)
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
		Queues: map[string]Queue{},
	}
	for name, q := range c.queues {
		earlier := before.queues[name]
		q.Reconciles, q.Waited, q.Worked, q.Late = q.Reconciles-earlier.Reconciles, q.Waited-earlier.Waited, q.Worked-earlier.Worked, q.Late-earlier.Late
		l.Queues[name] = q
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
	said := fmt.Sprintf("%.2f cores busy (%s); %.0f requests of the operator (%.0f/s), %d writes in total",
		l.Machine, strings.Join(programs, ", "), l.Requests, l.Requests/l.Seconds, total(l.Writes))
	for _, name := range slices.Sorted(maps.Keys(l.Queues)) {
		if l.Queues[name].Reconciles > 0 {
			said += fmt.Sprintf("; controller %s: %s", name, l.Queues[name])
		}
		if w, watched := l.Workers[name]; watched && w.Busy > 0 {
			said += fmt.Sprintf("; at most %.0f of its %.0f workers busy", w.Busy, w.Of)
		}
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
