// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"math"
	"slices"
	"time"
)

// reading is a member with what follows from its two samples.
type reading struct {
	*Member
	window time.Duration
	// base is what the way to the member takes of a timed read.
	base time.Duration
	// busyPath: answers are late on their way, not at the member.
	busyPath bool
}

// hasMetrics reports whether both scrapes are there.
func (r reading) hasMetrics() bool { return len(r.First.Metrics) > 0 && len(r.Second.Metrics) > 0 }

// restarted reports whether etcd started between the scrapes. Then its counters began at zero, and no difference means anything.
// If its container has been running for longer, and used no less CPU in all than before, the clock of its node was set: a status of the
// pod may be from before the start, but a new process has used little.
func (r reading) restarted() bool {
	before, _ := r.First.Metrics.total("process_cpu_seconds_total", nil)
	after, _ := r.Second.Metrics.total("process_cpu_seconds_total", nil)
	if r.Pod != nil && r.Pod.Running > r.window+time.Minute && after >= before {
		return false
	}
	return startedAgain(r.First.Metrics, r.Second.Metrics)
}

// startedAgain reports whether a process started between two scrapes, by the time that it began.
func startedAgain(first, second Metrics) bool {
	before, known := first.total("process_start_time_seconds", nil)
	after, still := second.total("process_start_time_seconds", nil)
	return known && still && after > before+1
}

// votes reports whether a member is a voter, as far as is known. Another one may be down without a loss, and refuses clients.
func (r reading) votes() bool { return !r.Learner && !r.NoVoter }

func (r reading) comparable() bool { return r.hasMetrics() && r.window > 0 && !r.restarted() }

// now returns a gauge at the end of the window.
func (r reading) now(name string) (float64, bool) { return r.Second.Metrics.total(name, nil) }

// grew returns by how much a counter, or the count of a histogram, grew.
func (r reading) grew(name string) float64 { return r.grewWith(name, nil) }

func (r reading) grewWith(name string, labels map[string]string) float64 {
	if !r.comparable() {
		return 0
	}
	return difference(r.First.Metrics, r.Second.Metrics, name, labels)
}

// difference returns by how much a family grew. A family that the first scrape lacks began at zero.
func difference(first, second Metrics, name string, labels map[string]string) float64 {
	before, _ := first.total(name, labels)
	after, _ := second.total(name, labels)
	return max(after-before, 0)
}

// rate returns by how much a counter grew per second.
func (r reading) rate(name string) float64 {
	if r.window <= 0 {
		return 0
	}
	return r.grew(name) / r.window.Seconds()
}

// distribution is what a histogram observed between the two scrapes.
type distribution struct {
	count, sum float64
	buckets    []Bucket
}

func (r reading) distribution(name string) distribution {
	if !r.comparable() {
		return distribution{}
	}
	return between(r.First.Metrics.histogram(name, nil), r.Second.Metrics.histogram(name, nil))
}

// byAgent is what a histogram of the agent observed between the two scrapes.
func (r reading) byAgent(name string, labels map[string]string) distribution {
	if len(r.First.Agent) == 0 || len(r.Second.Agent) == 0 || startedAgain(r.First.Agent, r.Second.Agent) {
		return distribution{}
	}
	return between(r.First.Agent.histogram(name, labels), r.Second.Agent.histogram(name, labels))
}

// between returns what a histogram observed from one scrape to the next; nothing if the two do not belong together, or make no sense.
func between(first, second Series) distribution {
	d := distribution{count: second.Count - first.Count, sum: second.Sum - first.Sum}
	if d.count <= 0 || d.sum < 0 || first.Count > 0 && len(first.Buckets) != len(second.Buckets) {
		return distribution{}
	}
	last := Bucket{Bound: math.Inf(-1)}
	for i, b := range second.Buckets {
		if first.Count > 0 {
			if first.Buckets[i].Bound != b.Bound {
				return distribution{}
			}
			b.Count -= first.Buckets[i].Count
		}
		if b.Bound <= last.Bound || b.Count < last.Count || b.Count > d.count {
			return distribution{}
		}
		d.buckets, last = append(d.buckets, b), b
	}
	return d
}

// minObservations is how many observations a 99th percentile takes.
const minObservations = 50

// enoughForMedian is how many observations a median takes.
const enoughForMedian = 5

