// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// rule is evaluated for each policy that selects the namespace of a task. It returns why the task does not start; nil if it may.
type rule func(s *state, p *Policy, c *Candidate) *Hold

// rules in their order. The status shows the first that objects.
var rules = []rule{
	// The policy can be read.
	valid,
	// It is not paused, and has slots.
	notPaused,
	// Neither the change, nor another one to the same template, has failed in more clusters than it may.
	changeNotPaused,
	// A window is open, and usually for long enough.
	inWindow,
	// A cluster that the change is to begin with has had the time to ask first.
	chosenFirst,
	// The change has passed its canaries, or this cluster is one, and no other change tries the template.
	canaryFirst,
	// The namespace has fewer slots than it may.
	shareFree,
	// A slot is free.
	slotFree,
}

func valid(_ *state, p *Policy, _ *Candidate) *Hold {
	if p.Invalid == "" {
		return nil
	}
	return &Hold{Reason: FleetPaused, Message: fmt.Sprintf("EtcdFleetPolicy %s is invalid, so nothing starts: %s; fix it", p.Name, p.Invalid)}
}

func notPaused(_ *state, p *Policy, _ *Candidate) *Hold {
	switch {
	case p.Paused:
		return &Hold{Reason: FleetPaused, Message: fmt.Sprintf("spec.paused of EtcdFleetPolicy %s is set: tasks start when it is removed", p.Name)}
	case p.Limit() == 0:
		return &Hold{Reason: FleetPaused, Message: fmt.Sprintf("spec.maxConcurrent of EtcdFleetPolicy %s is 0: tasks start when it is raised", p.Name)}
	}
	return nil
}

func changeNotPaused(s *state, p *Policy, c *Candidate) *Hold {
	if failed := s.Ledger.Pausing(p, c); failed != nil {
		return &Hold{Reason: FleetPaused, Message: failed.PausedMessage(c.Change)}
	}
	return nil
}

// Paused reports whether a change has failed in more clusters than its policy allows.
func (c *Change) Paused(p *Policy) bool { return len(c.Failures) > p.MaxFailures }

// PausedMessage says in which clusters a change failed, why, and how to resume it. asked is the change that waits: this one, or another one
// to the same template.
func (c *Change) PausedMessage(asked string) string {
	var failed []string
	for _, f := range c.Failures[:min(len(c.Failures), maxNamed)] {
		failed = append(failed, fmt.Sprintf("%s/%s (%s)", f.Namespace, f.EtcdName, f.Reason))
	}
	if more := len(c.Failures) - len(failed); more > 0 {
		failed = append(failed, fmt.Sprintf("%d more", more))
	}
	why := ""
	if asked != c.Name {
		why = fmt.Sprintf("change %s leads to a template that failed: ", asked)
	}
	return why + fmt.Sprintf("change %s is paused by EtcdFleetPolicy %s: it failed in %s. Fix the template, which makes another change, or resume this one: kubectl annotate --overwrite etcdfleetpolicy %s %s=%s",
		c.Name, c.Policy, strings.Join(failed, "; "), c.Policy, v1alpha1.AnnotationResumeChange, c.ResumeToken())
}

// maxNamed is how many clusters a message names.
const maxNamed = 5

func inWindow(s *state, p *Policy, c *Candidate) *Hold {
	open, closes, next := s.opens(p)
	if !open {
		return &Hold{Reason: WaitingForWindow, Next: next, Message: fmt.Sprintf("no window of EtcdFleetPolicy %s is open%s", p.Name, opening(next))}
	}
	usual, left := s.Ledger.Recorded(p.Name).Usual(), closes.Sub(s.Now)
	if closes.IsZero() || c.Change == "" || left >= usual {
		return nil
	}
	if usual = min(usual, s.longest(p, closes)/2); left >= usual {
		return nil
	}
	return &Hold{Reason: WaitingForWindow, Next: closes, Message: fmt.Sprintf(
		"the window of EtcdFleetPolicy %s closes at %s, and nine of ten of its newest tasks took up to %s", p.Name, timestamp(closes), usual)}
}

