// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package diagnose decides why an etcd is slow: one cause first, with its evidence as figures against a threshold, what the figures
// rule out, and what to do. What could not be measured is never blamed, and is named.
//
// Judge works on an Input: two samples of each member some seconds apart, timed reads in between, and what Kubernetes says about the
// pods. The rules are a table in rules.go. The order of rows is the order in which causes explain each other: a throttled process
// measures long fsyncs, too, so the CPU comes before the disk. Thresholds and their sources are in thresholds.go and docs/diagnose.md.
//
// The package is pure: it has no client, context or clock. Recorded inputs with their verdicts are in testdata.
package diagnose
