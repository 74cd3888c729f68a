// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/robfig/cron/v3"
)

// Window is a span of time that begins by a schedule in a time zone.
type Window struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

// maxWindow bounds the duration of a window, and with it how many starts are tried.
const maxWindow = 7 * 24 * time.Hour

// maxStarts bounds how many starts of a schedule are tried: a start in each minute, for as long as a window may be and a day.
const maxStarts = int(maxWindow/time.Minute) + 3*24*60

// NewWindow makes a Window of a schedule in the five fields of cron, a duration and the IANA name of a time zone.
func NewWindow(text string, duration time.Duration, zone string) (Window, error) {
	if len(strings.Fields(text)) != 5 || strings.Contains(text, "TZ=") {
		return Window{}, fmt.Errorf("schedule %q does not have the five fields of cron", text)
	}
	if duration < time.Minute || duration > maxWindow {
		return Window{}, fmt.Errorf("duration %s is not between 1m and %s", duration, maxWindow)
	}
	parsed, err := schedule.Parse(text)
	if err != nil {
		return Window{}, fmt.Errorf("schedule: %w", err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Window{}, fmt.Errorf("timeZone %q is not the IANA name of a time zone", zone)
	}
	return Window{schedule: parsed, duration: duration, zone: location}, nil
}

// At returns when the window that is open at a time closes; zero if it is closed. Next is when it opens next after that time.
func (w Window) At(now time.Time) (closes, next time.Time) {
	// What has begun earlier than this is over, whatever the zone has done to its clocks since.
	floating := w.floating(now.Add(-w.duration)).Add(-26 * time.Hour)
	for range maxStarts {
		if floating = w.schedule.Next(floating); floating.IsZero() {
			return closes, time.Time{}
		}
		start := w.instant(floating)
		if start.After(now) {
			return closes, start
		}
		if end := start.Add(w.duration); end.After(now) {
			closes = end
		}
	}
	return closes, time.Time{}
}

// floating returns what the clocks of the zone show, as if it were UTC: schedules are evaluated there, where no hour is missing
// or comes twice.
func (w Window) floating(t time.Time) time.Time {
	_, offset := t.In(w.zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns when the clocks of the zone first show a time. One that they skip is the first instant after the gap.
func (w Window) instant(floating time.Time) time.Time {
	at := floating.Add(-48 * time.Hour).In(w.zone)
	for {
		_, offset := at.Zone()
		begins, ends := at.ZoneBounds()
		candidate := floating.Add(-time.Duration(offset) * time.Second)
		switch {
		case !begins.IsZero() && candidate.Before(begins):
			return begins.UTC()
		case ends.IsZero() || candidate.Before(ends):
			return candidate
		}
		at = ends
	}
}
