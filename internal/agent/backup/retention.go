// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"time"
)

// Retention decides which snapshots are kept.
//
// Full snapshots are also taken between the times of the schedule: on request, by compactions, and when a leader cannot continue the
// deltas in the store. They do not displace scheduled ones. So the policy is applied twice, to all full snapshots and to those of the
// schedule alone, and what either keeps is kept: at most twice as many as the policy has.
type Retention struct {
	// Full snapshots to keep: with a limit, so many of the newest; without one (0) the newest of each of the last
	// 24 hours, 7 days and 4 weeks, and all of the current hour. Hours, days and weeks are those of UTC, and do
	// not shift with the current time: otherwise a weekly snapshot would be replaced before it is a week old.
	Limit int
	// Due returns the first time of the schedule of full snapshots after a time. If it is nil, all full snapshots are of the schedule.
	Due func(after time.Time) time.Time
	// Deltas is how long delta snapshots are kept beyond those that restores need.
	Deltas time.Duration
}

// maxChain is how long deltas are kept because they follow a full snapshot of the schedule, although two newer full ones contain
// them. Schedules may be a year apart.
const maxChain = 7 * 24 * time.Hour

// Expired are the snapshots to remove. Never among them are the newest full snapshot, the one before (unless the
// limit is 1), which serves when the newest is corrupt, and the deltas that were taken since. The same holds for those of the
// schedule, for as long as maxChain. Nor are those that are marked as kept; they displace none.
func (r Retention) Expired(list []Snapshot, now time.Time) []Snapshot {
	sorted := slices.DeleteFunc(Sorted(list), func(s Snapshot) bool { return s.Kept })
	ofSchedule := OfSchedule(sorted, r.Due)
	all, scheduled := r.selection(now), r.selection(now)
	var expired []Snapshot
	for i, s := range slices.Backward(sorted) {
		var keep bool
		if age := now.Sub(s.Created); s.Kind == Delta {
			keep = age <= r.Deltas || !all.covers() || !scheduled.covers() && age <= maxChain
		} else {
			keep = all.keepsNext(s)
		}
		if ofSchedule[i] {
			keep = scheduled.keepsNext(s) || keep
		}
		if !keep {
			expired = append(expired, s)
		}
	}
	return expired
}

// OfSchedule reports which snapshots are full ones of the schedule: the first one after each of its times. Names do not say why a
// snapshot was taken. A snapshot that is requested when a scheduled one is due replaces it. next returns the first time
// of the schedule after a time; if it is nil, all full snapshots are of the schedule.
func OfSchedule(sorted []Snapshot, next func(after time.Time) time.Time) []bool {
	is := make([]bool, len(sorted))
	var due time.Time
	for i, s := range sorted {
		switch {
		case s.Kind != Full || s.Created.Before(due):
		case next == nil:
			is[i] = true
		default:
			is[i], due = true, next(s.Created)
		}
	}
	return is
}

// ExpiredTrusted are the snapshots to remove where a trust does not have all: those that it lacks displace none that it has. Among them are
// the deltas that lead nowhere once the others are removed.
func (r Retention) ExpiredTrusted(list []Snapshot, trust Trust, now time.Time) []Snapshot {
	expired := r.Expired(list, now)
	if trust != TrustAll {
		trusted := slices.DeleteFunc(slices.Clone(list), func(s Snapshot) bool { return !trust.has(s) })
		expired = append(slices.DeleteFunc(expired, trust.has), r.Expired(trusted, now)...)
	}
	return append(expired, leadingNowhere(list, expired)...)
}

// leadingNowhere are the deltas that were taken before all full snapshots that stay, trusted or not: a restore begins with one of these, and
// follows what was taken later. If no full snapshot stays, nothing is known of the deltas.
func leadingNowhere(list, removed []Snapshot) (deltas []Snapshot) {
	gone := map[string]bool{}
	for _, s := range removed {
		gone[s.Name()] = true
	}
	for _, s := range Sorted(list) {
		switch {
		case gone[s.Name()]:
		case s.Kind == Full:
			return deltas
		case !s.Kept:
			deltas = append(deltas, s)
		}
	}
	return nil
}

// selection applies the policy to full snapshots, the newest first.
type selection struct {
	Retention
	now time.Time
	// seen is the number of full snapshots so far, and periods are those from which one is kept.
	seen    int
	periods map[period]bool
}

func (r Retention) selection(now time.Time) *selection {
	return &selection{Retention: r, now: now, periods: map[period]bool{}}
}

// safe is the number of full snapshots that are kept whatever their age.
func (s *selection) safe() int {
	if s.Limit == 1 {
		return 1
	}
	return 2
}

// covers reports whether the full snapshots so far include all that are safe, so that no restore needs an older delta.
func (s *selection) covers() bool { return s.seen >= s.safe() }

// keepsNext reports whether the next full snapshot is kept.
func (s *selection) keepsNext(full Snapshot) bool {
	s.seen++
	if s.Limit > 0 {
		return s.seen <= s.Limit
	}
	p := periodOf(full.Created, s.now)
	newest := !s.periods[p]
	s.periods[p] = true
	return s.seen <= s.safe() || p.length == moment || newest && p.length != ever
}

// period is a stretch of time from which one full snapshot is kept.
type period struct {
	length length
	number int64 // counted from 1970
}

type length int

const (
	moment length = iota + 1 // every snapshot
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

func periodOf(created, now time.Time) period {
	hourOf := func(t time.Time) int64 { return t.Unix() / secondsOfHour }
	dayOf := func(t time.Time) int64 { return t.Unix() / secondsOfDay }
	weekOf := func(t time.Time) int64 { return (dayOf(t) + mondays) / 7 }
	switch {
	case hourOf(created) >= hourOf(now): // including what a wrong clock has dated into the future
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
