// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// decideByOthers: the member's data is gone or damaged, and a quorum, which has all of it, serves without the member.
func decideByOthers(f Input) Decision {
	switch {
	case f.ClusterID != "" && f.OthersClusterID != f.ClusterID:
		return refuse(v1alpha1.ReasonDataOfAnotherCluster, "the other members belong to cluster %s, but this is cluster %s: start them with the volumes of this cluster", f.OthersClusterID, f.ClusterID)
	case f.Data.State == DataDamaged && (f.Others != AnswerNeverStarted || f.Data.MemberID != "" && f.Data.MemberID != f.Listed):
		return Decision{Action: SetAside, Suffix: ReplacedSuffix, Why: loss(f) + ", and a quorum of the cluster has all of it"}
	case f.Others == AnswerNeverStarted && f.Data.State == DataNone:
		return Decision{Action: Join, Why: "the cluster serves, lists the member and has never seen it run"}
	case f.Others == AnswerNotListed:
		return notListed(f)
	case f.Others == AnswerNeverStarted && f.Data.MemberID == "":
		return free("", wait(reasonOf(f), "%s and does not say of which member it is; the cluster serves, and lists member %s, which has not reported that it runs. Remove that one with etcdctl: the operator then adds another", loss(f), f.Listed))
	}
	return free(f.Listed, wait(reasonOf(f), "%s, and the cluster serves and lists it as %s: it rejoins as a learner once the operator has replaced it in the member list", loss(f), f.Listed))
}

// notListed decides that a member waits until it is added.
func notListed(f Input) Decision {
	return free("", wait(v1alpha1.ReasonNotListed, "member %s has no data, and cluster %s serves without listing it: it joins once the operator has added it to the member list", f.Member, f.OthersClusterID))
}

// wasRemoved reports whether the data is that of a member that was removed from its cluster: the data says so, or a quorum of that cluster
// does not list the member. In a recovery, data of the clusters before it is not judged.
func (f Input) wasRemoved() bool {
	switch {
	case f.Data.State != DataPresent || f.Recovery != nil && f.Data.ClusterID != f.NewClusterID || f.Recovery == nil && f.isForeign():
		return false
	case f.Data.Removed:
		return true
	}
	return f.othersAreOfData() && !f.DataListed
}

// othersAreOfData reports whether a quorum of the cluster that the data belongs to answers.
func (f Input) othersAreOfData() bool {
	return f.Others != AnswerNone && f.OthersClusterID == f.Data.ClusterID
}

// decideRemoved: the data is that of a removed member. It is set aside once a quorum serves without that member. Until then it may be the
// newest data that there is, for a recovery to use. If only the member list says that it was removed, the data stays until a person deletes
// it: someone may have forced a new cluster of older data, which lists other members.
func decideRemoved(f Input) Decision {
	known, suffix := f.Data.Removed || f.Leaving, RemovedSuffix
	if !known {
		suffix = AsideSuffix
	}
	switch {
	case !f.othersAreOfData():
		return left(f, "%s holds the data of member %s, which was removed from cluster %s, and no quorum of that cluster answers. Restore the other members; if they are permanently lost, recover the cluster", f.DataDir, f.Data.MemberID, f.Data.ClusterID)
	case f.DataListed:
		return left(f, "%s holds the data of member %s, which was removed from cluster %s, and the cluster lists it. Remove that member with etcdctl: the operator then adds another", f.DataDir, f.Data.MemberID, f.Data.ClusterID)
	case !known && f.ClusterID == "" && f.Recovery == nil:
		return left(f, "%s holds the data of member %s of cluster %s, which serves without it, and no cluster ID is recorded: it is not used unless the operator records this one", f.DataDir, f.Data.MemberID, f.Data.ClusterID)
	}
	return Decision{Action: SetAside, Suffix: suffix, Why: "the cluster serves and has removed member " + f.Data.MemberID + ", whose data it is"}
}

// left returns the decision to wait with the data of a removed member.
func left(f Input, format string, args ...any) Decision {
	d := wait(v1alpha1.ReasonMemberRemoved, format, args...)
	d.Volume = cluster.Volume{Store: cluster.StoreLeft, ClusterID: f.Data.ClusterID}
	return d
}

// free adds to a decision that a member could join from this volume, and the ID of the listed member whose data is gone, if there is one.
func free(lost string, d Decision) Decision {
	d.Volume = cluster.Volume{Store: cluster.StoreFree, Lost: lost}
	return d
}
