// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package schedule parses the schedules of an Etcd, in the five fields of cron. It imports nothing of Kubernetes.
package schedule

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	// A schedule may name its time zone (CRON_TZ=Europe/Berlin), and the images contain no time zones.
	_ "time/tzdata"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/robfig/cron/v3"
)

// Parse parses a schedule. One that never matches, such as the 31st of February, is an error: its next time according to cron is the zero
// time, which is before any other.
func Parse(text string) (cron.Schedule, error) {
	if isZoneAlone(text) {
		return nil, fmt.Errorf("%q has a time zone and no schedule: write five fields after it", sanitize.Text(text, maxText))
	}
	schedule, err := cron.ParseStandard(withSundayAsZero(text))
	if err != nil {
		return nil, err
	}
	// cron looks five years ahead, and 1972 was a leap year.
	if schedule.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("%q never comes: there is no such day in any of its months", sanitize.Text(text, maxText))
	}
	return schedule, nil
}

// isZoneAlone reports whether nothing follows a time zone: cron panics then.
func isZoneAlone(text string) bool {
	return (strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=")) && !strings.Contains(text, " ")
}

// withSundayAsZero returns a schedule that cron reads: weekday 7 is Sunday in crontabs, but not there.
func withSundayAsZero(text string) string {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return text
	}
	var days []string
	for part := range strings.SplitSeq(fields[4], ",") {
		span, step, _ := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		switch {
		case span == "7":
			days = append(days, "0")
		case ranged && to == "7":
			days = append(days, eachDay(from, step)...)
		default:
			days = append(days, part)
		}
	}
	fields[4] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

// eachDay returns every step-th day from a day to Sunday, which is 7.
func eachDay(from, step string) []string {
	first, err := strconv.Atoi(from)
	by, stepErr := strconv.Atoi(cmp.Or(step, "1"))
	if err != nil || stepErr != nil || first > 7 || by < 1 {
		return []string{from + "-7"} // cron says what is wrong with it
	}
	var days []string
	for day := first; day <= 7; day += min(by, 8) {
		days = append(days, strconv.Itoa(day%7))
	}
	return days
}

// maxText bounds what is repeated of a schedule, in bytes.
const maxText = 100

const (
	week = 7 * 24 * time.Hour
	// longAgo is longer than between two 29ths of February.
	longAgo = 10 * 365 * 24 * time.Hour
	// enoughGaps show how irregular a schedule is, and maxGaps bounds how many are looked at: a schedule may come every minute.
	enoughGaps, maxGaps = 7, 1000
)

// Gaps returns the shortest and the longest time between one time of a schedule and the next: in the week before a time and until the next
// one after it, or in a longer past if that has too few.
func Gaps(s cron.Schedule, until time.Time) (shortest, longest time.Duration) {
	for back := week; ; back *= 5 {
		n := 0
		for at := s.Next(until.Add(-back)); !at.IsZero() && !at.After(until) && n < maxGaps; n++ {
			next := s.Next(at)
			if gap := next.Sub(at); n == 0 {
				shortest, longest = gap, gap
			} else {
				shortest, longest = min(shortest, gap), max(longest, gap)
			}
			at = next
		}
		if n >= enoughGaps || back > longAgo {
			return shortest, longest
		}
	}
}
