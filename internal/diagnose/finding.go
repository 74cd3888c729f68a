// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Grade is how certain a finding is.
type Grade string

// The grades: three signals agree, or one that proves it; two; one.
const (
	Sure   Grade = "sure"
	Likely Grade = "likely"
	Hint   Grade = "hint"
)

// rank orders grades, the weakest first.
func (g Grade) rank() int { return map[Grade]int{Hint: 1, Likely: 2, Sure: 3}[g] }

func gradeOf(signals int) Grade {
	switch {
	case signals >= 3:
		return Sure
	case signals == 2:
		return Likely
	}
	return Hint
}

// Evidence is one figure.
type Evidence struct {
	// Member that it was measured of; empty if it is about the cluster.
	Member string `json:"member,omitempty"`
	Signal string `json:"signal"`
	// Value in a unit. If AtLeast, the true value is in a bucket of a histogram that begins there.
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"`
	AtLeast bool    `json:"atLeast,omitempty"`
	// Threshold in the same unit, and where it comes from; empty if the figure proves the finding whatever its value.
	Threshold float64 `json:"threshold,omitempty"`
	Source    string  `json:"source,omitempty"`
	// proves: no other signal is needed.
	proves bool
}

// String returns the figure with its threshold.
func (e Evidence) String() string {
	var out strings.Builder
	if e.Member != "" {
		out.WriteString(e.Member + ": ")
	}
	out.WriteString(e.Signal + ": ")
	if e.AtLeast {
		out.WriteString("more than ")
	}
	out.WriteString(figure(e.Value, e.Unit))
	if e.Threshold != 0 {
		fmt.Fprintf(&out, " (threshold %s; %s)", figure(e.Threshold, e.Unit), e.Source)
	} else if e.Source != "" {
		fmt.Fprintf(&out, " (%s)", e.Source)
	}
	return out.String()
}

// yesOrNo is the unit of what is so (1) or not (0).
const yesOrNo = "yes or no"

// figure returns a number in three digits with its unit. Bytes are scaled.
func figure(value float64, unit string) string {
	switch {
	case unit == yesOrNo:
		return map[bool]string{true: "yes", false: "no"}[value != 0]
	case strings.HasPrefix(unit, "B"):
		return scaled(value) + strings.TrimPrefix(unit, "B")
	case strings.HasPrefix(unit, "/"):
		return digits(value) + unit
	case unit == "%" || unit == "":
		return digits(value) + strings.TrimSuffix(" "+unit, " ")
	case unit == "ms" && value >= 1000:
		return digits(value/1000) + " s"
	case unit == "ms" && value > 0 && value < 0.1:
		return digits(value*1000) + " µs"
	}
	return digits(value) + " " + unit
}

func scaled(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for bytes >= 1000 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	return digits(bytes) + " " + units[i]
}

// digits returns a number with at most one digit after the point, and thousands with a comma.
func digits(n float64) string {
	if n < 9.95 && n != math.Trunc(n) {
		if n < 0.95 {
			return fmt.Sprintf("%.2g", n)
		}
		return fmt.Sprintf("%.1f", n)
	}
	text := fmt.Sprintf("%.0f", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Worst returns the evidence without what other members say of the same signal, less clearly; beside each figure is at how many others it
// was found.
func (f Finding) Worst() (all []Evidence, others []int) {
	for _, e := range f.Evidence {
		same := slices.IndexFunc(all, func(o Evidence) bool { return o.Signal == e.Signal })
		switch {
		case same < 0:
			all, others = append(all, e), append(others, 0)
			continue
		case e.Value > all[same].Value:
			all[same] = e
		}
		others[same]++
	}
	return all, others
}

// Advice is what to do.
type Advice struct {
	Text string `json:"text"`
	// Command is a command line; empty if there is none.
	Command string `json:"command,omitempty"`
}

// Finding is a cause that the figures show.
type Finding struct {
	Cause Cause  `json:"cause"`
	Grade Grade  `json:"grade"`
	Title string `json:"title"`
	// Members that it is about; empty for the whole cluster.
	Members []string `json:"members,omitempty"`
	// Slows reports whether it makes etcd slow or unavailable. The others are worth knowing.
	Slows    bool       `json:"slows"`
	Evidence []Evidence `json:"evidence"`
	RulesOut []string   `json:"rulesOut,omitempty"`
	Advice   []Advice   `json:"advice,omitempty"`
	// FollowsFrom are the causes among the other findings that explain it.
	FollowsFrom []Cause `json:"followsFrom,omitempty"`
}
