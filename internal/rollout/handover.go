// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/timers"
)

const (
	// maxHandoverAttempts is how often leadership is offered before the leader goes without a handover.
	maxHandoverAttempts = 3
	// handoverWindow is how long an attempt may take to show.
	handoverWindow = 2 * time.Second
	// maxSuccessorLag is how many raft entries a successor may be behind the leader: a fifth of what etcd keeps in
	// memory for members that catch up (SnapshotCatchUpEntries, 5000).
	maxSuccessorLag = 1000
)

// wantsHandover reports whether leadership is to be moved before the pod of an ordinal goes: it leads, attempts are left,
// and an updated follower participates.
func (s *state) wantsHandover(next int) bool {
	o := s.ordinal(next)
	return *s.Config.LeaderHandover && o.Class == v1alpha1.ClassParticipating && o.Role == v1alpha1.RoleLeader &&
		o.MemberID != 0 && s.handoverAttempts(next) < maxHandoverAttempts
}

// handoverAttempts is how often leadership was moved away from the pod of an ordinal.
func (s *state) handoverAttempts(ordinal int) int32 {
	if h := s.Recorded.LeaderHandover; h != nil && h.From == s.ordinal(ordinal).Name {
		return h.Attempts
	}
	return 0
}

// heir is the updated, participating follower that has applied most of the leader's log; found is false when there is none,
// or when all are too far behind and the task does not wait for them.
func (s *state) heir(leader int) (ordinal int, found bool) {
	for i, o := range s.Snapshot.Ordinals {
		if o.Class == v1alpha1.ClassParticipating && o.Role == v1alpha1.RoleFollower && !s.outdated(i) &&
			(!found || o.AppliedIndex > s.ordinal(ordinal).AppliedIndex) {
			ordinal, found = i, true
		}
	}
	if found && !s.hasCaughtUp(ordinal, leader) && s.overrides(v1alpha1.GuardSuccessorCaughtUp) {
		return 0, false
	}
	return ordinal, found
}

func (s *state) hasCaughtUp(heir, leader int) bool {
	return s.ordinal(heir).AppliedIndex+maxSuccessorLag >= s.ordinal(leader).AppliedIndex
}

// handoverObserved: the last attempt to move leadership away from this leader has had the time to show, the last of all
// included.
func handoverObserved(s *state, step *Step) *Hold {
	last, next := s.Recorded.LeaderHandover, step.Ordinals[0]
	if s.ordinal(next).Role != v1alpha1.RoleLeader || s.handoverAttempts(next) == 0 || !timers.Within(last.LastAttemptTime.Time, s.now, handoverWindow) {
		return nil
	}
	return &Hold{Pod: last.From, Message: fmt.Sprintf("leadership is moving from %s to %s, attempt %d of %d", last.From, last.To, last.Attempts, maxHandoverAttempts)}
}

// successorCaughtUp: without the leader, the cluster would wait for the successor to catch up.
func successorCaughtUp(s *state, step *Step) *Hold {
	if step.Action != MoveLeader || s.hasCaughtUp(step.Successor, step.Ordinals[0]) {
		return nil
	}
	leader := s.ordinal(step.Ordinals[0]).Name
	return &Hold{Pod: leader, Message: fmt.Sprintf("%s leads, and every updated follower is more than %d raft entries behind it: if this persists, check their disks and the network, or override this guard", leader, maxSuccessorLag)}
}

// IsHandoverUnderWay reports whether leadership was moved a moment ago and that does not show yet: the leader is still the
// old one, or a member that answers does not know the new one.
func IsHandoverUnderWay(last *v1alpha1.LeaderHandover, snapshot *cluster.Snapshot, now time.Time) bool {
	if last == nil || !timers.Within(last.LastAttemptTime.Time, now, handoverWindow) {
		return false
	}
	return slices.ContainsFunc(snapshot.Ordinals, func(o cluster.Ordinal) bool {
		return o.Answers && !o.Serving || o.Role == v1alpha1.RoleLeader && o.Name == last.From
	})
}
