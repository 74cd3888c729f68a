// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// removalReason is why a pod is removed, or its member disrupted, and why now.
type removalReason struct {
	Snapshot *cluster.Snapshot
	Ordinal  int
	// Grace is how long no member may have known a leader.
	Grace                                            time.Duration
	Evict, CannotSpareOne, ByReadiness, LastOutdated bool
	// Handover says that leadership could not be moved; empty if it could, or was not tried often enough.
	Handover string
}

func (r removalReason) String() string {
	o := &r.Snapshot.Ordinals[r.Ordinal]
	var say []string
	switch {
	case o.KnownClass() != o.Class:
		say = append(say, fmt.Sprintf("%s was last reported as %s and may be running by now, since %s", o.Name, o.Class, o.Pod.Stale()))
	case o.Class == v1alpha1.ClassDead:
		say = append(say, fmt.Sprintf("%s is not running (%s)", o.Name, o.Pod.Trouble))
	case o.Class == v1alpha1.ClassStarting:
		say = append(say, o.Name+" has not started")
	case o.Class == v1alpha1.ClassUnready && !r.Snapshot.Cluster.LeaderKnown:
		say = append(say, o.Name+" is running, and no member has known a leader for "+r.Grace.String())
	case o.Class == v1alpha1.ClassUnready && o.Serving:
		say = append(say, o.Name+" serves, but its readiness probe fails")
	case o.Class == v1alpha1.ClassUnready:
		say = append(say, o.Name+" is running but does not participate")
	default:
		say = append(say, o.Name+r.role(o.Role))
	}
	if r.Evict && o.Class == v1alpha1.ClassParticipating && !o.Pod.AllContainersReady {
		say = append(say, "one of its containers is not ready, so it goes first")
	}
	if r.CannotSpareOne && o.Class == v1alpha1.ClassParticipating {
		say = append(say, fmt.Sprintf("a cluster of %d cannot spare a member: writes stop until it is back", r.Snapshot.Replicas()))
	}
	if r.ByReadiness {
		say = append(say, "no member answers the operator: using readiness probes for health and leases for roles")
	}
	return strings.Join(say, "; ")
}

// role says what a participating pod is, and of which others it can be said.
func (r removalReason) role(role v1alpha1.Role) string {
	switch {
	case role == v1alpha1.RoleLeader && r.LastOutdated:
		return " leads and is the last one" + r.Handover
	case role == v1alpha1.RoleLeader:
		return " leads" + r.Handover
	case r.Snapshot.NotParticipating(r.Ordinal) != "":
		return " is next, although not all others participate"
	case role == v1alpha1.RoleFollower:
		return " is a follower, and all others participate"
	}
	return " is next, and all others participate"
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
