// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package target has the targets of benchmarks: a figure, its limit, and the figure of a peer measured in the same run. It
// imports only the standard library.
package target

import (
	"fmt"
	"strings"
)

// Target is a figure with a limit.
type Target struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Limit    float64 `json:"limit"`
	// Unit is shown after figures; "s" with two decimals.
	Unit string `json:"unit"`
	// Peer is the figure of the better peer, Ratio ours divided by it; absent if there is none, or it is 0.
	Peer  *float64 `json:"peer,omitempty"`
	Ratio *float64 `json:"ratio,omitempty"`
	Met   bool     `json:"met"`
}

// New returns a Target that is met if the figure does not exceed its limit.
func New(name, unit string, measured, limit float64) Target {
	return Target{Name: name, Unit: unit, Measured: measured, Limit: limit, Met: measured <= limit}
}

// Against returns the target with a peer's figure.
func (t Target) Against(peer float64) Target {
	t.Peer = &peer
	if peer > 0 {
		ratio := t.Measured / peer
		t.Ratio = &ratio
	}
	return t
}

// Met reports whether all targets are met.
func Met(all []Target) bool {
	for _, t := range all {
		if !t.Met {
			return false
		}
	}
	return true
}

// Table returns all targets for humans.
func Table(all []Target) string {
	const format = "%-68s %10s %10s %12s %6s  %s\n"
	var out strings.Builder
	fmt.Fprintf(&out, format, "target", "measured", "limit", "better peer", "ratio", "")
	for _, t := range all {
		fmt.Fprintf(&out, format, t.Name, t.show(&t.Measured), t.show(&t.Limit), t.show(t.Peer), ratio(t.Ratio), map[bool]string{true: "pass", false: "MISS"}[t.Met])
	}
	return out.String()
}

// Seconds formats a number of seconds.
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
