// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Text draws the chart in lines of characters: a row for each member, one that has the ordinal of the leader, and the steps.
func (c Chart) Text(width int) []string {
	lines := []string{c.Title}
	for _, r := range c.Runs {
		lines = append(append(lines, ""), r.text(width)...)
	}
	legend := ""
	for _, w := range c.words() {
		if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, w.cell) }) {
			legend += "  " + w.cell + " " + w.text
		}
	}
	return append(lines, "", strings.TrimSpace(legend))
}

func (r Run) text(width int) []string {
	label := utf8.RuneCountInString("leader")
	for _, name := range r.Members {
		label = max(label, utf8.RuneCountInString(name))
	}
	n := max(width-label-2, 10)
	// at is the middle of a cell.
	at := func(cell int) time.Time {
		return r.From.Add(time.Duration((float64(cell) + 0.5) / float64(n) * float64(r.Until.Sub(r.From))))
	}
	row := func(name string, cell func(time.Time) string) string {
		line := fmt.Sprintf("%-*s  ", label, name)
		for i := range n {
			line += cell(at(i))
		}
		return strings.TrimRight(line, " ")
	}
	lines := []string{r.Name + ": " + r.Summary}
	for _, name := range r.Members {
		all := r.stretches(name)
		lines = append(lines, row(name, func(t time.Time) string { return r.words().of(classAt(all, t)).cell }))
	}
	if r.clusters == nil {
		lines = append(lines, row("leader", r.leaderAt))
	}
	for i, step := range r.Steps {
		lines = append(lines, fmt.Sprintf("%2d %8.1f s  %s", i+1, step.At.Sub(r.From).Seconds(), step.Text))
	}
	return lines
}

// classAt is what a lane looks like at a time; empty if it shows nothing.
func classAt(all []stretch, t time.Time) string {
	for _, st := range all {
		if !st.from.After(t) && (st.to.IsZero() || st.to.After(t)) {
			return st.class
		}
	}
	return ""
}

// leaderAt is the ordinal of the member that led at a time, or its last digit.
func (r Run) leaderAt(t time.Time) string {
	for _, reign := range r.Reigns {
		if !reign.From.After(t) && reign.To.After(t) && reign.Pod != "" {
			return reign.Pod[len(reign.Pod)-1:]
		}
	}
	return " "
}
