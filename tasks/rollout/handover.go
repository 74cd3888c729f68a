// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
)

const (
	// maxHandoverAttempts is how often leadership is offered before the leader goes without a handover.
	maxHandoverAttempts = 3
	// handoverRetry is how long an attempt may take to show.
	handoverRetry = 2 * time.Second
	// handoverPoll is how often a successor is asked whether it leads.
	handoverPoll = 10 * time.Millisecond
	// maxLag is how many raft entries a successor may be behind the leader: a fifth of what etcd keeps in
	// memory for members that catch up (SnapshotCatchUpEntries, 5000).
	maxLag = 1000
)

// leaderHandedOver holds while an attempt to move leadership may still show, or while every follower that
// could lead is behind. Whether an attempt is made is step's business.
func leaderHandedOver(s *situation) *Hold {
	o := s.subject()
	if !s.wantsHandover() {
		return nil
	}
	if last := s.Recorded.LeaderHandover; s.handoverAttempts() > 0 && within(last.LastAttemptTime.Time, s.now, handoverRetry) {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("leadership is moving from %s to %s, attempt %d of %d", last.From, last.To, last.Attempts, maxHandoverAttempts)}
	}
	if s.successor() < 0 {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s leads, and every updated follower is more than %d raft entries behind it: if this lasts, look at their disks and at the network, or override this guard", o.Name, maxLag)}
	}
	return nil
}

// wantsHandover: the pod that is next leads, an updated follower participates, and attempts are left.
func (s *situation) wantsHandover() bool {
	o := s.subject()
	return *s.Config.LeaderHandover && o.Class == v1alpha1.ClassParticipating && o.Role == v1alpha1.RoleLeader &&
		o.MemberID != 0 && s.handoverAttempts() < maxHandoverAttempts && len(s.heirs()) > 0
}

// handoverAttempts is how often leadership was moved away from the pod that is next.
func (s *situation) handoverAttempts() int32 {
	if h := s.Recorded.LeaderHandover; h != nil && h.From == s.subject().Name {
		return h.Attempts
	}
	return 0
}

// isHandoverUnderWay tells whether leadership was moved a moment ago and does not show yet: the leader is still the old
// one, or some member that answers does not know the new one.
func isHandoverUnderWay(last *v1alpha1.LeaderHandover, in Input, now time.Time) bool {
	if last == nil || !within(last.LastAttemptTime.Time, now, handoverRetry) {
		return false
	}
	return slices.ContainsFunc(in.Snapshot.Ordinals, func(o observe.Ordinal) bool {
		return o.Answers && !o.Serving || o.Role == v1alpha1.RoleLeader && o.Name == last.From
	})
}

// heirs are the participating followers that are updated.
func (s *situation) heirs() []int {
	var heirs []int
	for i, o := range s.Snapshot.Ordinals {
		if o.Class == v1alpha1.ClassParticipating && o.Role == v1alpha1.RoleFollower && !s.outdated(i) {
			heirs = append(heirs, i)
		}
	}
	return heirs
}

// successor is the heir that has applied most of the leader's log; -1 when all are too far behind.
func (s *situation) successor() int {
	best := -1
	for _, i := range s.heirs() {
		o := s.Snapshot.Ordinals[i]
		if o.AppliedIndex+maxLag < s.subject().AppliedIndex {
			continue
		}
		if best < 0 || o.AppliedIndex > s.Snapshot.Ordinals[best].AppliedIndex {
			best = i
		}
	}
	return best
}
