// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// TotalsPage returns the totals of runs as Markdown.
func TotalsPage(totals []Total) string {
	var page strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	sum := Sum(totals)
	line("# Robustness: results\n")
	line("What [`make robustness`](robustness.md) has found in the runs that were recorded, also those that failed. `go run ./test/robustness -page` writes this page from `test/robustness/results.json`.\n")
	line("| | |\n|---|---|")
	line("| runs | %d, %s in all |", len(totals), time.Duration(sum.Seconds)*time.Second)
	line("| requests of clients | %d |", sum.Requests)
	line("| acknowledged requests | %s |", known(totals, func(t Total) *int { return t.Acknowledged }, func(t Total) int { return t.Requests }))
	line("| operations | %d, %d of them under faults |", sum.Operations, sum.Faulted)
	line("| operations in which the operator acted under a fault | %s |", Acted(totals))
	line("| operations without an act of the operator, although they need one | %s |", known(totals, func(t Total) *int { return t.WithoutAct }, Total.operations))
	line("| tasks | %s |", tasks(totals...))
	line("| updates of pods in place | %d, %d of them under faults |", sum.InPlace, sum.InPlaceFaulted)
	line("| acts of the operator | %s |", counts(sum.Verdicts))
	line("| illegal histories | %d, and %d undecided |", sum.Illegal, sum.Undecided)
	line("| operations that did not end well | %d |\n", sum.Stuck)
	line("## Runs\n\n| date | commit | seed | length | load | requests | acknowledged | operations | faulted | acted under a fault | in place | faulted | acts | illegal | not ended well |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range totals {
		line("| %s | %s | %d | %s | %s | %d | %s | %d | %d | %s | %d | %d | %s | %d | %d |", t.Date, t.Commit, t.Seed, time.Duration(t.Seconds)*time.Second, t.Load,
			t.Requests, orUnknown(t.Acknowledged), t.Operations, t.Faulted, orUnknown(t.Acted), t.InPlace, t.InPlaceFaulted, counts(t.Verdicts), t.Illegal, t.Stuck)
	}
	if len(sum.InPlaceOf) > 0 {
		line("\n## Updates in place\n\nBy what they changed. The first ten runs recorded only their sum, without those of labels, and did not check that etcd kept running.\n\n| | | under faults |\n|---|---|---|")
		for _, what := range slices.Sorted(maps.Keys(sum.InPlaceOf)) {
			line("| %s | %d | %d |", what, sum.InPlaceOf[what].All, sum.InPlaceOf[what].Faulted)
		}
	}
	for _, table := range []struct {
		title string
		of    map[string]int
	}{{"Operations", sum.ByOperation}, {"Faults that were in effect", sum.Faults}} {
		line("\n## %s\n\n| | |\n|---|---|", table.title)
		for _, name := range slices.Sorted(maps.Keys(table.of)) {
			line("| %s | %d |", name, table.of[name])
		}
	}
	return page.String()
}

// Acted describes in how many operations the operator acted under a fault.
func Acted(totals []Total) string {
	return known(totals, func(t Total) *int { return t.Acted }, Total.operations)
}

func (t Total) operations() int { return t.Operations }

// known describes a number that only some runs have recorded, and of how many it is in these.
func known(totals []Total, number func(Total) *int, all func(Total) int) string {
	var sum *int
	of, runs := 0, 0
	for _, t := range totals {
		if n := number(t); n != nil {
			sum, of, runs = plus(sum, n), of+all(t), runs+1
		}
	}
	if runs == 0 {
		return unknown
	}
	return fmt.Sprintf("%d of %d", *sum, of) + ofRuns(runs, len(totals))
}

// ofRuns says that not all runs have recorded a number.
func ofRuns(runs, all int) string {
	if runs == all {
		return ""
	}
	return fmt.Sprintf(" (%d of %d runs; unknown for the others)", runs, all)
}

// tasks describes the tasks that have ended.
func tasks(totals ...Total) string {
	sum := Sum(totals).Tasks
	if sum == nil {
		return unknown
	}
	runs := 0
	for _, t := range totals {
		if t.Tasks != nil {
			runs++
		}
	}
	return cmp.Or(counts(sum), "none") + ofRuns(runs, len(totals))
}

const unknown = "unknown"

func orUnknown(n *int) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}
