// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// Plan is plan.Plan, for tests in this package: its worlds are those that plans are tested in, and it must not import package plan.
type Plan struct {
	Entries   []Entry
	End       Conclusion
	Elections bool
}

// Entry is plan.Entry.
type Entry struct {
	Decision
	Before, Meanwhile *cluster.Snapshot
}

// Foresee is plan.Foresee. TestMain sets it.
var Foresee func(Input, time.Time) Plan
