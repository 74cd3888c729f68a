// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/utils/ptr"
)

// maxUnwatched is the longest gap between two executions of a task after which its snapshot request still counts. It is also the longest
// time from when the final snapshot was last known to have every write until the members are stopped.
const maxUnwatched = time.Minute

// Stays records, for each task, how long this operator has watched it in its present phase. They live in memory alone: after a restart, the
// operator requests snapshots again, since it cannot know what was written while it did not watch.
type Stays struct{ of memory.PerTask[stay] }

// stay is a period without a gap in which a task was executed in one phase. Saving and Stopping count as one phase: the final snapshot
// must belong to the stay in which the members are stopped.
type stay struct {
	phase v1alpha1.RecoveryPhase
	// generation of the task. It changes when the task is suspended, even for a moment, so that a new stay begins.
	generation int64
	// since is when the stay began, and at when the task was last executed.
	since, at time.Time
	// saved is when the final snapshot was last known to have every write; zero if there is none.
	saved time.Time
}

// next records an execution of a task. It returns the stay, and whether it is a continued one.
func (s *Stays) next(task *v1alpha1.EtcdOperatorTask, now time.Time) (present stay, unbroken bool) {
	phase := ptr.Deref(task.Status.Recovery, v1alpha1.RecoveryStatus{}).Phase // empty while the hold is requested
	if phase == v1alpha1.RecoveryStopping {
		phase = v1alpha1.RecoverySaving
	}
	present = s.of.Change(task.UID, func(of *stay) {
		unbroken = of.phase == phase && of.generation == task.Generation && lasting.Unbroken(of.at, now, maxUnwatched)
		if !unbroken {
			*of = stay{phase: phase, generation: task.Generation, since: now}
		}
		of.at = now
	})
	return present, unbroken
}

// counts reports whether the result of a task's request still counts. A final snapshot does not if, for longer than maxUnwatched, the
// members kept running and it was not known to have every write. Then a new stay begins.
func (s *Stays) counts(task *v1alpha1.EtcdOperatorTask, call background.Request[backup.Snapshot], seen *cluster.Snapshot, now time.Time) bool {
	counts := true
	s.of.Change(task.UID, func(of *stay) {
		if of.phase != v1alpha1.RecoverySaving || call.Running || call.Err != nil {
			return
		}
		has := seen.HasQuorum() && seen.Cluster.Revision > 0 && seen.Cluster.Revision <= call.Result.LastRevision
		switch {
		case of.saved.IsZero() || has:
			of.saved = now
		case seen.StatefulSet.HeldAtZeroBy != task.UID && now.Sub(of.saved) > maxUnwatched:
			*of = stay{phase: of.phase, generation: of.generation, since: now, at: now}
			counts = false
		}
	})
	return counts
}

// Saved reports whether this operator knows that the final snapshot of a task has every write, so that the members may be stopped. The
// recorded phase does not prove that: the operator that wrote it may have ended long ago.
func (s *Stays) Saved(task *v1alpha1.EtcdOperatorTask, now time.Time) bool {
	present := s.of.Of(task.UID)
	return present.phase == v1alpha1.RecoverySaving && present.generation == task.Generation &&
		lasting.Unbroken(present.at, now, maxUnwatched) && lasting.Unbroken(present.saved, now, maxUnwatched)
}
