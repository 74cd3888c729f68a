// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
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
	line("| operations | %d, %d of them under faults |", sum.Operations, sum.Faulted)
	line("| updates of pods in place | %d, %d of them under faults |", sum.InPlace, sum.InPlaceFaulted)
	line("| acts of the operator | %s |", counts(sum.Verdicts))
	line("| illegal histories | %d, and %d undecided |", sum.Illegal, sum.Undecided)
	line("| operations that did not end well | %d |\n", sum.Stuck)
	line("## Runs\n\n| date | commit | seed | length | load | requests | operations | faulted | in place | faulted | acts | illegal | not ended well |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range totals {
		line("| %s | %s | %d | %s | %s | %d | %d | %d | %d | %d | %s | %d | %d |", t.Date, t.Commit, t.Seed, time.Duration(t.Seconds)*time.Second, t.Load,
			t.Requests, t.Operations, t.Faulted, t.InPlace, t.InPlaceFaulted, counts(t.Verdicts), t.Illegal, t.Stuck)
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
