// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Target is the state that a restore goes back to. Exactly one of Latest, Revision, Time and Snapshot is set.
type Target struct {
	// Latest is the newest state in the store.
	Latest bool
	// Revision is exact. If two histories have it, that of Base counts, or else the newer one.
	Revision int64
	// Time: everything that was seen until then, by the clocks of the agents that led. The restored state ends before the first
	// revision that was seen later. The state of a full snapshot may have what was written within the second after its time.
	Time time.Time
	// Snapshot is the name of one; the state is the one at its end.
	Snapshot string
	// Base is the name of the full snapshot to begin with; empty for the newest one before the target.
	Base string
}

// Validate returns an error unless the target is one.
func (t Target) Validate() error {
	set := 0
	for _, is := range []bool{t.Latest, t.Revision != 0, !t.Time.IsZero(), t.Snapshot != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return errors.New("a target is either the latest state, or that at a revision, a time or a snapshot")
	case t.Revision < 0:
		return fmt.Errorf("there is no revision %d", t.Revision)
	}
	for _, name := range []string{t.Snapshot, t.Base} {
		if _, err := ParseName(name); name != "" && err != nil {
			return err
		}
	}
	return nil
}

// String describes the target.
func (t Target) String() string {
	switch {
	case t.Revision != 0:
		return fmt.Sprintf("revision %d", t.Revision)
	case !t.Time.IsZero():
		return t.Time.UTC().Format(time.RFC3339)
	case t.Snapshot != "":
		return "snapshot " + t.Snapshot
	}
	return "the latest state"
}

// Cut is where a restore ends within a delta: between two revisions. Its zero value is at the end of the chain.
type Cut struct {
	// Revision is the last one that is restored; 0 for any.
	Revision int64
	// Time: the first revision that was seen later is not restored, nor is any after it.
	Time time.Time
}

// Excludes reports whether an event, the first of its revision, is beyond the cut.
func (c Cut) Excludes(e Event) bool {
	return c.Revision > 0 && e.EtcdEvent.Kv.ModRevision > c.Revision || !c.Time.IsZero() && e.Time.After(c.Time)
}

// Choice is a chain that leads to a target, and where it is cut.
type Choice struct {
	Chain
	Cut Cut
}

// OutsideError reports a target that the snapshots do not lead to.
type OutsideError struct {
	Target Target
	// Before and After are the nearest states that can be restored; nil if there is none.
	Before, After *Point
	// Why is what is missing; nil if nothing is known of it.
	Why error
}

func (e *OutsideError) Error() string {
	text := fmt.Sprintf("%s cannot be restored", e.Target)
	if e.Why != nil {
		text += fmt.Sprintf(" (%v)", e.Why)
	}
	point := func(p *Point) string {
		return fmt.Sprintf("revision %d (%s)", p.Revision, p.Time.UTC().Format(time.RFC3339))
	}
	switch {
	case e.Before != nil && e.After != nil:
		text += fmt.Sprintf(": the nearest states that can be restored are %s before it, and %s after it", point(e.Before), point(e.After))
	case e.Before != nil:
		text += fmt.Sprintf(": the nearest state that can be restored is %s before it", point(e.Before))
	case e.After != nil:
		text += fmt.Sprintf(": the nearest state that can be restored is %s after it", point(e.After))
	}
	return text
}

// ErrNotLeading is returned if the full snapshot to begin with does not lead to the target.
var ErrNotLeading = errors.New("the full snapshot does not lead to")

// Choose returns the chains that lead to the target, the one with the newest full snapshot before it first. The others begin with older
// full snapshots of the same history: a person may choose one if a newer one is corrupt. It returns an *OutsideError for a target
// that the snapshots do not lead to.
func (t Target) Choose(list []Snapshot) ([]Choice, error) {
	choices, err := t.choose(list)
	if err != nil || t.Base == "" {
		return choices, err
	}
	i := slices.IndexFunc(choices, func(c Choice) bool { return c.Full.Name() == t.Base })
	if i < 0 {
		return nil, t.notLeading(list)
	}
	return choices[i : i+1], nil
}

