// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package fleet decides, by the EtcdFleetPolicies of an administrator, which tasks start, in what order and when, so that a bad template
// reaches only one cluster. It only decides whether a task starts; the guards of the rollout decide about its steps.
//
// A slot is a Holder in the Ledger. Decide says by a table of rules whether a waiting task may take one, and if not, why. The Ledger
// records the outcome of each change: which clusters have it, in which it failed, and whether it is paused.
//
// The package is pure: it has no client, context or clock. Beneath it, store keeps the Ledger in a ConfigMap, and control grants and
// releases slots.
package fleet
