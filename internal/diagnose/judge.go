// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
)

// Verdict is what a diagnosis says.
type Verdict struct {
	// Headline is the verdict in one sentence.
	Headline string `json:"headline"`
	// Slow reports whether requests are slow, or refused, by what was measured.
	Slow bool `json:"slow"`
	// Findings are the causes, the first of which explains most.
	Findings []Finding `json:"findings,omitempty"`
	// NotJudged are causes that could not be judged.
	NotJudged []Cause   `json:"notJudged,omitempty"`
	Missing   []Missing `json:"missing,omitempty"`
	// Advice is what to do if no cause shows.
	Advice []Advice `json:"advice,omitempty"`
	// Symptoms are the figures that show that etcd is slow.
	Symptoms []Evidence `json:"symptoms,omitempty"`
}

// result is what a rule finds.
type result struct {
	evidence []Evidence
	rulesOut []string
	advice   []Advice
}

// state is an Input with what follows from it.
type state struct {
	Input
	members []reading
	// symptoms are the figures that show that etcd is slow.
	symptoms []Evidence
}

func newState(in Input) *state {
	s := &state{Input: in}
	for i := range in.Members {
		m := &s.Members[i]
		s.members = append(s.members, reading{Member: m, window: cmp.Or(m.Elapsed, in.Window)})
	}
	s.setBase()
	s.symptoms = s.findSymptoms()
	return s
}

// setBase decides what of a timed read is the way to the member: the shortest answer that needs no disk and no peers. If the way is
// busy, such as a port-forward through an API server that is, it is the usual one.
func (s *state) setBase() {
	all := !slices.ContainsFunc(s.members, func(m reading) bool { return !isSlow(m.Pings) })
	for i := range s.members {
		m := &s.members[i]
		if m.busyPath = all; len(m.AgentPings) > 0 {
			m.busyPath = isSlow(m.AgentPings)
		}
		if m.base = shortest(m.Pings); m.busyPath {
			m.base = median(m.Pings)
		}
	}
}

// Judge decides why an etcd is slow.
func Judge(in Input) Verdict {
	if in.Hibernated {
		return Verdict{Headline: "It is hibernated: no member is running."}
	}
	s := newState(in)
	v := Verdict{Missing: append(slices.Clip(in.Missing), s.voids()...), Symptoms: s.symptoms}
	for i, r := range rules {
		if !s.canJudge(r) {
			v.NotJudged = append(v.NotJudged, r.cause)
			continue
		}
		found := r.check(s)
		if len(found.evidence) == 0 {
			continue
		}
		v.Findings = append(v.Findings, s.finding(i, found))
	}
	relate(v.Findings)
	v.Slow = len(s.symptoms) > 0 || slices.ContainsFunc(v.Findings, func(f Finding) bool { return ruleOf(f.Cause).kind == outage })
	slices.SortStableFunc(v.Findings, compare)
	v.Headline, v.Advice = s.headline(v), s.next(v)
	return v
}

// canJudge reports whether one of the signals that a rule needs is there.
func (s *state) canJudge(r rule) bool {
	return slices.ContainsFunc(r.needs, func(signal Signal) bool {
		return slices.ContainsFunc(s.members, func(m reading) bool { return m.has(signal) })
	})
}

func (r reading) has(signal Signal) bool {
	switch signal {
	case SignalMetrics:
		return r.hasMetrics()
	case SignalStatus:
		return r.Second.Status != nil
	case SignalReported:
		return r.Reported
	case SignalReads:
		return len(r.Linearizable)+len(r.Serializable)+r.FailedReads > 0
	case SignalPod:
		return r.Pod != nil
	case SignalLogs:
		return r.Logs != nil
	case SignalKubelet:
		return len(r.Second.Kubelet) > 0
	case SignalAgent:
		return len(r.Second.Agent) > 0
	}
	return false
}

// voids are the signals that are there, and say nothing.
func (s *state) voids() []Missing {
	var all []Missing
	for _, m := range s.members {
		if m.restarted() {
			all = append(all, Missing{SignalMetrics, m.Name, "etcd started again in the measurement, and its counters began at zero", "measure again"})
		}
	}
	if c := s.Counted; c != nil && s.Events == 0 {
		if why := s.uncounted(c.Member); why != "" {
			all = append(all, Missing{SignalPrefixes, "", c.String() + " gave nothing" + why, "measure again"})
		}
	}
	return all
}

// uncounted says why nothing that one member counts does not mean that nothing was written; empty if it does.
func (s *state) uncounted(by string) string {
	why := ""
	for _, m := range s.members {
		written := m.grew("etcd_mvcc_put_total") + m.grew("etcd_mvcc_delete_total")
		switch {
		case m.Name == by && m.FailedReads > 0:
			return fmt.Sprintf(": the member did not answer %s reads in time", digits(float64(m.FailedReads)))
		case written >= enoughForMedian:
			why = fmt.Sprintf(", although %s carried out %s puts and deletions", m.Name, digits(written))
		}
	}
	return why
}

func (s *state) finding(at int, found result) Finding {
	r := rules[at]
	f := Finding{Cause: r.cause, Title: r.title, Evidence: found.evidence, RulesOut: found.rulesOut, Advice: found.advice}
	// What slows members does so only if something is slow.
	f.Slows = r.kind == outage || r.kind == slows && len(s.symptoms) > 0
	signals, proven := map[string]map[string]bool{}, false
	for _, e := range found.evidence {
		if signals[e.Member] == nil {
			signals[e.Member] = map[string]bool{}
		}
		signals[e.Member][e.Signal] = true
		proven = proven || e.proves
	}
	best := 0
	for member, distinct := range signals {
		n := len(distinct)
		if member != "" {
			n += len(signals[""])
			f.Members = append(f.Members, member)
		}
		best = max(best, n)
	}
	slices.Sort(f.Members)
	f.Grade = gradeOf(best)
	if proven || f.Grade.rank() > r.atMost.rank() {
		f.Grade = r.atMost
	}
	return f
}

// relate notes which findings explain which. A hint explains nothing that is more certain.
func relate(all []Finding) {
	for i := range all {
		f := &all[i]
		for j, by := range all {
			certain := by.Grade != Hint || f.Grade == Hint
			if i != j && certain && slices.Contains(ruleOf(by.Cause).explains, f.Cause) && (by.Slows || !f.Slows) {
				f.FollowsFrom = append(f.FollowsFrom, by.Cause)
			}
		}
	}
}

// compare orders findings: what refuses requests, what slows them, the rest; of each the unexplained first, then the most certain.
func compare(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(weight(a), weight(b)),
		cmp.Compare(min(len(a.FollowsFrom), 1), min(len(b.FollowsFrom), 1)),
		cmp.Compare(b.Grade.rank(), a.Grade.rank()),
		cmp.Compare(position(a.Cause), position(b.Cause)),
	)
}

func weight(f Finding) kind {
	switch {
	case ruleOf(f.Cause).kind == outage:
		return outage
	case f.Slows:
		return slows
	}
	return remark
}

func position(c Cause) int {
	return slices.IndexFunc(rules, func(r rule) bool { return r.cause == c })
}

func ruleOf(c Cause) rule { return rules[position(c)] }
