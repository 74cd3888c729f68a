// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"time"
)

// Retention is which snapshots are kept.
type Retention struct {
	// Full snapshots to keep: with a limit, so many of the newest; without one (0) the newest of each of the last
	// 24 hours, 7 days and 4 weeks, and all of the current hour. Hours, days and weeks are those of UTC, and do
	// not move with the time of asking: otherwise a weekly snapshot would be replaced before it is a week old.
	Limit int
	// Span is how long full snapshots are kept beyond the Limit, the newest of each hour; 0 for not at all. Where anybody may
	// ask for snapshots, it keeps requests from displacing what the Limit was meant to keep.
	Span time.Duration
	// Deltas is how long delta snapshots are kept beyond those that restores need.
	Deltas time.Duration
}

// Expired are the snapshots to remove. Never among them are the newest full snapshot, the one before (unless the
// limit is 1), which serves when the newest is corrupt, and the deltas that were taken since.
func (r Retention) Expired(list []Snapshot, now time.Time) []Snapshot {
	sorted := Sorted(list)
	slices.Reverse(sorted)
	fulls, safe := 0, 2
	if r.Limit == 1 {
		safe = 1
	}
	kept := map[period]bool{}
	var expired []Snapshot
	for _, s := range sorted {
		age := now.Sub(s.Created)
		if s.Kind == Delta {
			if fulls >= safe && age > r.Deltas {
				expired = append(expired, s)
			}
			continue
		}
		fulls++
		if fulls > safe && !r.keeps(s, fulls, kept, now) {
			expired = append(expired, s)
			continue
		}
		kept[r.periodOf(s.Created, now)] = true
	}
	return expired
}

// ExpiredSigned are the snapshots to remove where snapshots must be signed. Unsigned ones displace no signed ones.
func (r Retention) ExpiredSigned(list []Snapshot, now time.Time) []Snapshot {
	isSigned := func(s Snapshot) bool { return s.Proof != nil }
	signed := slices.DeleteFunc(slices.Clone(list), func(s Snapshot) bool { return !isSigned(s) })
	return append(slices.DeleteFunc(r.Expired(list, now), isSigned), r.Expired(signed, now)...)
}

func (r Retention) keeps(s Snapshot, rank int, kept map[period]bool, now time.Time) bool {
	p := r.periodOf(s.Created, now)
	if r.Limit > 0 {
		return rank <= r.Limit || now.Sub(s.Created) < r.Span && !kept[p]
	}
	switch p.length {
	case moment:
		return true
	case ever:
		return false
	}
	return !kept[p]
}

// period is a stretch of time from which one full snapshot is kept.
type period struct {
	length length
	number int64 // counted from 1970
}

type length int

const (
	moment length = iota // every snapshot
	hour
	day
	week
	ever // no snapshot
)

const (
	secondsOfHour = int64(time.Hour / time.Second)
	secondsOfDay  = 24 * secondsOfHour
	// mondays: 1970 began on a Thursday.
	mondays = 3
)

func (r Retention) periodOf(created, now time.Time) period {
	hourOf := func(t time.Time) int64 { return t.Unix() / secondsOfHour }
	dayOf := func(t time.Time) int64 { return t.Unix() / secondsOfDay }
	weekOf := func(t time.Time) int64 { return (dayOf(t) + mondays) / 7 }
	switch {
	case r.Limit > 0:
		return period{hour, hourOf(created)}
	case hourOf(created) >= hourOf(now): // also what a clock that jumped put into the future
		return period{length: moment}
	case hourOf(now)-hourOf(created) <= 24:
		return period{hour, hourOf(created)}
	case dayOf(now)-dayOf(created) <= 7:
		return period{day, dayOf(created)}
	case weekOf(now)-weekOf(created) <= 5:
		return period{week, weekOf(created)}
	default:
		return period{length: ever}
	}
}
