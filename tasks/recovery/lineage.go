// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
)

// maxEarlier is how many earlier clusters a status may name.
const maxEarlier = 16

// lineage returns the IDs, in hex, of the clusters that an Etcd has had, in the order in which they were made: those that the recovery
// in its status leaves behind, the one that this recovery makes, which may have either of two IDs, the one that was recorded when the
// task began, and the recorded one. A person may have recorded another one since, because its data counts. It is pure.
func lineage(r *v1alpha1.ClusterRecovery, made []string, began, recorded string) []string {
	var ids []string
	add := func(id string) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if r != nil {
		for _, id := range append(slices.Clone(r.EarlierClusterIDs), r.PreviousClusterID) {
			add(id)
		}
	}
	if !slices.Contains(ids, recorded) {
		// It has served, so it is the one that was made.
		made = append(slices.DeleteFunc(append(slices.Clone(made), began), func(id string) bool { return id == recorded }), recorded)
	}
	for _, id := range made {
		add(id)
	}
	return ids[max(0, len(ids)-maxEarlier):]
}

// earlier returns what a recovery has to record of a lineage beside the previous cluster. Where that is not the newest of them, it is
// recorded in its place too, so that the order is not lost.
func earlier(lineage []string, previous string) []string {
	if n := len(lineage); n > 0 && lineage[n-1] == previous {
		return slices.Clone(lineage[:n-1])
	}
	return slices.Clone(lineage)
}

// madeBy returns the IDs, in hex, that the cluster may have which a recovery makes: with the present peer URL of its first member last,
// and with that before or after the change to TLS between peers. It is pure.
func madeBy(shared member.Shared, r *v1alpha1.ClusterRecovery) ([]string, error) {
	if _, err := shared.Identify(r.Member); err != nil {
		return nil, fmt.Errorf("computing the ID of the cluster that the last recovery made: %w", err)
	}
	shared.Recovery = &member.Recovery{Task: string(r.TaskUID), Member: r.Member}
	made := shared.RecoveredIDs()
	slices.Reverse(made)
	return made, nil
}
