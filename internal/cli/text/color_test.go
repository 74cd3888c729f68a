// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"testing"
)

func TestColor(t *testing.T) {
	for line, want := range map[string]string{
		"":                            "",
		"POD  CLASS":                  "POD  CLASS",
		"a-0  Participating  Leader":  "a-0  GParticipatingN  Leader",
		"a-0  Dead":                   "a-0  RDeadN",
		"Deadline":                    "Deadline",
		"Stalled is True (X): Failed": "RStalled is TrueN (X): RFailedN",
		"AlarmRaised is True (X)":     "RAlarmRaised is TrueN (X)",
		"Scaled is False (X)":         "YScaled is FalseN (X)",
		"Ready is False (X)":          "RReady is FalseN (X)",
		"There is no quorum.":         "RThere is no quorumN.",
	} {
		got := strings.NewReplacer(red, "R", green, "G", yellow, "Y", reset, "N").Replace(Color(line))
		if got != want {
			t.Errorf("%q became %q", line, got)
		}
	}
}
