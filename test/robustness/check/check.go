// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package check decides whether a history is one that etcd may have: operations are linearizable, watches are ordered and
// complete, leases last as long as they were granted for, and nothing that was acknowledged is lost. It knows nothing of
// Kubernetes or of the operator.
package check

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// Rule is what a history must satisfy.
type Rule string

// The rules.
const (
	Linearizable Rule = "linearizable" // each key behaves as one register
	RealTime     Rule = "real time"    // revisions follow the order in which operations happened
	Ordered      Rule = "watch: ordered"
	Unique       Rule = "watch: unique"
	Complete     Rule = "watch: complete"  // no event is missing between the first and the last
	Resumable    Rule = "watch: resumable" // a segment begins where it was asked to
	Agreeing     Rule = "watch: agreeing"  // all watchers see the same, and what was acknowledged
	LeaseKept    Rule = "lease kept"
	Durable      Rule = "durable"
	SameHash     Rule = "same hash"
	Written      Rule = "written"     // what is seen was written by a client, and what goes had a lease
	Restored     Rule = "restored"    // the revision is raised by each restore, and by nothing else
	OneHistory   Rule = "one history" // nothing remains of what was gone back behind, and who watches is told
	// Undecided is no violation: nobody can say whether there is one.
	Undecided Rule = "undecided"
)

// Violation is a way in which a history is illegal.
type Violation struct {
	Rule    Rule          `json:"rule"`
	At      time.Duration `json:"at"`
	Message string        `json:"message"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %s: %s", v.Rule, v.At.Round(time.Millisecond), v.Message)
}

// maxOfRule bounds what is reported of each rule: one lost member can break a rule a hundred thousand times.
const maxOfRule = 20

// History returns the violations of all rules, for a cluster of so many members. Each search for a linearization takes at most
// patience.
func History(h *history.History, members int, patience time.Duration) []Violation {
	var all []Violation
	end := finalsOf(h)
	times, unexplained := erasOf(h)
	for _, found := range [][]Violation{
		unexplained,
		times.linearizability(h.Operations, end.reads(h.Operations), patience),
		realTime(h.Operations),
		watches(h),
		times.oneHistory(h.Watches),
		times.states(h),
		leases(h),
		written(h),
		end.durability(h.Operations, times, members),
		hashes(h.Hashes, members),
	} {
		all = append(all, found...)
	}
	return bounded(all)
}

// Split returns the violations that make a history illegal, and undecided those of which nobody can say.
func Split(all []Violation) (illegal, undecided []Violation) {
	for _, v := range all {
		if v.Rule == Undecided {
			undecided = append(undecided, v)
		} else {
			illegal = append(illegal, v)
		}
	}
	return illegal, undecided
}

func bounded(all []Violation) []Violation {
	var kept []Violation
	counts := map[Rule]int{}
	for _, v := range all {
		if counts[v.Rule]++; counts[v.Rule] <= maxOfRule {
			kept = append(kept, v)
		}
	}
	return kept
}
