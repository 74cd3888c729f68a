// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Point is a state that can be restored.
type Point struct {
	// Revision of the state.
	Revision int64 `json:"revision"`
	// Time until which the store is known to have it, by the clock of the agent that took the snapshot.
	Time time.Time `json:"time"`
}

// Interval is a stretch of states that can be restored.
type Interval struct {
	From Point `json:"from"`
	To   Point `json:"to"`
	// Fine: deltas lead from From to To, so each revision and each second between them is a target. Otherwise the interval is that of
	// one full snapshot.
	Fine bool `json:"fine"`
}

// Restorable returns the states that can be restored from the snapshots of a store, in the order of their times. Revisions of two
// intervals overlap if an older state was restored without raising the revision. Those that are locked lead nowhere; none if it is nil.
func Restorable(list []Snapshot, locked func(Snapshot) bool) []Interval {
	var all []Interval
	history := -1
	for _, s := range spans(list, locked) {
		from := Point{s.bases[0].LastRevision, s.bases[0].Created}
		if last := len(all) - 1; s.history == history && from.Revision <= all[last].To.Revision && !from.Time.After(all[last].To.Time) {
			all[last].To, all[last].Fine = s.end, true
			continue
		}
		all, history = append(all, Interval{From: from, To: s.end, Fine: from != s.end}), s.history
	}
	return all
}

// span is a stretch of states without a gap, of one history.
type span struct {
	history int
	// snapshots of the history, in the order in which they were taken.
	snapshots []Snapshot
	// bases are the full snapshots that lead to the end; the first one begins the span.
	bases []Snapshot
	end   Point
	// broken is why the deltas lead no further; nil if there are no later ones.
	broken error
}

// spans returns the spans of a store without those snapshots that are locked, in the order of their times. These still divide histories.
func spans(list []Snapshot, locked func(Snapshot) bool) []span {
	var all []span
	for number, history := range histories(Sorted(list)) {
		if locked != nil {
			history = slices.DeleteFunc(slices.Clone(history), locked)
		}
		for i, s := range history {
			if s.Kind != Full {
				continue
			}
			last := len(all) - 1
			within := last >= 0 && all[last].history == number && all[last].has(s)
			if within && all[last].broken == nil {
				all[last].bases = append(all[last].bases, s)
				continue
			}
			chain, err := follow(s, history[i+1:])
			if within && chain.LastRevision() <= all[last].end.Revision {
				all[last].bases = append(all[last].bases, s)
				continue
			}
			all = append(all, span{
				history: number, snapshots: history, bases: []Snapshot{s}, broken: err,
				end: Point{chain.LastRevision(), covered(history[i:], chain.LastRevision())},
			})
		}
	}
	return all
}

func (s span) has(full Snapshot) bool {
	return full.LastRevision <= s.end.Revision && !full.Created.After(s.end.Time)
}

// covered returns until when snapshots have everything up to a revision: until the last one before another leads beyond it.
func covered(snapshots []Snapshot, revision int64) (until time.Time) {
	for _, s := range snapshots {
		if s.LastRevision > revision {
			break
		}
		until = s.Created
	}
	return until
}

// histories divides the snapshots of a store where another history begins: at a full snapshot that ends before a revision that
// earlier ones have, or that is signed as one of another history. Deltas before the first full snapshot lead nowhere.
func histories(sorted []Snapshot) (all [][]Snapshot) {
	reached, begin := int64(0), -1
	for i, s := range sorted {
		switch {
		case s.Kind == Full && begin < 0:
			begin = i
		case s.Kind == Full && (s.LastRevision < reached || s.history() != sorted[begin].history()):
			all = append(all, slices.Clip(sorted[begin:i]))
			reached, begin = 0, i
		}
		if begin >= 0 && s.history() == sorted[begin].history() {
			reached = max(reached, s.LastRevision)
		}
	}
	if begin >= 0 {
		all = append(all, sorted[begin:])
	}
	return all
}

// ReadIntervals returns the intervals that a text in JSON lists, as far as they can be read: it may be cut off.
func ReadIntervals(text string) (all []Interval) {
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		var i Interval
		if d.Decode(&i) != nil {
			return all
		}
		all = append(all, i)
	}
	return all
}
