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
)

const (
	// maxHandoverAttempts is how often leadership is offered before the leader goes without a handover.
	maxHandoverAttempts = 3
	// maxSuccessorLag is how many raft entries a successor may be behind the leader: a fifth of what etcd keeps in
	// memory for members that catch up (SnapshotCatchUpEntries, 5000).
	maxSuccessorLag = 1000
)

// handover decides whether, and to which member, leadership moves before the pod of an ordinal is removed.
type handover struct {
	state  *state
	leader int
}

// isWanted reports whether leadership is to be moved: the member leads and is reachable, and attempts are left.
func (h handover) isWanted() bool {
	o := h.state.ordinal(h.leader)
	return *h.state.Config.LeaderHandover && o.Class == v1alpha1.ClassParticipating && o.Role == v1alpha1.RoleLeader &&
		o.MemberID != 0 && h.attempts() < maxHandoverAttempts
}

// attempts returns how often leadership was moved away from this pod.
func (h handover) attempts() int32 {
	if last := h.state.Recorded.LeaderHandover; last != nil && last.From == h.state.ordinal(h.leader).Name {
		return last.Attempts
	}
	return 0
}

// successor returns the updated, participating follower that has applied most of the leader's log; found is false when there
// is none, or when all are too far behind and the task does not wait for them.
func (h handover) successor() (ordinal int, found bool) {
	s := h.state
	for i, o := range s.Snapshot.Ordinals {
		if o.Class == v1alpha1.ClassParticipating && o.Role == v1alpha1.RoleFollower && !s.outdated(i) &&
			(!found || o.AppliedIndex > s.ordinal(ordinal).AppliedIndex) {
			ordinal, found = i, true
		}
	}
	return ordinal, found && (h.hasCaughtUp(ordinal) || !s.overrides(v1alpha1.GuardSuccessorCaughtUp))
}

func (h handover) hasCaughtUp(successor int) bool {
	return h.state.ordinal(successor).AppliedIndex+maxSuccessorLag >= h.state.ordinal(h.leader).AppliedIndex
}

// failed returns, as the end of a sentence, that leadership could not be moved; empty when it was not tried often enough.
func (h handover) failed() string {
	if n := h.attempts(); n >= maxHandoverAttempts && *h.state.Config.LeaderHandover {
		return fmt.Sprintf("; leadership could not be moved in %d attempts, so the rollout proceeds without a handover", n)
	}
	return ""
}

// handoverObserved: the last attempt to move leadership away from this leader, including the final one, has had the time to take effect.
func handoverObserved(s *state, step *Step) *Hold {
	last, next := s.Recorded.LeaderHandover, step.Ordinals[0]
	if s.ordinal(next).Role != v1alpha1.RoleLeader || (handover{s, next}).attempts() == 0 || !within(last.LastAttemptTime.Time, s.now, HandoverWindow) {
		return nil
	}
	return &Hold{Pod: last.From, Message: fmt.Sprintf("leadership is moving from %s to %s, attempt %d of %d", last.From, last.To, last.Attempts, maxHandoverAttempts)}
}

// successorCaughtUp: without the leader, the cluster would wait for the successor to catch up.
func successorCaughtUp(s *state, step *Step) *Hold {
	if step.Action != MoveLeader || (handover{s, step.Ordinals[0]}).hasCaughtUp(step.Successor) {
		return nil
	}
	leader := s.ordinal(step.Ordinals[0]).Name
	return &Hold{Pod: leader, Message: fmt.Sprintf("%s leads, and every updated follower is more than %d raft entries behind it: if this persists, check their disks and the network, or override this guard", leader, maxSuccessorLag)}
}

// HandoverWindow is how long an attempt to move leadership may take to become visible.
const HandoverWindow = 2 * time.Second

// IsHandoverUnderWay reports whether leadership was just moved and that is not visible yet: the leader is still the old one, or a member
// that answers does not know the new one.
func IsHandoverUnderWay(last *v1alpha1.LeaderHandover, snapshot *cluster.Snapshot, now time.Time) bool {
	if last == nil || !within(last.LastAttemptTime.Time, now, HandoverWindow) {
		return false
	}
	return slices.ContainsFunc(snapshot.Ordinals, func(o cluster.Ordinal) bool {
		return o.Answers && !o.Serving || o.Role == v1alpha1.RoleLeader && o.Name == last.From
	})
}
