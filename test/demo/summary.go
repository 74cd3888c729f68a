// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/test/measure"
)

// summary returns a result in a few words. caused: the rollout caused some of the gaps in the writes.
func summary(r result, caused bool) string {
	writes := "always writable"
	if r.figures.WithoutWrites > 0 {
		writes = fmt.Sprintf("no writes for %.1f s", r.figures.WithoutWrites.Seconds())
		if !caused {
			writes += " while nothing changed"
		}
	}
	if r.way.healthy {
		return fmt.Sprintf("%s · %d restarts · %d leader changes · done in %.1f s", writes, r.restarts, r.figures.LeaderChanges, r.took().Seconds())
	}
	changes := fmt.Sprintf("%d leader changes", r.figures.LeaderChanges)
	if r.figures.LeaderChanges == 1 {
		changes = "1 leader change"
	}
	return fmt.Sprintf("%s · %s · rolled out in %.0f s", writes, changes, r.took().Seconds())
}

// reigns returns the leaders of the whole part.
func (r result) reigns() []measure.Reign { return measure.Reigns(r.report.Sightings, r.report.Stopped) }
