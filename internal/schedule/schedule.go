// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package schedule reads the schedules of an Etcd, in the five fields of cron. It imports nothing of Kubernetes.
package schedule

import (
	"fmt"
	"time"
	// A schedule may name its time zone (CRON_TZ=Europe/Berlin), and the images contain no time zones.
	_ "time/tzdata"

	"github.com/etcd-foreman/etcd-foreman/internal/plain"
	"github.com/robfig/cron/v3"
)

// Parse reads a schedule. One that never comes, such as the 31st of February, is an error: cron says of it that it is due
// at no time, which is before every other.
func Parse(text string) (cron.Schedule, error) {
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return nil, err
	}
	// cron looks five years ahead, and 1972 was a leap year.
	if schedule.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("%q never comes: there is no such day in any of its months", plain.Text(text, maxText))
	}
	return schedule, nil
}

// maxText bounds what is repeated of a schedule, in bytes.
const maxText = 100
