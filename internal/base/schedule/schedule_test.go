// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestParse(t *testing.T) {
	g := NewWithT(t)
	for text, says := range map[string]string{
		"0 0 * * *": "", "0 0 29 2 *": "", "*/5 * * * *": "", "0 0 31 1,2 *": "", "@daily": "",
		"0 0 31 2 *": "never comes", "0 0 30 2 *": "never comes", "0 0 31 4,6,9,11 *": "never comes",
		"": "empty", "5-3 * * * *": "beyond", "a b c d e": "parse",
	} {
		_, err := Parse(text)
		if says == "" {
			g.Expect(err).NotTo(HaveOccurred(), text)
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring(says)), text)
	}
}

// Weekday 7 is Sunday, alone, at the end of a range, and with steps.
func TestSundayIsSeven(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for days, want := range map[string]string{
		"7": "Sun", "0": "Sun", "1-7": "Tue Wed Thu Fri Sat Sun Mon", "5-7": "Fri Sat Sun", "6,7": "Sat Sun", "1-7/3": "Thu Sun Mon",
		"4-7/3": "Thu Sun", "*/7": "Sun", "1/7": "Mon", "7-7": "Sun", "0-7": "Tue Wed Thu Fri Sat Sun Mon",
	} {
		t.Run(days, func(t *testing.T) {
			g := NewWithT(t)
			schedule, err := Parse("0 0 * * " + days)
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for at := schedule.Next(monday); !at.After(monday.AddDate(0, 0, 7)); at = schedule.Next(at) {
				got = append(got, at.Format("Mon"))
			}
			g.Expect(strings.Join(got, " ")).To(Equal(want))
		})
	}
	g := NewWithT(t)
	for _, days := range []string{"8", "5-8", "x-7", "9-7", "1-7/0", "1-7/x"} {
		_, err := Parse("0 0 * * " + days)
		g.Expect(err).To(HaveOccurred(), days)
	}
}

// cron panics over a time zone that nothing follows.
func TestATimeZoneAlone(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"TZ=", "CRON_TZ=", "TZ=UTC", "CRON_TZ=Europe/Berlin", "TZ=\t*"} {
		_, err := Parse(text)
		g.Expect(err).To(MatchError(ContainSubstring("time zone and no schedule")), text)
	}
	_, err := Parse("TZ= ")
	g.Expect(err).To(HaveOccurred())
	_, err = Parse("TZ=UTC 0 0 * * *")
	g.Expect(err).NotTo(HaveOccurred())
}

// Every accepted schedule has a next time.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 0 31 2 *", "0 0 29 2 *", "@every 1s", "TZ=UTC 0 0 * * *", "* * * * *", "0 0 * * 1-7/9223372036854775807"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) { _, _ = Parse(text) })
}

// The shortest and the longest time between two times are those around now, whichever they are now.
func TestGaps(t *testing.T) {
	const day = 24 * time.Hour
	monday := time.Date(2026, 11, 23, 0, 0, 5, 0, time.UTC)
	for text, want := range map[string][2]time.Duration{
		"0 0 * * *":          {day, day},
		"0 * * * *":          {time.Hour, time.Hour},
		"0 0 * * 1-5":        {day, 3 * day},
		"0 8,12 * * 1-5":     {4 * time.Hour, 68 * time.Hour},
		"*/5 8-17 * * 1-5":   {5 * time.Minute, 62*time.Hour + 5*time.Minute},
		"0 0 * * 0":          {7 * day, 7 * day},
		"0 0 1 1 *":          {365 * day, 366 * day},
		"0 0 29 2 *":         {4*365*day + day, 4*365*day + day},
		"* * * * *":          {time.Minute, time.Minute},
		"0 0 1,2 * *":        {day, 30 * day},
		"CRON_TZ=UTC @daily": {day, day},
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			s, err := Parse(text)
			g.Expect(err).NotTo(HaveOccurred())
			for now := monday; now.Before(monday.Add(week)); now = now.Add(7 * time.Hour) {
				shortest, longest := Gaps(s, now)
				g.Expect(shortest).To(BeNumerically("<=", longest))
				if text == "0 0 1 1 *" || text == "0 0 1,2 * *" {
					// It is another year, or month, in the past.
					g.Expect(longest).To(BeNumerically("<=", want[1]))
					continue
				}
				g.Expect([2]time.Duration{shortest, longest}).To(Equal(want), now.String())
			}
		})
	}
}
