// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import "github.com/etcd-foreman/etcd-foreman/internal/cluster"

// The value types of a Snapshot.
type (
	Snapshot    = cluster.Snapshot
	StatefulSet = cluster.StatefulSet
	Ordinal     = cluster.Ordinal
	Pod         = cluster.Pod
	Node        = cluster.Node
	Cluster     = cluster.Cluster
	Voter       = cluster.Voter
	Refusal     = cluster.Refusal
)
