// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Default is the name of the Policy that limits automatic rollouts where no EtcdFleetPolicy does. It is no name of an object.
const Default = "(default)"

// Policy is an EtcdFleetPolicy as it is decided by, or the Default.
type Policy struct {
	Name       string
	UID        types.UID
	Generation int64
	// Invalid says what is wrong with its spec; such a policy grants nothing. Empty if it is valid.
	Invalid string
	// UnknownWindows says what is wrong with its windows or exceptions.
	UnknownWindows string
	// Paused: nothing starts.
	Paused bool
	// MaxConcurrent is a number of clusters, or a percentage of those that the policy selects. 0 pauses.
	MaxConcurrent int
	Percent       bool
	// AtLeast is the minimum of a percentage; 0 stands for 1.
	AtLeast int
	// PerNamespace is how many slots one namespace may have: a number, or a percentage of all slots; 0: all of them.
	PerNamespace        int
	PerNamespacePercent bool
	// MaxFailures is how many clusters a change may fail in without being paused.
	MaxFailures int
	// Soak is how long a cluster is watched after its task has succeeded.
	Soak    time.Duration
	Canary  Canary
	Windows []Window
	Except  []Window
	// PauseAtEnd: tasks that run when the last window closes pause between two steps.
	PauseAtEnd bool
	// Clusters is how many Etcds it selects.
	Clusters int
}

// Canary configures the clusters that a change begins with.
type Canary struct {
	// Count is how many clusters get a change before all others; 0: there are no canaries.
	Count int
	// Soak is how long each is watched. It keeps its slot for that time.
	Soak time.Duration
	// Chosen are the Etcds whose labels select them as canaries; empty: any.
	Chosen map[types.UID]bool
}

// Limit returns how many slots the policy has.
func (p *Policy) Limit() int {
	switch {
	case p.MaxConcurrent <= 0:
		return 0
	case p.Percent:
		return max(1, p.AtLeast, p.Clusters*p.MaxConcurrent/100)
	}
	return p.MaxConcurrent
}

// Share returns how many slots one namespace may have.
func (p *Policy) Share() int {
	limit := p.Limit()
	switch {
	case p.PerNamespace <= 0:
		return limit
	case p.PerNamespacePercent:
		return (limit*p.PerNamespace + 99) / 100
	}
	return min(limit, p.PerNamespace)
}

// Title names the policy in a message.
func (p *Policy) Title() string {
	if p.Name == Default {
		return "the default for automatic rollouts without an EtcdFleetPolicy"
	}
	return "EtcdFleetPolicy " + p.Name
}

// Opens reports whether tasks may start at a time. If so, closes is until when, zero if it never closes; if not, next is when they may
// start again, zero if that is unknown.
func (p *Policy) Opens(now time.Time) (open bool, closes, next time.Time) {
	if open, closes, next = p.at(now); open {
		for again, tries := true, 0; again && !closes.IsZero() && tries < maxJoined; tries++ {
			// Another window may be open when one closes.
			var later time.Time
			if again, later, _ = p.at(closes); again {
				closes = later
			}
		}
		return true, closes, time.Time{}
	}
	// A window may begin within an exception, and an exception end while no window is open.
	for tries := 0; !next.IsZero() && tries < maxTries; tries++ {
		opens, _, after := p.at(next)
		if opens {
			return false, time.Time{}, next
		}
		next = after
	}
	return false, time.Time{}, time.Time{}
}

// maxJoined bounds how many windows that adjoin count as one.
const maxJoined = 10

// maxTries bounds how many windows within exceptions are passed over.
const maxTries = 100

// at reports whether tasks may start at a time, and until when; or if not, when that may change.
func (p *Policy) at(now time.Time) (open bool, closes, next time.Time) {
	for _, w := range p.Except {
		if end, _ := w.At(now); !end.IsZero() {
			next = later(next, end)
		}
	}
	if !next.IsZero() {
		return false, time.Time{}, next
	}
	for _, w := range p.Windows {
		end, begin := w.At(now)
		closes = later(closes, end)
		if !begin.IsZero() && (next.IsZero() || begin.Before(next)) {
			next = begin
		}
	}
	if len(p.Windows) > 0 && closes.IsZero() {
		return false, time.Time{}, next
	}
	for _, w := range p.Except {
		if _, begin := w.At(now); !begin.IsZero() && (closes.IsZero() || begin.Before(closes)) {
			closes = begin
		}
	}
	return true, closes, time.Time{}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
