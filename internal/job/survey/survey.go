// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package survey reads the volumes of stopped members, by read-only Jobs of the agent, and compares their data. What follows from that is
// up to its callers.
package survey

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// State of a volume in a survey.
type State int

// The states.
const (
	// Gone: there is no claim, or it is being deleted. The member gets a new one when it starts.
	Gone State = iota
	// Unseen: there is a claim, and no Job that surveys it.
	Unseen
	// Abandoned: its Job must be removed. The claim is being deleted, which the Job holds up; or the Job surveyed something else; or its
	// result was deleted with its pod.
	Abandoned
	// Looking: a Job surveys it.
	Looking
	// Unread: the Job cannot start, or failed. The content is unknown.
	Unread
	// Seen: the Survey has its content.
	Seen
	// Foreign: the Etcd does not own its claim, or the Job of that name. It is not surveyed.
	Foreign
)

// Volume is the volume of an ordinal.
type Volume struct {
	Ordinal int32
	// Member is the name of the member.
	Member string
	// Claim is the name of the PersistentVolumeClaim. UID is its UID; empty if the Etcd has no claim of that name.
	Claim string
	UID   types.UID
	State State
	// Survey of the data, in state Seen.
	Survey member.Survey
	// Message is what the survey waits for.
	Message string
}

// Pending returns what a survey waits for until every existing volume is seen, and reports whether Jobs must be created or removed.
// A foreign claim with the name of a member's is waited for, too: a person may have restored it, and the member would start with it.
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

// Sift returns the volumes with data of a cluster, the most advanced first, and a description of each other volume.
//
// Raft elects only a member whose log is at least as advanced, by term and index of its last entry, as that of each of its
// voters; so the most advanced of a quorum has everything that was acknowledged.
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
	slices.SortStableFunc(usable, Compare)
	if len(usable) > 1 {
		for _, v := range usable[1:] {
			others = append(others, fmt.Sprintf("%s: %s", v.Member, Position(v.Survey)))
		}
	}
	return usable, others
}

// Compare compares two volumes by how advanced their logs are, the most advanced first.
func Compare(a, b Volume) int {
	return cmp.Or(cmp.Compare(b.Survey.LastTerm, a.Survey.LastTerm), cmp.Compare(b.Survey.LastIndex, a.Survey.LastIndex))
}

// Voting returns the volumes of members that vote, and the number of voters, by what the first and most advanced of the usable volumes
// knows. Learners do not count. If it knows no voters, all members count.
func Voting(usable []Volume, members int) (voting []Volume, voters int) {
	if len(usable) == 0 {
		return usable, members
	}
	return Among(usable, usable[0].Survey.Voters, members)
}

// Among returns the volumes of members with the given IDs, and the number of IDs. Without any, all members count.
func Among(usable []Volume, ids []string, members int) (among []Volume, n int) {
	if len(ids) == 0 {
		return usable, members
	}
	for _, v := range usable {
		if slices.Contains(ids, v.Survey.MemberID) {
			among = append(among, v)
		}
	}
	return among, len(ids)
}

// AreQuorum reports whether the members of some volumes are a quorum of the voters.
func AreQuorum(usable []Volume, members int) bool {
	voting, voters := Voting(usable, members)
	return quorum.Exists(len(voting), voters)
}

// Position describes how advanced the data of a member is.
func Position(s member.Survey) string {
	return fmt.Sprintf("its log ends at index %d of term %d, and its database is at revision %d", s.LastIndex, s.LastTerm, s.Revision)
}
