// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// maxUnwatched is the longest time between two executions of a task in which what it has asked for still counts, and the longest one from
// when a final snapshot was seen to have the present until the members are told to stop.
const maxUnwatched = time.Minute

// Stays has the present stay of each task in its phase, as this operator has watched it. They live in memory alone: an operator that starts
// without them asks again.
type Stays struct {
	mu sync.Mutex
	of map[types.UID]stay
}

// stay is a time without a gap in which a task was executed in one phase. From Saving to Stopping is one: the final snapshot has to be of the
// same stay until the members are stopped.
type stay struct {
	phase v1alpha1.RecoveryPhase
	// generation of the task: one that was suspended has another, however short that was.
	generation int64
	// since when it lasts, and when the task was last executed.
	since, at time.Time
	// saved is when the final snapshot was last known to have the present; zero if there is none.
	saved time.Time
}

// next adds an execution of a task, and returns its stay, and whether that has begun before.
func (s *Stays) next(task *v1alpha1.EtcdOperatorTask, now time.Time) (present stay, unbroken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	phase := ptr.Deref(task.Status.Recovery, v1alpha1.RecoveryStatus{}).Phase // none while what was previewed is held
	if phase == v1alpha1.RecoveryStopping {
		phase = v1alpha1.RecoverySaving
	}
	present = s.of[task.UID]
	unbroken = present.phase == phase && present.generation == task.Generation && lasting.Unbroken(present.at, now, maxUnwatched)
	if !unbroken {
		present = stay{phase: phase, generation: task.Generation, since: now}
	}
	present.at = now
	if s.of == nil {
		s.of = map[types.UID]stay{}
	}
	s.of[task.UID] = present
	return present, unbroken
}

// counts reports whether what a task has asked for in its stay still counts. A final snapshot does not, and the stay begins anew, if it was
// taken a while ago, and the members were not stopped since, and more may have been written.
func (s *Stays) counts(task *v1alpha1.EtcdOperatorTask, call background.Request[backup.Snapshot], seen *cluster.Snapshot, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := s.of[task.UID]
	if present.phase != v1alpha1.RecoverySaving || call.Running || call.Err != nil {
		return true
	}
	has := seen.HasQuorum() && seen.Cluster.Revision > 0 && seen.Cluster.Revision <= call.Result.LastRevision
	switch {
	case present.saved.IsZero() || has:
		present.saved = now
	case seen.StatefulSet.HeldAtZeroBy != task.UID && now.Sub(present.saved) > maxUnwatched:
		s.of[task.UID] = stay{phase: present.phase, generation: present.generation, since: now, at: now}
		return false
	}
	s.of[task.UID] = present
	return true
}

// Saved reports whether this operator knows that the final snapshot of a task has the present, so that its members may be stopped. The phase
// alone does not say so: the operator that recorded it may have ended long ago.
func (s *Stays) Saved(task *v1alpha1.EtcdOperatorTask, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := s.of[task.UID]
	return present.phase == v1alpha1.RecoverySaving && present.generation == task.Generation &&
		lasting.Unbroken(present.at, now, maxUnwatched) && lasting.Unbroken(present.saved, now, maxUnwatched)
}

func (s *Stays) forget(task types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, task)
}
