// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at returns the time the given number of milliseconds after the template change.
func at(ms int) time.Time {
	return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func ats(ms ...int) []time.Time {
	var times []time.Time
	for _, m := range ms {
		times = append(times, at(m))
	}
	return times
}

func TestGaps(t *testing.T) {
	for name, test := range map[string]struct {
		acknowledged []time.Time
		from, until  int
		want         []Gap
		longest      int
	}{
		"none at all":          {nil, 0, 2000, []Gap{{From: at(0), To: at(2000)}}, 2000},
		"a healthy cluster":    {ats(50, 100, 150, 350), 0, 400, nil, 200},
		"exactly the limit":    {ats(300), 0, 600, nil, 300},
		"one in the middle":    {ats(50, 100, 1350, 1400), 0, 1450, []Gap{{From: at(100), To: at(1350)}}, 1250},
		"since before":         {ats(900, 950), 0, 1000, []Gap{{From: at(0), To: at(900)}}, 900},
		"until the end":        {ats(50), 0, 1000, []Gap{{From: at(50), To: at(1000)}}, 950},
		"nothing was measured": {nil, 0, 0, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, gaps(test.acknowledged, at(test.from), at(test.until))); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
			want := time.Duration(test.longest) * time.Millisecond
			if got := longestGap(test.acknowledged, at(test.from), at(test.until)); got != want {
				t.Errorf("longest gap is %s, want %s", got, want)
			}
		})
	}
}

func TestBetweenCountsOnlyItsPart(t *testing.T) {
	report := Report{Started: at(-5000), Stopped: at(10000), Sightings: []Sighting{
		{At: at(-4000), Pod: "m-0", UID: "0", Member: 1, Leader: 1, Term: 2},
		{At: at(-3000), Pod: "m-0", UID: "0", Member: 1, Leader: 2, Term: 3},
		{At: at(2000), Pod: "m-0", UID: "0", Member: 1, Leader: 1, Term: 5},
	}}
	for _, ms := range []int{-4000, -2000, 50, 1050, 1100, 9000} {
		report.Writes = append(report.Writes, Write{Acknowledged: at(ms)})
	}
	want := Figures{
		From: at(0), Until: at(1200), Acknowledged: 3,
		LongestGap: time.Second, WithoutWrites: time.Second, Gaps: []Gap{{From: at(50), To: at(1050)}},
	}
	if diff := cmp.Diff(want, report.Between(at(0), at(1200))); diff != "" {
		t.Errorf("until the end of the rollout (-want +got):\n%s", diff)
	}
	whole := report.Between(at(0), at(99000))
	if !whole.Until.Equal(report.Stopped) || whole.LeaderChanges != 1 || whole.LongestGap != 7900*time.Millisecond {
		t.Errorf("until after the writer was stopped: %+v", whole)
	}
}
