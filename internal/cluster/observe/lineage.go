// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
)

// lineage has the cluster IDs that the Etcd records.
type lineage struct {
	// recorded is the ID that its status has; 0 if it has none.
	recorded uint64
	// previous are the IDs that a recovery, which may not have ended, has left behind.
	previous []uint64
}

func lineageOf(etcd *v1alpha1.Etcd) lineage {
	l := lineage{recorded: parseID(etcd.Status.ClusterID)}
	if r := etcd.Status.Recovery; r != nil {
		for _, id := range append([]string{r.PreviousClusterID}, r.EarlierClusterIDs...) {
			l.previous = append(l.previous, parseID(id))
		}
	}
	return l
}

// parseID parses an ID in hex; 0 if it is not one.
func parseID(hex string) uint64 {
	id, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return 0
	}
	return id
}

// faction are the members that answered with one cluster ID.
type faction struct {
	id, members uint64
	leads       int
	left        int
}

// clusterID returns the ID of the cluster to which the members that answered belong. A member with the recorded ID that knows a leader
// decides. One that knows none only loses against more members that know a leader: their ID may not have been recorded yet. Among other
// IDs, one that a recovery has left behind comes last; then the number of members decides, and then whether they know a leader.
func (l lineage) clusterID(answers map[int]etcdclient.Status) uint64 {
	var own, best faction
	for _, f := range l.factions(answers) {
		switch {
		case f.id == l.recorded && f.left == 0:
			own = f
		case best.members == 0 || cmp.Or(cmp.Compare(best.left, f.left), cmp.Compare(f.members, best.members), cmp.Compare(f.leads, best.leads)) > 0:
			best = f
		}
	}
	if own.members == 0 || own.leads == 0 && best.left == 0 && best.leads > 0 && best.members > own.members {
		return best.id
	}
	return own.id
}

// factions returns the factions in the order of the ordinals of their first members.
func (l lineage) factions(answers map[int]etcdclient.Status) []faction {
	var all []faction
	for _, i := range slices.Sorted(maps.Keys(answers)) {
		s := answers[i]
		at := slices.IndexFunc(all, func(f faction) bool { return f.id == s.ClusterID })
		if at < 0 {
			at = len(all)
			all = append(all, faction{id: s.ClusterID})
			if slices.Contains(l.previous, s.ClusterID) {
				all[at].left = 1
			}
		}
		all[at].members++
		all[at].leads = max(all[at].leads, knowsLeader(s))
	}
	return all
}
