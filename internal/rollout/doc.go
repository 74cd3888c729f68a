// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which pod of an etcd StatefulSet is replaced next, and whether it may go now (DEP-07). It is
// pure: the same input and the same time make the same decision. It imports no client, no context and no clock.
//
// A decision is made in three steps:
//
//  1. Order. The outdated pods are put in order: the one that contributes least goes first, the leader last (order.go).
//  2. Candidate. The first of them makes the candidate step: delete its pod, evict it, or move leadership away from it
//     first (step.go).
//  3. Guards. Each guard is asked about the state and the step (guards.go). A guard is a condition that must be true. Those
//     that are not block the step: their names and messages are in the status of the task, the first as heldBy.
//
// Decide returns what to do. Record returns the status to write before it is done: a removal is recorded as an intent, and an intent that
// may still be carried out is repeated or revoked before anything else happens (ADR 1). Package plan repeats both on a state in which
// everything goes well, which results in the plan that the plugin prints. Package inplace decides how a pod follows its template without
// being replaced.
//
// A snapshot does not say how long a condition has lasted. Timers measure that from one observation to the next, and any gap resets them
// (ADR 3).
//
// The scenarios in testdata show whole rollouts, line by line: the state, the faults, and each decision with its reason.
package rollout
