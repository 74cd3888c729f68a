// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"regexp"
	"strings"
)

// The colors of a terminal.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// states are the words that are colored: classes of pods, states of tasks, conditions that report trouble, alarms.
var states = []struct {
	color string
	words *regexp.Regexp
}{
	{red, regexp.MustCompile(`\b(?:Dead|Missing|Failed|Rejected|There is no quorum|no quorum|Alarm (?:NOSPACE|CORRUPT)|(?:Ready|BackupReady|DataVolumesReady) is (?:False|Unknown)|(?:Stalled|AlarmRaised) is True)\b`)},
	{yellow, regexp.MustCompile(`\b(?:Starting|Unready|Terminating|Stalled|Blocked by|[A-Z]\w+ is (?:False|Unknown))\b`)},
	{green, regexp.MustCompile(`\b(?:Participating|Succeeded)\b`)},
}

// Color returns a line with states in color. The line must be plain.
func Color(line string) string {
	for i, s := range states {
		// A word that has a color keeps it: the next words are searched between the sequences.
		parts := []string{line}
		if i > 0 {
			parts = split(line)
		}
		for j, part := range parts {
			if !strings.HasPrefix(part, "\x1b") {
				parts[j] = s.words.ReplaceAllString(part, s.color+"$0"+reset)
			}
		}
		line = strings.Join(parts, "")
	}
	return line
}

var colored = regexp.MustCompile(`\x1b\[3\dm[^\x1b]*\x1b\[0m`)

// split returns the parts of a line that have a color, which start with an escape, and those that have none.
func split(line string) []string {
	var parts []string
	at := 0
	for _, span := range colored.FindAllStringIndex(line, -1) {
		parts = append(parts, line[at:span[0]], line[span[0]:span[1]])
		at = span[1]
	}
	return append(parts, line[at:])
}
