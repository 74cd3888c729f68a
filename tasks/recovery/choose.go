// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
)

// VolumeState is what is known of the volume of an ordinal.
type VolumeState int

// The states.
const (
	// VolumeGone: there is no claim, or it is being deleted. A new one is made when the member starts.
	VolumeGone VolumeState = iota
	// VolumeUnseen: there is a claim, and no Job that looks at it.
	VolumeUnseen
	// VolumeAbandoned: the claim is being deleted, and a Job that looks at it keeps it.
	VolumeAbandoned
	// VolumeLooking: a Job looks at it.
	VolumeLooking
	// VolumeUnread: the Job cannot start, or could not read it. Nobody knows what is on it.
	VolumeUnread
	// VolumeSeen: the Survey says what is on it.
	VolumeSeen
)

// Volume is the volume of an ordinal.
type Volume struct {
	// Member is the name of the member.
	Member string
	// Claim is the name of the PersistentVolumeClaim.
	Claim string
	State VolumeState
	// Survey of the data, when it was seen.
	Survey member.Survey
	// Message says what is waited for, while it is not known.
	Message string
}

// Choice is how a cluster starts again.
type Choice struct {
	// Source of the data that it begins anew with; empty when the members are started as they are, or when it
	// cannot be started.
	Source v1alpha1.RecoverySource
	// Member that it begins anew with.
	Member string
	// ClusterID that the cluster had, in hex.
	ClusterID string
	// Failed: there is neither data nor a backup.
	Failed bool
	// Why is a sentence for people: what was chosen, over what, and what may be lost.
	Why string
}

// Choose says how a cluster starts again, by what is on the volumes of its members. It is pure.
//
// Raft elects only a member whose log is at least as advanced, by the term and the index of its last entry, as that of
// each of its voters; so the most advanced of a quorum has all that was acknowledged. Where a quorum has its data the
// members can find out for themselves. Where fewer have, the most advanced is the best that there is.
//
// A recovery that did not come to its end may have made a new cluster, of one member; unfinished is the name of that
// member, or empty. Its data is all that counts then: the log of a new cluster begins anew, and cannot be compared.
func Choose(volumes []Volume, clusterID, unfinished, backup string) Choice {
	for _, v := range volumes {
		if v.Member == unfinished && v.State == VolumeSeen && v.Survey.State == member.SurveyPresent {
			clusterID = v.Survey.ClusterID
		}
	}
	usable, others := sift(volumes, clusterID)
	without := ""
	if len(others) > 0 {
		without = "; " + strings.Join(others, "; ")
	}
	switch {
	case areQuorum(usable, len(volumes)):
		return Choice{Why: fmt.Sprintf("%d of %d members have their data, and those that vote are a quorum: they are started as they are, and nothing is rebuilt%s", len(usable), len(volumes), without)}
	case len(usable) > 0:
		best := usable[0]
		return Choice{Source: v1alpha1.RecoverFromData, Member: best.Member, ClusterID: clusterID, Why: fmt.Sprintf(
			"the cluster begins anew with the data of %s, the most advanced of the %d that have survived: %s. It has every write that it took part in; what only the lost members had acknowledged, in the moment before they were lost, would be missing%s",
			best.Member, len(usable), position(best.Survey), without)}
	case backup != "":
		return Choice{Source: v1alpha1.RecoverFromBackup, Member: restorable(volumes), ClusterID: clusterID, Why: fmt.Sprintf(
			"no member has data that it could start with: the cluster begins anew with the newest backup, on %s (%s); what was written after its last delta snapshot is lost%s", restorable(volumes), backup, without)}
	}
	return Choice{Failed: true, Why: "no member has data that it could start with, and there is no backup: nothing can be recovered, and nothing was deleted. " +
		"If a volume can still be found, bring it back under the name of its claim and create the task again; otherwise delete the Etcd and create it anew" + without}
}

// areQuorum tells whether the members of some volumes are a quorum of the voters, as the most advanced of them knows
// those; a learner does not count.
func areQuorum(usable []Volume, members int) bool {
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

// sift separates the volumes with data of the cluster, the most advanced first, from the others, of which it says what
// they have instead.
func sift(volumes []Volume, clusterID string) (usable []Volume, others []string) {
	for _, v := range volumes {
		switch {
		case v.State != VolumeSeen:
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
			others = append(others, fmt.Sprintf("%s has %s", v.Member, position(v.Survey)))
		}
	}
	return usable, others
}

// restorable is the member on whose volume a backup is restored: the first that has one which can be read.
func restorable(volumes []Volume) string {
	for _, v := range volumes {
		if v.State == VolumeSeen {
			return v.Member
		}
	}
	return volumes[0].Member
}

func position(s member.Survey) string {
	return fmt.Sprintf("its log ends at index %d of term %d, and its database is at revision %d", s.LastIndex, s.LastTerm, s.Revision)
}
