// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package survey finds out what is on the volumes of members that do not run, by Jobs of the agent that only read, and
// compares it. It knows nothing of what that is wanted for.
package survey

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// State is what is known of a volume.
type State int

// The states.
const (
	// Gone: there is no claim, or it is being deleted. A new one is made when the member starts.
	Gone State = iota
	// Unseen: there is a claim, and no Job that looks at it.
	Unseen
	// Abandoned: there is a Job that nobody waits for any more: its claim is being deleted, and the Job keeps it, or it
	// looked at something else.
	Abandoned
	// Looking: a Job looks at it.
	Looking
	// Unread: the Job cannot start, or could not read it. Nobody knows what is on it.
	Unread
	// Seen: the Survey says what is on it.
	Seen
	// Foreign: its claim, or the Job that would look at it, is somebody else's. It is not looked at.
	Foreign
)

// Volume is the volume of an ordinal.
type Volume struct {
	// Member is the name of the member.
	Member string
	// Claim is the name of the PersistentVolumeClaim, and UID its UID.
	Claim string
	UID   types.UID
	State State
	// Survey of the data, when it was seen.
	Survey member.Survey
	// Message says what is waited for, while it is not known.
	Message string
}

// Pending says what is waited for until every volume that there is has been seen, and whether Jobs have to be created
// or removed for that. A volume under the name of a member that is not the Etcd's is waited for as well: it may be one
// that a person brought back, and the member would start with it.
func Pending(volumes []Volume) (waits []string, act bool) {
	for _, v := range volumes {
		switch v.State {
		case Unseen, Abandoned:
			act = true
			waits = append(waits, v.Message)
		case Looking, Unread, Foreign:
			waits = append(waits, v.Message)
		case Gone, Seen:
		}
	}
	return waits, act
}

// Sift separates the volumes with data of a cluster, the most advanced first, from the others, of which it says what
// they have instead.
//
// Raft elects only a member whose log is at least as advanced, by the term and the index of its last entry, as that of
// each of its voters; so the most advanced of a quorum has all that was acknowledged.
func Sift(volumes []Volume, clusterID string) (usable []Volume, others []string) {
	for _, v := range volumes {
		switch {
		case v.State != Seen:
			others = append(others, v.Member+" has no volume")
		case v.Survey.State == member.SurveyNone:
			others = append(others, fmt.Sprintf("the volume of %s is empty", v.Member))
		case v.Survey.State == member.SurveyDamaged:
			others = append(others, fmt.Sprintf("the data of %s is damaged (%s)", v.Member, v.Survey.Damage))
		case v.Survey.ClusterID != clusterID:
			others = append(others, fmt.Sprintf("%s has data of another cluster, %s", v.Member, v.Survey.ClusterID))
		default:
			usable = append(usable, v)
		}
	}
	slices.SortStableFunc(usable, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(b.Survey.LastTerm, a.Survey.LastTerm), cmp.Compare(b.Survey.LastIndex, a.Survey.LastIndex))
	})
	if len(usable) > 1 {
		for _, v := range usable[1:] {
			others = append(others, fmt.Sprintf("%s has %s", v.Member, Position(v.Survey)))
		}
	}
	return usable, others
}

// AreQuorum tells whether the members of some volumes are a quorum of the voters, as the most advanced of them, which
// is the first, knows those; a learner does not count. Where it does not know, all of so many members vote.
func AreQuorum(usable []Volume, members int) bool {
	if len(usable) == 0 {
		return false
	}
	voters := usable[0].Survey.Voters
	if len(voters) == 0 {
		return quorum.Exists(len(usable), members)
	}
	n := 0
	for _, v := range usable {
		if slices.Contains(voters, v.Survey.MemberID) {
			n++
		}
	}
	return quorum.Exists(n, len(voters))
}

// Position says how advanced the data of a member is.
func Position(s member.Survey) string {
	return fmt.Sprintf("its log ends at index %d of term %d, and its database is at revision %d", s.LastIndex, s.LastTerm, s.Revision)
}
