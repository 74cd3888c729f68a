// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"time"
)

// Cause is why there were no writes.
type Cause string

// The causes.
const (
	ByRequest Cause = "asked for"
	ByFault   Cause = "the fault's"
	ByUs      Cause = "ours"
	ByUnknown Cause = "unexplained"
)

// Gap is a time without an acknowledged write, and why.
type Gap struct {
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
	Cause Cause         `json:"cause"`
	What  string        `json:"what,omitempty"`
}

// Length returns how long the gap is.
func (g Gap) Length() time.Duration { return g.To - g.From }

const (
	// lead is how long before a gap its cause may lie: a pod that is deleted terminates first, and an election follows.
	lead = 3 * time.Second
	// Wake is how long after a fault has ended it may still cost writes: members find each other again.
	Wake = 5 * time.Second
)

// Gaps returns the gaps of at least some length between acknowledgements, each with its cause.
func Gaps(acknowledged []time.Duration, least time.Duration, judged []Judgement, faults []Fault, outages []Outage) []Gap {
	acknowledged = slices.Sorted(slices.Values(acknowledged))
	var gaps []Gap
	for i := 1; i < len(acknowledged); i++ {
		if g := (Gap{From: acknowledged[i-1], To: acknowledged[i]}); g.Length() >= least {
			g.Cause, g.What = attribute(g, judged, faults, outages)
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// attribute returns the cause of a gap. An unsafe act is ours whatever else was going on.
func attribute(g Gap, judged []Judgement, faults []Fault, outages []Outage) (Cause, string) {
	ours := ""
	for _, j := range judged {
		if j.At < g.From-lead || j.At > g.To || j.Kind == DeleteClaim {
			continue
		}
		if j.Verdict == Unsafe {
			return ByUs, j.String()
		}
		if len(j.Pods) < maxMembers && j.Verdict != Broken {
			ours = j.String()
		}
	}
	for _, o := range outages {
		if o.From <= g.To && g.From <= o.To {
			return ByRequest, o.What
		}
	}
	for _, f := range faults {
		if !f.SparesWrites && f.From <= g.To && g.From <= f.To+Wake {
			return ByFault, fmt.Sprintf("%s of %s", f.Kind, f.Target)
		}
	}
	for _, o := range outages {
		if o.From <= g.To && g.From <= o.To+Wake {
			return ByRequest, o.What
		}
	}
	if ours != "" {
		return ByUs, ours
	}
	return ByUnknown, ""
}
