// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
)

const (
	// A member does not serve while it is defragmented, which is not worth it for less than this much space: an absolute amount, and a
	// fraction of the file (one part in so many).
	minFree     = 1 << 20
	minFreePart = 20
	// maxLag is how many raft entries a successor may be behind the leader: a fifth of what etcd keeps in memory for members that catch up
	// (SnapshotCatchUpEntries, 5000 by default).
	maxLag = 1000
	// maxAttempts is how often a member is asked to defragment its database, if it fails.
	maxAttempts = 2
)

// isWorthIt reports whether a database has enough space to free. A cluster without space frees as much as it can.
func (s *work) isWorthIt(db etcdclient.Database) bool {
	return db.Free() >= minFree && (len(s.Alarms) > 0 || db.Free()*minFreePart >= db.Size)
}

// defragmentation defragments the members one after the other: followers first, the leader once it no longer leads, and never learners.
func (s *work) defragmentation() *Decision {
	if !s.Config.EtcdDefragmentation {
		return nil
	}
	for _, i := range s.order() {
		o, db := s.Snapshot.Ordinals[i], s.Databases[i]
		switch {
		case s.record.isDone(o.Name):
		case o.Role == v1alpha1.RoleLearner:
			s.skip(o.Name, "it is a learner that catches up with the leader")
		case !s.isWorthIt(db):
			s.skip(o.Name, fmt.Sprintf("nothing to gain: %s of %s were in use at its last commit", size(db.InUse), size(db.Size)))
		case o.Role == v1alpha1.RoleLeader && s.votes() > 1:
			return s.handover(i)
		default:
			return s.defragment(i)
		}
	}
	return nil
}

// order returns the ordinals in their order, but the leader last.
func (s *work) order() []int {
	var order []int
	leader := s.Snapshot.Leader()
	for i := range s.Snapshot.Ordinals {
		if i != leader {
			order = append(order, i)
		}
	}
	if leader >= 0 {
		order = append(order, leader)
	}
	return order
}

// votes returns how many members of the StatefulSet vote.
func (s *work) votes() int { return s.Snapshot.CountOrdinals(cluster.Ordinal.Votes) }

func (s *work) skip(member, why string) {
	s.record = s.record.with(member+"."+keySkipped, why)
}

func (s *work) defragment(i int) *Decision {
	o, db := s.Snapshot.Ordinals[i], s.Databases[i]
	step := Step{Action: defragment, Ordinal: i}
	attempts := s.record.number(o.Name, keyAttempts)
	if s.Failed == step.name(s.Snapshot.Ordinals) {
		return fail(v1alpha1.ErrMaintenance, "%s was asked %d times to defragment its database, which stops it, and is not asked again: %v; %s", o.Name, attempts, s.Failure, remedy(o.Name, s.Failure))
	}
	cost := "all members participate, and the others keep serving"
	if s.votes() == 1 {
		cost = "it is the only voter: reads and writes stop until it is done"
	}
	s.record = s.record.withMember(o.Name, keyBefore, db.Size).withMember(o.Name, keyAttempts, attempts+1)
	step.Reason = fmt.Sprintf("%s has %s of %s free; %s", o.Name, size(db.Free()), size(db.Size), cost)
	return act(step)
}

// remedy returns what to do about a defragmentation that keeps failing.
func remedy(member string, failure error) string {
	if strings.Contains(failure.Error(), syscall.ENOSPC.Error()) {
		return fmt.Sprintf("etcd copies what is in use of the database: free space on the volume of %s, or raise spec.storageCapacity", member)
	}
	return "check the log of " + member
}

// handover moves leadership from the last member to one that is already defragmented.
func (s *work) handover(leader int) *Decision {
	from := s.Snapshot.Ordinals[leader]
	best := -1
	for i, o := range s.Snapshot.Ordinals {
		if o.Role != v1alpha1.RoleFollower || !s.record.isDone(o.Name) || o.AppliedIndex+maxLag < from.AppliedIndex {
			continue
		}
		if best < 0 || o.AppliedIndex > s.Snapshot.Ordinals[best].AppliedIndex {
			best = i
		}
	}
	if best < 0 {
		return wait("%s leads and is the last to be defragmented, and every follower is more than %d raft entries behind it", from.Name, maxLag)
	}
	return act(Step{Action: moveLeader, Ordinal: leader, Successor: best, Reason: fmt.Sprintf(
		"%s leads and is the last to be defragmented: leadership goes to %s, which is done", from.Name, s.Snapshot.Ordinals[best].Name)})
}
