// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// headline returns the verdict in one sentence.
func (s *state) headline(v Verdict) string {
	switch {
	case v.isExplained():
		f := v.Findings[0]
		return fmt.Sprintf("%s%s (%s).", f.Title, s.where(f.Members), f.Grade)
	case !s.isMeasured():
		return "No member was measured, so nothing can be said about its speed."
	case len(s.symptoms) > 0 && len(s.Tasks) > 0:
		t, is := s.Tasks[0], "is"
		if t.Ended {
			is = "was"
		}
		return fmt.Sprintf("etcd %s slow while task %s (%s) %s running, and no other cause shows in what could be measured: %s.", is, t.Name, t.Type, is, s.symptoms[0])
	case len(s.symptoms) > 0:
		return fmt.Sprintf("etcd is slow, and no cause shows in what could be measured: %s.", s.symptoms[0])
	}
	return s.healthy()
}

// isExplained reports whether the first finding makes etcd slow, or refuse requests.
func (v Verdict) isExplained() bool { return len(v.Findings) > 0 && v.Findings[0].Slows }

// next returns what to do if no cause shows.
func (s *state) next(v Verdict) []Advice {
	switch {
	case v.isExplained() || !s.isMeasured():
		return nil
	case len(s.symptoms) > 0 && len(s.Tasks) > 0:
		return []Advice{{"See what the task does, and measure again after it.", "kubectl etcdtask describe " + s.Tasks[0].Name + " -n " + s.Namespace}}
	case len(s.symptoms) > 0:
		return []Advice{{"Measure for longer, with what the logs say.", s.verb("diagnose", "--for 2m", "--logs")}}
	case len(s.gone()) > 0:
		return []Advice{{"See why a member does not answer any more, and measure again.", s.verb("status")}}
	}
	return []Advice{{"Look at the API server, at the clients, and at the network between. What is slow now and then shows only if it is so while it is measured.", s.verb("diagnose", "--for 10m", "--logs")}}
}

// isMeasured reports whether anything about the speed of a member is known.
func (s *state) isMeasured() bool {
	return slices.ContainsFunc(s.members, func(m reading) bool { return m.hasMetrics() || len(m.Linearizable) > 0 })
}

// where names the members that a finding is about.
func (s *state) where(members []string) string {
	switch {
	case len(members) == 0 || len(s.members) == 1:
		return ""
	case len(members) == len(s.members):
		return ", at every member"
	}
	return ", at " + strings.Join(members, " and ")
}

// healthy says that etcd is not slow, and what that rests on.
func (s *state) healthy() string {
	slowest := time.Duration(0)
	timed := false
	var unknown []string
	for _, m := range s.members {
		if len(m.Linearizable) > 0 {
			slowest, timed = max(slowest, m.linearizable(0.5)), true
		} else if !m.hasMetrics() && m.votes() && !m.gone() {
			unknown = append(unknown, m.Name)
		}
	}
	took, gone := figure(max(milliseconds(slowest), 0.1), "ms"), s.gone()
	var say []string
	switch {
	case !timed:
		say = append(say, "Nothing slow shows in the metrics of etcd. No read was timed.")
	case len(unknown)+len(gone) > 0:
		// What was not seen is not acquitted either.
		say = append(say, fmt.Sprintf("etcd answers in %s where it could be measured.", took))
	default:
		return fmt.Sprintf("etcd answers in %s: it is not etcd.", took)
	}
	if len(unknown) > 0 {
		say = append(say, fmt.Sprintf("Nothing is known of the speed of %s.", strings.Join(unknown, " and ")))
	}
	if len(gone) > 0 {
		say = append(say, fmt.Sprintf("At the end of the measurement, %s did not answer.", strings.Join(gone, " and ")))
	}
	return strings.Join(say, " ")
}

// gone reports whether a member answered at first, and not at the end. It may be down, or the way to it.
func (r reading) gone() bool {
	answered := r.First.Status != nil || len(r.First.Metrics)+len(r.Linearizable)+len(r.Serializable) > 0
	return answered && r.Second.Status == nil && len(r.Second.Metrics) == 0
}

// gone are the names of the members that are.
func (s *state) gone() (names []string) {
	for _, m := range s.members {
		if m.gone() {
			names = append(names, m.Name)
		}
	}
	return names
}
