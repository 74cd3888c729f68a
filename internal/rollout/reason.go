// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// reason is why the pod of an ordinal is removed, or its member disrupted, and why now.
func (s *state) reason(next int) string {
	o := s.ordinal(next)
	var say []string
	switch {
	case o.KnownClass() != o.Class:
		say = append(say, fmt.Sprintf("%s was last reported as %s and may be running by now, since %s", o.Name, o.Class, o.Pod.Stale()))
	case o.Class == v1alpha1.ClassDead:
		say = append(say, fmt.Sprintf("%s is not running (%s)", o.Name, o.Pod.Trouble))
	case o.Class == v1alpha1.ClassStarting:
		say = append(say, o.Name+" has not started")
	case o.Class == v1alpha1.ClassUnready && !s.Snapshot.Cluster.LeaderKnown:
		say = append(say, o.Name+" is running, and no member has known a leader for "+s.Config.Grace().String())
	case o.Class == v1alpha1.ClassUnready && o.Serving:
		say = append(say, o.Name+" serves, but its readiness probe fails")
	case o.Class == v1alpha1.ClassUnready:
		say = append(say, o.Name+" is running but does not participate")
	default:
		say = append(say, o.Name+s.roleReason(next))
	}
	if s.Config.PodRemoval == Evict && o.Class == v1alpha1.ClassParticipating && !o.Pod.AllContainersReady {
		say = append(say, "one of its containers is not ready, so it goes first")
	}
	if s.cannotSpareOne() && o.Class == v1alpha1.ClassParticipating {
		say = append(say, fmt.Sprintf("a cluster of %d cannot spare a member: writes stop until it is back", s.Snapshot.Replicas()))
	}
	if s.surges() && o.Pod != nil && s.bringsAgent(next) {
		say = append(say, "no second member takes over, since its agent is too old to be told of one; the new agent can be")
	}
	if s.byReadiness {
		say = append(say, "no member answers the operator: using readiness probes for health and leases for roles")
	}
	return strings.Join(say, "; ")
}

// roleReason says what a participating pod is, and of which others it can be said.
func (s *state) roleReason(next int) string {
	switch role := s.ordinal(next).Role; {
	case role == v1alpha1.RoleLeader && s.isLastOutdated(next):
		return " leads and is the last one" + handover{s, next}.failed()
	case role == v1alpha1.RoleLeader:
		return " leads" + handover{s, next}.failed()
	case s.Snapshot.NotParticipating(next) != "":
		return " is next, although not all others participate"
	case role == v1alpha1.RoleFollower:
		return " is a follower, and all others participate"
	}
	return " is next, and all others participate"
}

func (s *state) isLastOutdated(next int) bool {
	for i := range s.Snapshot.Ordinals {
		if i != next && s.outdated(i) {
			return false
		}
	}
	return true
}

// separator separates why a pod was removed from how that ended, in the reason of its last operation.
const separator = "; "

// withEnd appends to the reason of an operation how the operation ended.
func withEnd(reason, end string) string { return reason + separator + end }

// SplitReason returns why a pod was removed, and how that ended; end is empty while the operation is in progress.
func SplitReason(op v1alpha1.LastOperation) (why, end string) {
	i := strings.LastIndex(op.Reason, separator)
	if i < 0 || op.State == v1alpha1.OperationStateInProgress {
		return op.Reason, ""
	}
	return op.Reason[:i], op.Reason[i+len(separator):]
}
