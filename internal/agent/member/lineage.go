// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"strings"
)

// When the only member of a cluster is restored, it makes a cluster with another ID: the successor of the recorded one. So an old volume
// that turns up later is not taken for current data. The ID is derived from the recorded one, whatever token and peer URLs that came from:
// those of etcd-druid, of a recovery, or those from before TLS between peers. Members and operator compute it each on their own
// (docs/adr/0043-the-successor-of-a-cluster.md).

// RecoveredIDs returns the IDs, in hex, that the cluster of the recovery may have; none without a recovery.
func (s Shared) RecoveredIDs() []string {
	if s.Recovery == nil {
		return nil
	}
	return idsOf(s.Token(), s.Founders())
}

// RecoveredID returns the ID, in hex, of the cluster of the recovery: the first of the seen IDs that it may have, or else the one that it
// would get if it were made now. It is empty without a recovery.
func (s Shared) RecoveredID(seen ...string) string {
	ids := s.RecoveredIDs()
	for _, id := range slices.Concat(seen, ids) {
		if slices.Contains(ids, id) {
			return id
		}
	}
	return ""
}

// SuccessorIDs returns the IDs, in hex, that the recorded cluster may have after its only member, the first of the initial cluster,
// was restored; none if no cluster is recorded.
func (s Shared) SuccessorIDs() []string {
	if s.ClusterID == "" {
		return nil
	}
	first, _, _ := strings.Cut(s.InitialCluster(), ",")
	return idsOf(s.successorToken(), first)
}

// RestoreToken returns the token of the cluster that a restore makes: that of the recovery, or the successor of the recorded cluster.
func (s Shared) RestoreToken() string {
	if s.Recovery != nil || s.ClusterID == "" {
		return s.Token()
	}
	return s.successorToken()
}

func (s Shared) successorToken() string {
	return text(s.Bootstrap, "initial-cluster-token") + "-after-" + s.ClusterID
}

// Settled returns the configuration for a member that starts. For the only member of a cluster, a recovery is over once its new cluster is
// recorded: no other member has yet to join.
func (s Shared) Settled() Shared {
	if s.Recovery != nil && s.Alone() && s.ClusterID != "" && !s.Recovery.LeavesBehind(s.ClusterID) {
		s.Recovery = nil
	}
	return s
}

// idsOf returns the IDs that a cluster with the given token and founder may have: first that with its present peer URL, then that with the
// other scheme, since TLS between peers may have been switched in between.
func idsOf(token, founder string) []string {
	before, after := "=http://", "=https://"
	if strings.Contains(founder, after) {
		before, after = after, before
	}
	return []string{ClusterID(token, founder), ClusterID(token, strings.ReplaceAll(founder, before, after))}
}
