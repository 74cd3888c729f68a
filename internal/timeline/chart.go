// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package timeline draws rollouts: a panel for each, stacked on the same time scale, with a lane for every member and one
// for the writes, if they are known. The picture is a self-contained SVG for light and dark pages, a page with it, or lines of characters
// for a terminal. What is drawn was measured (test/measure), or is read from the status of a task. It imports only the standard
// library and the API.
package timeline

import "time"

// Chart is a picture to be drawn.
type Chart struct {
	Title, Subtitle string
	// Axis says what the seconds count from.
	Axis string
	Runs []Run
}

// Run is one rollout.
type Run struct {
	Name string
	// Summary is what the rollout cost, in a few words. Good chooses its color.
	Summary string
	Good    bool
	// From is the zero of the axis. Until is the end of the rollout.
	From, Until time.Time
	// Members are the lanes from top to bottom: names of pods.
	Members []string
	Pods    Life
	// Revision that the rollout leads to.
	Revision string
	// Frozen is the member that hangs since FrozenAt; it may be empty.
	Frozen   string
	FrozenAt time.Time
	Reigns   []Reign
	// Gaps are times without writes. WritesUnknown: nothing wrote.
	Gaps          []Gap
	WritesUnknown bool
	Steps         []Step
	// clusters are the lanes of a change: each of Members is an Etcd, not a pod.
	clusters map[string][]stretch
}

// Step is an action on a pod.
type Step struct {
	At  time.Time
	Pod string
	// Text is the action and its reason.
	Text string
}