// enoughRoundTrips is how many round trips a median takes: with two peers, it is a minute of them.
const enoughRoundTrips = 4

// high returns the bound that the slowest observations are certainly above: the 99th percentile, or, of few observations, the median.
func (d distribution) high() (above float64, quantile string, ok bool) {
	switch {
	case d.count >= minObservations:
		above, ok = d.above(0.99)
		return above, "p99", ok
	case d.count >= enoughForMedian:
		above, ok = d.above(0.5)
		return above, "median", ok
	}
	return 0, "", false
}

// above returns the lower bound of the bucket that a quantile is in.
func (d distribution) above(quantile float64) (float64, bool) {
	lower := 0.0
	for _, b := range d.buckets {
		if b.Count >= quantile*d.count || math.IsInf(b.Bound, 1) {
			break
		}
		lower = b.Bound
	}
	return lower, d.count > 0
}

// below returns the upper bound of the bucket that a quantile is in.
func (d distribution) below(quantile float64) (float64, bool) {
	for _, b := range d.buckets {
		if b.Count >= quantile*d.count {
			return b.Bound, d.count > 0
		}
	}
	return 0, false
}

// median and slowest return the middle and the 90th percentile of times.
func median(times []time.Duration) time.Duration { return quantileOf(times, 0.5) }

func quantileOf(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// shortest of times; 0 if there are none.
func shortest(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return slices.Min(times)
}

// isSlow reports whether answers that need no disk and no peers take much longer than the shortest of them, in the middle or often.
func isSlow(pings []time.Duration) bool {
	path := shortest(pings)
	return len(timed("", "", median(pings)-path, quantileOf(pings, 0.9)-path)) > 0
}

// linearizable and serializable are quantiles of the timed reads without the way to the member.
func (r reading) linearizable(q float64) time.Duration {
	return r.read("linearizable", r.Linearizable, q)
}
func (r reading) serializable(q float64) time.Duration {
	return r.read("serializable", r.Serializable, q)
}

// read is a quantile of reads without the way to the member. Where that is busy, the reads count that the agent has timed in the pod.
func (r reading) read(kind string, times []time.Duration, q float64) time.Duration {
	if d := r.byAgent("etcd_agent_read_duration_seconds", map[string]string{"kind": kind}); r.busyPath && d.count >= enoughForMedian {
		above, _ := d.above(q)
		return time.Duration(min(above, time.Hour.Seconds()) * float64(time.Second))
	}
	return max(quantileOf(times, q)-r.base, 0)
}

// timed returns reads as evidence if they are slow in the middle, or often.
func timed(member, signal string, middle, spike time.Duration) []Evidence {
	switch {
	case middle >= readThreshold:
		return []Evidence{{Member: member, Signal: "median of " + signal, Value: milliseconds(middle), Unit: "ms", Threshold: milliseconds(readThreshold), Source: ours}}
	case spike >= spikeThreshold:
		return []Evidence{{Member: member, Signal: "p90 of " + signal, Value: milliseconds(spike), Unit: "ms", Threshold: milliseconds(spikeThreshold), Source: readSource}}
	}
	return nil
}

// cpu returns how many cores etcd used.
func (r reading) cpu() float64 { return r.rate("process_cpu_seconds_total") }

// kubelet returns by how much a counter of the kubelet grew; false if it is not known.
func (r reading) kubelet(name string) (float64, bool) {
	_, before := r.First.Kubelet.total(name, nil)
	_, after := r.Second.Kubelet.total(name, nil)
	return difference(r.First.Kubelet, r.Second.Kubelet, name, nil), before && after && r.window > 0
}

// kubeletRate returns by how much a counter of the kubelet grew per second. A kubelet measures every 10 s or so, and says when.
func (r reading) kubeletRate(name string) (float64, bool) {
	grew, known := r.kubelet(name)
	took := r.window.Seconds()
	if first, second := r.First.Kubelet.at(name), r.Second.Kubelet.at(name); first > 0 {
		took = second - first
	}
	return grew / max(took, 1), known && took >= 1
}

// pressure returns the share of the time in which something waited, in percent.
func (r reading) pressure(name string) (float64, bool) {
	waited, known := r.kubeletRate(name)
	return 100 * waited, known
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
