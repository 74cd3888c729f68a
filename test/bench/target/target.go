// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package target is what benchmarks are judged by: a figure, its limit, and the same of a peer that was measured in
// the same run. It imports the standard library only.
package target

import (
	"fmt"
	"strings"
)

// Target is something to reach.
type Target struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Limit    float64 `json:"limit"`
	// Unit is shown after figures; "s" with two decimals.
	Unit string `json:"unit"`
	// Peer is the same of the better peer, Ratio our part of it; absent where there is none, or it is 0.
	Peer  *float64 `json:"peer,omitempty"`
	Ratio *float64 `json:"ratio,omitempty"`
	Met   bool     `json:"met"`
}

// New makes a Target that is met when the figure is not above its limit.
func New(name, unit string, measured, limit float64) Target {
	return Target{Name: name, Unit: unit, Measured: measured, Limit: limit, Met: measured <= limit}
}

// Against adds the peer.
func (t Target) Against(peer float64) Target {
	t.Peer = &peer
	if peer > 0 {
		ratio := t.Measured / peer
		t.Ratio = &ratio
	}
	return t
}

// Met reports whether all are.
func Met(all []Target) bool {
	for _, t := range all {
		if !t.Met {
			return false
		}
	}
	return true
}

// Table is all of them for people.
func Table(all []Target) string {
	const format = "%-68s %10s %10s %12s %6s  %s\n"
	var out strings.Builder
	fmt.Fprintf(&out, format, "target", "measured", "limit", "better peer", "ratio", "")
	for _, t := range all {
		fmt.Fprintf(&out, format, t.Name, t.show(&t.Measured), t.show(&t.Limit), t.show(t.Peer), ratio(t.Ratio), map[bool]string{true: "pass", false: "MISS"}[t.Met])
	}
	return out.String()
}

// Seconds shows a number of seconds.
func Seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func (t Target) show(value *float64) string {
	switch {
	case value == nil:
		return ""
	case t.Unit == "s":
		return Seconds(*value)
	case t.Unit != "":
		return fmt.Sprintf("%.0f %s", *value, t.Unit)
	}
	return fmt.Sprint(*value)
}

func ratio(r *float64) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", *r)
}