// notLeading returns the error of a base that does not lead to the target: what is missing after it, if that is known.
func (t Target) notLeading(list []Snapshot) error {
	sorted := Sorted(list)
	i := slices.IndexFunc(sorted, func(s Snapshot) bool { return s.Name() == t.Base })
	if i < 0 || sorted[i].Kind != Full {
		return fmt.Errorf("%w %s: %s is not among the full snapshots", ErrNotLeading, t, t.Base)
	}
	if _, why := follow(sorted[i], sorted[i+1:]); why != nil {
		return fmt.Errorf("%w %s: %s: %w", ErrNotLeading, t, t.Base, why)
	}
	return fmt.Errorf("%w %s: %s", ErrNotLeading, t, t.Base)
}

func (t Target) choose(list []Snapshot) (choices []Choice, err error) {
	if t.Latest {
		chains, err := Chains(list)
		if err != nil {
			return nil, err
		}
		for _, chain := range chains {
			choices = append(choices, Choice{Chain: chain})
		}
		return choices, nil
	}
	all := spans(list, nil)
	if len(all) == 0 {
		return nil, ErrNoFull
	}
	history := -1
	for _, s := range slices.Backward(all) {
		if history >= 0 && s.history != history && t.Base == "" {
			// Of a base, its history counts.
			break
		}
		if found := t.choicesIn(s); len(found) > 0 {
			choices, history = append(choices, found...), s.history
		}
	}
	if len(choices) == 0 {
		return nil, t.outside(all)
	}
	return choices, nil
}

// choicesIn returns the chains of a span that lead to the target.
func (t Target) choicesIn(s span) (choices []Choice) {
	cut, until := Cut{Revision: t.Revision, Time: t.Time}, t.Time
	if t.Snapshot != "" {
		i := slices.IndexFunc(s.snapshots, func(s Snapshot) bool { return s.Name() == t.Snapshot })
		if i < 0 {
			return nil
		}
		cut, until = Cut{Revision: s.snapshots[i].LastRevision}, s.snapshots[i].Created
	}
	if cut.Revision > s.end.Revision || until.After(s.end.Time) {
		return nil
	}
	for _, base := range slices.Backward(s.bases) {
		switch {
		case cut.Revision > 0 && base.LastRevision > cut.Revision || !until.IsZero() && base.Created.After(until):
		case base.Name() == t.Snapshot:
			// All of it, whatever its last revision is.
			choices = append(choices, Choice{Chain: Chain{Full: &base, Deltas: []Snapshot{}}})
		default:
			choices = append(choices, Choice{Chain: s.leading(base, cut), Cut: cut})
		}
	}
	return choices
}

// leading returns the chain of a full snapshot with the deltas up to a revision. Where it is cut by a time, only the events say: the times of
// snapshots are ahead of a clock that was set back.
func (s span) leading(base Snapshot, cut Cut) Chain {
	i := slices.IndexFunc(s.snapshots, func(s Snapshot) bool { return s.Name() == base.Name() })
	chain, _ := follow(base, s.snapshots[i+1:])
	if cut.Revision == 0 {
		return chain
	}
	beyond := slices.IndexFunc(chain.Deltas, func(d Snapshot) bool { return d.StartRevision > cut.Revision })
	if beyond >= 0 {
		chain.Deltas = chain.Deltas[:beyond]
	}
	return chain
}

// outside returns the error for a target that no span has.
func (t Target) outside(all []span) *OutsideError {
	e := &OutsideError{Target: t}
	if t.Snapshot != "" {
		return e
	}
	target := Point{t.Revision, t.Time}
	order := func(a, b Point) int {
		if t.Revision != 0 {
			return cmp.Compare(a.Revision, b.Revision)
		}
		return a.Time.Compare(b.Time)
	}
	for _, s := range all {
		first := Point{s.bases[0].LastRevision, s.bases[0].Created}
		if order(s.end, target) < 0 && (e.Before == nil || order(s.end, *e.Before) > 0) {
			e.Before, e.Why = &s.end, s.broken
		}
		if order(first, target) > 0 && (e.After == nil || order(first, *e.After) < 0) {
			e.After = &first
		}
	}
	if gap, ok := errors.AsType[*GapError](e.Why); ok && e.After != nil && gap.Next > e.After.Revision {
		e.Why = nil // what follows the gap continues another full snapshot
	}
	return e
}
