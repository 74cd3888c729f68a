// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNoFull is returned if a store has no full snapshot, and so nothing to restore.
var ErrNoFull = errors.New("there is no full snapshot")

// GapError reports revisions that are missing between two snapshots. What follows the gap cannot be restored.
type GapError struct {
	// After is the last revision before the gap, Next the first one after it.
	After, Next int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("revisions %d to %d are missing: a delta snapshot was lost", e.After+1, e.Next-1)
}

// LostError reports a signed delta whose predecessor is missing or was replaced.
type LostError struct {
	// Name of the delta, and of its predecessor.
	Name, Predecessor string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("delta snapshot %s was taken after %s, which is missing from the store or was replaced", e.Name, e.Predecessor)
}

// Chain is a full snapshot and the deltas that follow it, in order. Deltas may overlap, because two members may each have
// considered itself the leader. Events at revisions that are already applied are skipped.
type Chain struct {
	Full   *Snapshot  `json:"fullSnapshot"`
	Deltas []Snapshot `json:"deltaSnapshots"`
}

// LastRevision that the chain leads to.
func (c Chain) LastRevision() int64 { return c.Last().LastRevision }

// Last returns the newest snapshot of the chain; the zero value for an empty one.
func (c Chain) Last() Snapshot {
	if n := len(c.Deltas); n > 0 {
		return c.Deltas[n-1]
	}
	if c.Full == nil {
		return Snapshot{}
	}
	return *c.Full
}

// Newest returns the chain of the newest full snapshot. Newer means taken later, whatever the revision: after a restore of an
// older state, revisions continue from there, and higher ones belong to another history. It returns ErrNoFull for a store
// without a full snapshot, and for a store that lacks a delta the chain up to the gap together with a *GapError.
func Newest(list []Snapshot) (Chain, error) {
	chains, err := Chains(list)
	if len(chains) == 0 {
		return Chain{Deltas: []Snapshot{}}, err
	}
	return chains[0], err
}

// Chains returns the chains that lead to the newest state, the one from the newest full snapshot first. The others start at
// an older full snapshot and reach the same revision by deltas: they are used if a newer full snapshot is corrupt. There
// are maxChains at most.
func Chains(list []Snapshot) ([]Chain, error) {
	sorted := Sorted(list)
	var chains []Chain
	var gap error
	for i := len(sorted) - 1; i >= 0 && len(chains) < maxChains; i-- {
		if sorted[i].Kind != Full {
			continue
		}
		chain, err := follow(sorted[i], sorted[i+1:])
		switch {
		case len(chains) == 0:
			chains, gap = append(chains, chain), err
		case err != nil || chain.LastRevision() != chains[0].LastRevision() || chain.Full.history() != chains[0].Full.history():
			return chains, gap // older chains lack revisions, or belong to another history
		default:
			chains = append(chains, chain)
		}
	}
	if len(chains) == 0 {
		return nil, ErrNoFull
	}
	return chains, gap
}

// maxChains bounds the chains that are tried, so that finding them takes time in proportion to the number of snapshots.
const maxChains = 16

// errOtherHistory is returned if revisions restart after a full snapshot.
var errOtherHistory = errors.New("the history before a later full snapshot is another one")

// follow returns the chain of a full snapshot and the deltas among what was taken later.
func follow(full Snapshot, later []Snapshot) (Chain, error) {
	chain := Chain{Full: &full, Deltas: []Snapshot{}}
	reached := full.LastRevision
	for _, s := range later {
		if s.Kind == Full && s.LastRevision < reached {
			return chain, errOtherHistory
		}
		reached = max(reached, s.LastRevision)
	}
	// Sorted by first revision, then by time. Deltas of another history do not follow this snapshot.
	deltas := slices.DeleteFunc(slices.Clone(later), func(s Snapshot) bool { return s.Kind == Full || s.history() != full.history() })
	slices.SortStableFunc(deltas, func(a, b Snapshot) int { return cmp.Compare(a.StartRevision, b.StartRevision) })
	var best *Snapshot
	for i := 0; ; {
		at := chain.LastRevision()
		for ; i < len(deltas) && deltas[i].StartRevision <= at+1; i++ {
			if best == nil || deltas[i].LastRevision > best.LastRevision || deltas[i].LastRevision == best.LastRevision && deltas[i].Created.Before(best.Created) {
				best = &deltas[i]
			}
		}
		switch {
		case best != nil && best.LastRevision > at:
			if !continues(*best, full, deltas) {
				return chain, &LostError{Name: best.Name(), Predecessor: best.Proof.Predecessor.Name}
			}
			chain.Deltas = append(chain.Deltas, *best)
		case i < len(deltas):
			return chain, &GapError{After: at, Next: deltas[i].StartRevision}
		default:
			return chain, nil
		}
	}
}

// continues reports whether the predecessor of a delta is known: the deltas have it, or the full snapshot contains it. Retention
// removes full snapshots from between deltas, so one of them need not be there.
func continues(delta, full Snapshot, deltas []Snapshot) bool {
	if delta.Proof == nil {
		return true
	}
	before := delta.Proof.Predecessor
	p, err := ParseName(before.Name)
	if err != nil {
		return false
	}
	return p.Kind == Full || p.LastRevision <= full.LastRevision ||
		slices.ContainsFunc(deltas, func(s Snapshot) bool { return s.Reference() == before })
}

// Sorted returns the snapshots in the order in which they were taken.
func Sorted(list []Snapshot) []Snapshot { return slices.SortedFunc(slices.Values(list), compare) }