// opens is Opens of a policy at the time of the decision, found once: it may take many times of a schedule.
func (s *state) opens(p *Policy) (open bool, closes, next time.Time) {
	o := s.openings[p.Name]
	if o == nil {
		o = &opened{}
		o.open, o.closes, o.next = p.Opens(s.Now)
		s.openings[p.Name] = o
	}
	return o.open, o.closes, o.next
}

// longest is longest of a policy, found once.
func (s *state) longest(p *Policy, closes time.Time) time.Duration {
	if s.stretches[p.Name] == 0 {
		s.stretches[p.Name] = p.longest(closes)
	}
	return s.stretches[p.Name]
}

// maxStretches is how many periods in which tasks may start are considered.
const maxStretches = 10

// longest returns the longest period in which tasks may start: the longest window, or with exceptions, the longest of the next periods
// between them. Tasks are expected to take at most half of it, so that some start in every such period.
func (p *Policy) longest(closes time.Time) (longest time.Duration) {
	if len(p.Except) == 0 {
		for _, w := range p.Windows {
			longest = max(longest, w.duration)
		}
		return longest
	}
	for range maxStretches {
		// Another window may be open when one closes.
		open, again, opens := p.Opens(closes)
		if !open && !opens.IsZero() {
			closes = opens
			_, again, _ = p.Opens(closes)
		}
		if again.IsZero() {
			// Its end is unknown, or it never closes.
			break
		}
		longest, closes = max(longest, again.Sub(closes)), again
	}
	return cmp.Or(longest, 2*maxWindow)
}

func opening(next time.Time) string {
	if next.IsZero() {
		return ""
	}
	return ": the next one opens at " + timestamp(next)
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// grace is how long others wait for the clusters that a change is to begin with: their tasks are created at about the same time.
const grace = time.Minute

func chosenFirst(s *state, p *Policy, c *Candidate) *Hold {
	if !s.Ledger.InCanaryStage(p, c.Change) {
		return nil
	}
	own, since, failing := s.preference(c), c.ChangeSince, s.failingUnder(p)
	switch {
	case own == 0 || !failing && (own == 1 || len(p.Canary.Chosen) == 0):
		return nil
	case own == 1:
		// One that was chosen waits no longer than those that wait for it: they would go first.
		since = s.asked[c.Change]
	}
	until := since.Add(grace)
	if !until.After(s.Now) {
		return nil
	}
	return &Hold{Reason: WaitingForCanary, Next: until, Message: fmt.Sprintf(
		"EtcdFleetPolicy %s begins change %s with clusters that were chosen as canaries, or in which the last change failed: others begin at %s at the earliest", p.Name, c.Change, timestamp(until))}
}

// failingUnder reports whether a policy selects an Etcd in which the last change failed.
func (s *state) failingUnder(p *Policy) bool {
	for _, namespace := range s.Failing {
		if slices.Contains(s.Covering[namespace], p.Name) {
			return true
		}
	}
	return false
}

func canaryFirst(s *state, p *Policy, c *Candidate) *Hold {
	if !s.Ledger.InCanaryStage(p, c.Change) {
		return nil
	}
	passed := 0
	if known := s.Ledger.Change(p.Name, c.Change); known != nil {
		passed = known.Passed
	}
	underway := without(s.underway(p, c), c.Etcd)
	if passed+len(underway) < p.Canary.Count {
		return nil
	}
	tried := "change " + c.Change
	if slices.ContainsFunc(underway, func(h *Holder) bool { return h.Change != c.Change }) {
		tried = "the template that change " + c.Change + " leads to"
	}
	// Its task may be suspended, and a cluster that is not well, or whose members change, is watched for as long as that lasts.
	late := 2*max(p.Soak, p.Canary.Soak) + grace
	isLate := slices.ContainsFunc(underway, func(h *Holder) bool { return h.Ended.IsZero() || s.Now.Sub(h.Ended) > late })
	return &Hold{Reason: WaitingForCanary, Late: isLate, Message: fmt.Sprintf("EtcdFleetPolicy %s tries %s in %d of %s first: %s",
		p.Name, tried, p.Canary.Count, plural(p.Clusters, "cluster"), named(underway))}
}
