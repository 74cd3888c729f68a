// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func window(t *testing.T, schedule string, duration time.Duration, zone string) Window {
	t.Helper()
	w, err := NewWindow(schedule, duration, zone)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func utc(text string) time.Time {
	at, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

// What clocks do: they skip an hour, half an hour or a day, and repeat one.
func TestStartsOfWindows(t *testing.T) {
	for _, c := range []struct {
		schedule, zone string
		after, want    string
	}{
		{"30 2 * * *", "UTC", "2026-03-29T00:00", "2026-03-29T02:30"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T01:00"},       // 02:30 is skipped: 03:00 CEST
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00", "2026-03-30T00:30"},       // and not once more
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30"},       // the first 02:30, CEST
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30"},       // not the second
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00"},    // midnight is skipped: 01:00
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-03T15:30"}, // half an hour is skipped
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00", "2011-12-30T10:00"},      // the day is skipped
		{"0 3 * * *", "Asia/Kolkata", "2026-06-01T00:00", "2026-06-01T21:30"},
		{"0 22 * * 6", "Europe/Berlin", "2026-11-24T00:00", "2026-11-28T21:00"},
	} {
		t.Run(c.schedule+" "+c.zone+" "+c.after, func(t *testing.T) {
			if _, got := window(t, c.schedule, time.Minute, c.zone).At(utc(c.after)); !got.Equal(utc(c.want)) {
				t.Errorf("next start %s, want %s", got, c.want)
			}
		})
	}
}

// second is another implementation: it looks at the clocks of the zone every quarter of an hour of a year, and opens the first time
// that they show the start or have jumped over it.
func second(zone *time.Location, hour, minute int, year int) (starts []time.Time) {
	at := time.Date(year-1, 12, 29, 12, 0, 0, 0, time.UTC)
	before := at.In(zone)
	opened := map[string]bool{}
	for ; at.Year() <= year; at = at.Add(15 * time.Minute) {
		now := at.In(zone)
		// The days that the clocks have shown a part of since the last look, skipped ones too.
		for day := before.Format("2006-01-02"); day <= now.Format("2006-01-02"); day = nextDay(day) {
			start := fmt.Sprintf("%s %02d:%02d", day, hour, minute)
			if !opened[day] && before.Format("2006-01-02 15:04") < start && start <= now.Format("2006-01-02 15:04") {
				opened[day] = true
				starts = append(starts, at)
			}
		}
		before = now
	}
	return starts
}

func nextDay(day string) string {
	at, err := time.Parse("2006-01-02", day)
	if err != nil {
		panic(err)
	}
	return at.AddDate(0, 0, 1).Format("2006-01-02")
}

// A year in six zones, twice: with rules of today, and with a year that had strange ones.
func TestAYearOfWindows(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "UTC"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		years, starts := []int{2011, 2018}, [][2]int{{0, 0}, {2, 15}}
		if *exploreAll {
			years, starts = append(years, 2026), append(starts, [][2]int{{0, 30}, {1, 45}, {2, 30}, {3, 0}, {23, 30}}...)
		}
		for _, year := range years {
			for _, start := range starts {
				w := window(t, fmt.Sprintf("%d %d * * *", start[1], start[0]), time.Hour, zone)
				var last time.Time
				for _, want := range second(location, start[0], start[1], year) {
					if want.Equal(last) {
						continue
					}
					if !last.IsZero() {
						if _, got := w.At(last); !got.Equal(want) {
							t.Fatalf("%s %02d:%02d: after %s the next start is %s, want %s", zone, start[0], start[1], last.In(location), got.In(location), want.In(location))
						}
					}
					if closes, _ := w.At(want.Add(-time.Second)); !closes.IsZero() && closes.Sub(want) >= time.Hour {
						t.Fatalf("%s: open before %s", zone, want)
					}
					if closes, _ := w.At(want); !closes.Equal(want.Add(time.Hour)) {
						t.Fatalf("%s: at %s it closes at %s", zone, want.In(location), closes.In(location))
					}
					last = want
				}
			}
		}
	}
}

func TestWindowsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		schedule string
		duration time.Duration
		zone     string
	}{
		{"@daily", time.Hour, "UTC"}, {"0 0 * *", time.Hour, "UTC"}, {"TZ=UTC 0 0 * *", time.Hour, "UTC"}, {"0 0 31 2 *", time.Hour, "UTC"},
		{"0 0 * * *", time.Second, "UTC"}, {"0 0 * * *", maxWindow + 1, "UTC"}, {"0 0 * * *", time.Hour, "Europe/Bonn"}, {"0 0 * * *", time.Hour, "Local"},
	} {
		if _, err := NewWindow(c.schedule, c.duration, c.zone); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestWhenAPolicyOpens(t *testing.T) {
	night := window(t, "0 22 * * *", 6*time.Hour, "UTC")
	early := window(t, "0 3 * * *", 3*time.Hour, "UTC")
	christmas := window(t, "0 0 24 12 *", 72*time.Hour, "UTC")
	for _, c := range []struct {
		name            string
		windows, except []Window
		now             string
		open            bool
		closes, next    string
	}{
		{"without windows", nil, nil, "2026-01-01T12:00", true, "", ""},
		{"closed", []Window{night}, nil, "2026-01-01T12:00", false, "", "2026-01-01T22:00"},
		{"open", []Window{night}, nil, "2026-01-02T03:59", true, "2026-01-02T04:00", ""},
		{"at its end", []Window{night}, nil, "2026-01-02T04:00", false, "", "2026-01-02T22:00"},
		{"two that overlap", []Window{night, early}, nil, "2026-01-02T03:30", true, "2026-01-02T06:00", ""},
		{"two that adjoin", []Window{night, window(t, "0 4 * * *", time.Hour, "UTC")}, nil, "2026-01-02T03:30", true, "2026-01-02T05:00", ""},
		{"many that adjoin", []Window{window(t, "0 * * * *", time.Hour, "UTC")}, nil, "2026-01-02T03:30", true, "2026-01-02T14:00", ""},
		{"an exception between them", []Window{window(t, "0 * * * *", time.Hour, "UTC")}, []Window{window(t, "0 6 * * *", time.Hour, "UTC")}, "2026-01-02T03:30", true, "2026-01-02T06:00", ""},
		{"an exception wins", []Window{night}, []Window{christmas}, "2026-12-24T23:00", false, "", "2026-12-27T00:00"},
		{"the next of two", []Window{early, night}, nil, "2026-01-01T12:00", false, "", "2026-01-01T22:00"},
		{"whichever is first", []Window{night, early}, nil, "2026-01-02T06:00", false, "", "2026-01-02T22:00"},
		{"the first of them", []Window{night, early, window(t, "0 7 * * *", time.Hour, "UTC")}, nil, "2026-01-02T06:00", false, "", "2026-01-02T07:00"},
		{"two exceptions", nil, []Window{christmas, window(t, "0 0 26 12 *", 48*time.Hour, "UTC")}, "2026-12-26T01:00", false, "", "2026-12-28T00:00"},
		{"in the other order", nil, []Window{window(t, "0 0 26 12 *", 48*time.Hour, "UTC"), christmas}, "2026-12-26T01:00", false, "", "2026-12-28T00:00"},
		{"the next window is within an exception", []Window{early}, []Window{christmas}, "2026-12-23T12:00", false, "", "2026-12-27T03:00"},
		{"no window is open when an exception ends", []Window{early}, []Window{christmas}, "2026-12-25T12:00", false, "", "2026-12-27T03:00"},
		{"exceptions one after the other", nil, []Window{christmas, window(t, "0 0 27 12 *", 24*time.Hour, "UTC")}, "2026-12-26T01:00", false, "", "2026-12-28T00:00"},
		{"an exception without an end", []Window{early}, []Window{window(t, "0 0 * * *", 24*time.Hour, "UTC")}, "2026-12-25T12:00", false, "", ""},
		{"until the nearer exception", []Window{night}, []Window{christmas, window(t, "0 3 * * *", time.Hour, "UTC")}, "2026-01-02T02:00", true, "2026-01-02T03:00", ""},
		{"the longest window is allowed", []Window{window(t, "0 0 1 1 *", maxWindow, "UTC")}, nil, "2026-01-02T02:00", true, "2026-01-08T00:00", ""},
		{"until the exception", nil, []Window{christmas}, "2026-12-23T23:00", true, "2026-12-24T00:00", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Policy{Windows: c.windows, Except: c.except}
			open, closes, next := p.Opens(utc(c.now))
			text := func(at time.Time) string {
				if at.IsZero() {
					return ""
				}
				return at.Format("2006-01-02T15:04")
			}
			if open != c.open || text(closes) != c.closes || text(next) != c.next {
				t.Errorf("open %v, closes %s, next %s", open, text(closes), text(next))
			}
		})
	}
}

// counted is a schedule that counts what it is asked.
type counted struct {
	cron.Schedule
	n *int
}

func (c counted) Next(t time.Time) time.Time {
	*c.n++
	return c.Schedule.Next(t)
}

// Whether a window is open is computed once for a decision, however many tasks wait: a schedule may come every minute, and a window last a week.
func TestWindowsAreComputedOnce(t *testing.T) {
	ask := func(tasks int) (n int) {
		w, err := NewWindow("* * * * *", time.Hour, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		w.schedule = counted{w.schedule, &n}
		in := situation(policy(func(p *Policy) { p.Windows = []Window{w} }))
		for i := range tasks {
			in.Waiting = append(in.Waiting, waiting(fmt.Sprintf("x%d", i)))
		}
		Next(in)
		return n
	}
	if one, many := ask(1), ask(100); one == 0 || many != one {
		t.Errorf("%d times for one task, %d for a hundred", one, many)
	}
}
