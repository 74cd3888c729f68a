// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package membership decides how the members of an etcd cluster change, one at a time: which member is added, promoted or
// removed next, and whether now. Clusters that grow and shrink, members that move to another volume, and clusters that
// migrate from one place to another are the same plan over the member list with different goals:
//
//	grow      the goal has more members than the list
//	shrink    the goal has fewer
//	move      some members are to have another volume: a further member joins, they leave and join again one after the
//	          other, and the further one leaves last
//	migrate   the list has members that are not of this StatefulSet (the sources), and the goal does not keep them
//
// The plan is not stored. Decide makes the next step from what is observed, so a plan that was interrupted continues, one whose
// goal has changed turns round, and an abort is a goal like any other. Whole plans, to be read, are in testdata.
//
// Guards judge each step: a table in guards.go, whose checks are in checks.go. The order of steps is in order.go.
//
// The package is pure: it has no client, context or clock, and imports the state of a cluster and the arithmetic of quorums
// alone.
package membership
