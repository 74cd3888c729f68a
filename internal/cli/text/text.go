// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package text formats output for people: tables that fit a terminal, wrapped sentences, durations as kubectl prints them, and
// tasks in words. It is pure, apart from Print.
package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"k8s.io/apimachinery/pkg/util/duration"
)

// gap between two columns.
const gap = 2

// minWrap is the narrowest that a sentence is wrapped to.
const minWrap = 20

// Column of a table.
type Column struct {
	Name string
	// Rank decides which columns are left out if the table is too wide: the highest first, 0 never.
	Rank int
}

// Table of cells.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Lines returns the lines of the table in a width; 0 is any width. Columns that do not fit are left out by rank; no
// cell is cut.
func (t *Table) Lines(width int) []string {
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		for _, cell := range row {
			rows[i] = append(rows[i], sanitize.Text(cell, 0))
		}
	}
	shown := make([]int, len(t.Columns))
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		shown[i], widths[i] = i, utf8.RuneCountInString(c.Name)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for width > 0 && total(shown, widths) > width {
		drop := slices.MaxFunc(shown, func(a, b int) int { return t.Columns[a].Rank - t.Columns[b].Rank })
		if t.Columns[drop].Rank == 0 {
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == drop })
	}
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	lines := []string{join(names, shown, widths)}
	for _, row := range rows {
		lines = append(lines, join(row, shown, widths))
	}
	return lines
}

func total(shown, widths []int) int {
	n := -gap
	for _, i := range shown {
		n += widths[i] + gap
	}
	return n
}

func join(cells []string, shown, widths []int) string {
	var line strings.Builder
	for _, i := range shown {
		line.WriteString(cells[i])
		line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cells[i])+gap))
	}
	return strings.TrimRight(line.String(), " ")
}

// Wrap breaks text between words into lines of a width, with every line but the first indented; 0 is any width.
// The caller prints the first line after a prefix of indent columns.
func Wrap(text string, indent, width int) []string {
	room := max(width-indent, minWrap)
	if width == 0 {
		room = len(text)
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(sanitize.Text(text, 0)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	lines = append(lines, line)
	for i := range lines[1:] {
		lines[i+1] = strings.Repeat(" ", indent) + lines[i+1]
	}
	return lines
}

// Labeled returns a line that starts with a label, wrapped beside it.
func Labeled(label string, indent int, text string, width int) string {
	return fmt.Sprintf("%-*s", indent, label) + strings.Join(Wrap(text, indent, width), "\n")
}

// Clip shortens text to a width; 0 is any width.
func Clip(text string, width int) string {
	text = sanitize.Text(text, 0)
	if runes := []rune(text); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// Print prints lines.
func Print(out io.Writer, lines ...string) {
	for _, line := range lines {
		fmt.Fprintln(out, Plain(line)) //nolint:errcheck // there is nowhere to report it
	}
}

// Plain returns text without control characters, except line ends: text from the cluster must not control the reader's
// terminal.
func Plain(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = sanitize.Text(line, 0)
	}
	return strings.Join(lines, "\n")
}

// TimeOfDay returns the time of day, in the location of t.
func TimeOfDay(t time.Time) string { return t.Format("15:04:05") }

// Since returns how long ago a time is, as kubectl prints it.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(now.Sub(t), 0))
}

// Size returns a number of bytes in three digits or fewer.
func Size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	n, unit := float64(bytes), 0
	for n >= 1000 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit > 0 && n < 9.95 {
		return fmt.Sprintf("%.1f%s", n, units[unit])
	}
	return fmt.Sprintf("%.0f%s", n, units[unit])
}

// OneLine joins the lines of a text.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// OrDash returns text, or a dash if it is empty.
func OrDash(text string) string { return cmp.Or(text, "-") }
