// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	cronschedule "github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/robfig/cron/v3"
	"github.com/spf13/pflag"
)

// Options configure when snapshots are taken, and how long they are kept.
type Options struct {
	// Schedule of full snapshots, in the five fields of cron, in UTC.
	Schedule string
	// DeltaPeriod is the time between two deltas; with 0, deltas are taken only on request and at the limit.
	DeltaPeriod time.Duration
	// DeltaLimit is the size of collected events, in bytes, at which a delta is taken early.
	DeltaLimit int64
	// Compression of what is written.
	Compression backup.Compression
	// Timeout of one snapshot.
	Timeout time.Duration
	// MinInterval is the minimum time between two requested snapshots of a kind; 0 for none. It does not apply to
	// snapshots by schedule, period or limit.
	MinInterval time.Duration
	// CollectionPeriod is the time between two garbage collections by Retention; 0 for never.
	CollectionPeriod time.Duration
	// Retention is what to keep.
	Retention backup.Retention
}

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Schedule, "full-snapshot-schedule", "0 0 * * *", "schedule of full snapshots, as in a crontab, in UTC")
	flags.DurationVar(&o.DeltaPeriod, "delta-snapshot-period", 5*time.Minute, "time between two delta snapshots; 0s: only on request and at the memory limit")
	flags.Int64Var(&o.DeltaLimit, "delta-snapshot-memory-limit", 10<<20, "bytes of events at which a delta snapshot is taken early")
	flags.StringVar((*string)(&o.Compression), "compression", string(backup.Gzip), "gzip, lzw, zlib or none")
	flags.DurationVar(&o.Timeout, "snapshot-timeout", 15*time.Minute, "how long a snapshot may take")
	flags.DurationVar(&o.MinInterval, "min-snapshot-interval", time.Minute, "minimum time between two requested snapshots of a kind; earlier requests wait")
	flags.DurationVar(&o.CollectionPeriod, "garbage-collection-period", time.Hour, "time between two garbage collections; 0s: none")
	flags.IntVar(&o.Retention.Limit, "max-backups", 0, "number of full snapshots to keep; 0: those of the last hours, days and weeks")
	flags.DurationVar(&o.Retention.Deltas, "delta-snapshot-retention-period", 0, "how long to keep delta snapshots that no restore needs")
}

// lookAhead is how many years ahead cron searches.
const lookAhead = 5

// schedule of full snapshots.
type schedule struct{ cron.Schedule }

func parseSchedule(text string) (schedule, error) {
	parsed, err := cronschedule.Parse(text)
	if err != nil {
		return schedule{}, fmt.Errorf("reading the schedule of full snapshots: %w", err)
	}
	return schedule{parsed}, nil
}

// Due returns a function that returns the first time of a schedule, in the five fields of cron, after a time.
func Due(text string) (func(after time.Time) time.Time, error) {
	s, err := parseSchedule(text)
	return s.next, err
}

// after returns when the next full snapshot is due after the last one, which may lie in the future if the clock was set
// back.
func (s schedule) after(last, now time.Time) time.Time {
	if last.After(now) {
		last = now
	}
	return s.next(last)
}

// next returns the first time of the schedule after a time.
func (s schedule) next(after time.Time) time.Time {
	next := s.Next(after.UTC())
	if next.IsZero() {
		// It is beyond cron's search, as February 29 may be. Zero would mean always due.
		next = after.UTC().AddDate(lookAhead, 0, 0)
	}
	return next
}
