// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/survey"
)

// Choice is how a cluster starts again.
type Choice struct {
	// Source of the data that it is rebuilt from; empty when the members are started as they are, or when it
	// cannot be started.
	Source v1alpha1.RecoverySource
	// Member that it is rebuilt from.
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
// Where a quorum has its data the members can find out for themselves who has all that was acknowledged. Where fewer
// have, the most advanced is the best that there is.
//
// A recovery that did not come to its end may have made a new cluster, of one member; unfinished is the name of that
// member, or empty. Its data is all that counts then: the log of a new cluster starts at its beginning, and cannot be compared.
func Choose(volumes []survey.Volume, clusterID, unfinished, backup string) Choice {
	for _, v := range volumes {
		if v.Member == unfinished && v.State == survey.Seen && v.Survey.State == member.SurveyPresent {
			clusterID = v.Survey.ClusterID
		}
	}
	usable, others := survey.Sift(volumes, clusterID)
	without := ""
	if len(others) > 0 {
		without = "; " + strings.Join(others, "; ")
	}
	switch {
	case survey.AreQuorum(usable, len(volumes)):
		return Choice{Why: fmt.Sprintf("%d of %d members have their data, and those that vote are a quorum: they are started as they are, and nothing is rebuilt%s", len(usable), len(volumes), without)}
	case len(usable) > 0:
		best := usable[0]
		return Choice{Source: v1alpha1.RecoverFromData, Member: best.Member, ClusterID: clusterID, Why: fmt.Sprintf(
			"the cluster is rebuilt from the data of %s, the most advanced of the %d that have survived: %s. It has every write that it took part in; writes that only the lost members had acknowledged, immediately before they were lost, may be missing%s",
			best.Member, len(usable), survey.Position(best.Survey), without)}
	case backup != "":
		return Choice{Source: v1alpha1.RecoverFromBackup, Member: restorable(volumes), ClusterID: clusterID, Why: fmt.Sprintf(
			"no member has data that it could start with: the cluster is rebuilt from the newest backup, on %s (%s); writes after its last delta snapshot are lost%s", restorable(volumes), backup, without)}
	}
	return Choice{Failed: true, Why: "no member has data that it could start with, and there is no backup: nothing can be recovered, and nothing was deleted. " +
		"If a volume can still be found, restore it under the name of its claim and create the task again; otherwise delete the Etcd and create it again" + without}
}

// restorable is the member on whose volume a backup is restored: the first that has one which can be read.
func restorable(volumes []survey.Volume) string {
	for _, v := range volumes {
		if v.State == survey.Seen {
			return v.Member
		}
	}
	return volumes[0].Member
}
