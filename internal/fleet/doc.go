// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package fleet decides in how many clusters, in which order and when tasks start, by the EtcdFleetPolicies of an administrator: one
// bad template reaches one cluster. It judges the start of a task alone; guards of the rollout judge its steps.
//
// A slot is a Holder in the Ledger. Decide says whether a task that waits may take one, and if not, why, by a table of rules. The
// Ledger says what has become of each change: which clusters have it, which have failed, and whether it is paused.
//
// The package is pure: it has no client, context or clock. Beneath it, store keeps the Ledger in a ConfigMap, and control asks,
// grants and releases.
package fleet
