// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Figures are what was measured of a member, for people. What is not known is empty.
type Figures struct {
	Member string `json:"member"`
	Role   string `json:"role,omitempty"`
	// Linearizable and Serializable are medians of timed reads, without the path to the member; the others are percentiles of histograms.
	Linearizable string `json:"linearizable,omitempty"`
	Serializable string `json:"serializable,omitempty"`
	Fsync        string `json:"fsync,omitempty"`
	Commit       string `json:"commit,omitempty"`
	RoundTrip    string `json:"roundTrip,omitempty"`
	Writes       string `json:"writesPerSecond,omitempty"`
	CPU          string `json:"cpu,omitempty"`
}

// Figures returns what was measured, of each member of which anything was.
func (in Input) Figures() []Figures {
	s := newState(in)
	var all []Figures
	for _, m := range s.members {
		if !m.hasMetrics() && len(m.Linearizable) == 0 {
			continue
		}
		f := Figures{Member: m.Name, Role: "follower"}
		switch {
		case m.Leader:
			f.Role = "leader"
		case m.Learner:
			f.Role = "learner"
		case !m.Serving || m.RoleUnknown:
			f.Role = ""
		}
		if len(m.Linearizable) > 0 {
			f.Linearizable = figure(milliseconds(m.linearizable(0.5)), "ms")
		}
		if len(m.Serializable) > 0 {
			f.Serializable = figure(milliseconds(m.serializable(0.5)), "ms")
		}
		f.Fsync, f.Commit = m.atMost("etcd_disk_wal_fsync_duration_seconds", 0.99), m.atMost("etcd_disk_backend_commit_duration_seconds", 0.99)
		f.RoundTrip = m.atMost("etcd_network_peer_round_trip_time_seconds", 0.5)
		if m.comparable() {
			f.Writes = digits(m.writes())
			f.CPU = fmt.Sprintf("%.0fm", 1000*m.cpu())
		}
		all = append(all, f)
	}
	return all
}

// atMost returns the upper bound of a quantile; few observations have only a largest one.
func (r reading) atMost(name string, quantile float64) string {
	d := r.distribution(name)
	few := ""
	if d.count < minObservations && quantile > 0.5 {
		quantile, few = 1, fmt.Sprintf(" (%.0f only)", d.count)
	}
	bound, ok := d.below(quantile)
	switch {
	case !ok || bound == 0:
		return ""
	case math.IsInf(bound, 1):
		bound, _ = d.above(quantile)
		return "> " + figure(1000*bound, "ms") + few
	}
	return "≤ " + figure(1000*bound, "ms") + few
}

// Summary is what a person would ask first: quorum, alarms, tasks, restarts.
func (in Input) Summary() string {
	say := []string{fmt.Sprintf("Etcd %s/%s:", in.Namespace, in.Etcd)}
	if newState(in).isMeasured() {
		say = []string{fmt.Sprintf("Etcd %s/%s, measured for %s:", in.Namespace, in.Etcd, in.Window)}
	}
	switch q := in.Quorum; {
	case in.Hibernated:
	case q == nil:
		say = append(say, "quorum and alarms are not known.")
	case q.Reported:
		say = append(say, fmt.Sprintf("%d of %d voters serve, as the operator last reported; quorum is %d. Alarms are not known.", q.Serving, q.Voters, q.Size))
	case len(in.Alarms) == 0:
		say = append(say, fmt.Sprintf("%d of %d voters serve; quorum is %d. No alarm is raised.", q.Serving, q.Voters, q.Size))
	default:
		say = append(say, fmt.Sprintf("%d of %d voters serve; quorum is %d.", q.Serving, q.Voters, q.Size))
	}
	for _, a := range in.Alarms {
		say = append(say, fmt.Sprintf("Alarm %s at %s.", a.Kind, a.Member))
	}
	for _, t := range in.Tasks {
		say = append(say, fmt.Sprintf("Task %s (%s) %s.", t.Name, t.Type, map[bool]string{false: "is running", true: "ended in the measurement"}[t.Ended]))
	}
	if len(in.Tasks) == 0 {
		say = append(say, "No task is running.")
	}
	for _, m := range in.Members {
		if p := m.Pod; p != nil && p.Ended != "" && p.EndedAgo < recent {
			say = append(say, fmt.Sprintf("etcd of %s ended %s ago (%s).", m.Name, ago(p.EndedAgo), p.Ended))
		}
	}
	return strings.Join(say, " ")
}

// ago returns a time in minutes, or in seconds if it is short.
func ago(d time.Duration) string {
	if d < time.Minute {
		return max(d, 0).Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
