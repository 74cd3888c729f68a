// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import "github.com/etcd-foreman/etcd-foreman/internal/cluster"

type (
	// Snapshot is cluster.Snapshot.
	Snapshot = cluster.Snapshot
	// StatefulSet is cluster.StatefulSet.
	StatefulSet = cluster.StatefulSet
	// Ordinal is cluster.Ordinal.
	Ordinal = cluster.Ordinal
	// Pod is cluster.Pod.
	Pod = cluster.Pod
	// Node is cluster.Node.
	Node = cluster.Node
	// Cluster is cluster.Cluster.
	Cluster = cluster.Cluster
	// Voter is cluster.Voter.
	Voter = cluster.Voter
	// Refusal is cluster.Refusal.
	Refusal = cluster.Refusal
)
