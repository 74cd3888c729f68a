// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// raised is by how much the revision is raised at least when a cluster goes back: docs/restore.md promises a billion above any that is known,
// and no run comes near it by writing.
const raised = 900_000_000

// era is what happened between two restores. Its revisions are above all of those before.
type era struct {
	from int64
	// parent is the era that it continues, up to a revision; -1 for none.
	parent int
	upTo   int64
}

// eras are all of a run, in order, with the restores between them.
type eras struct {
	all      []era
	restores []history.Restore
}

// erasOf finds where the revisions jump, which is as often as somebody has restored the cluster.
func erasOf(h *history.History) (eras, []Violation) {
	e := eras{all: []era{{parent: -1}}}
	revisions := revisionsOf(h)
	for i := 1; i < len(revisions); i++ {
		if revisions[i]-revisions[i-1] >= raised {
			e.all = append(e.all, era{from: revisions[i]})
		}
	}
	if jumps := len(e.all) - 1; jumps != len(h.Restores) {
		return eras{all: e.all[:1]}, []Violation{{Restored, 0, fmt.Sprintf("the cluster was restored %d times, and its revision was raised %d times", len(h.Restores), jumps)}}
	}
	e.restores = h.Restores
	undoable := []int{-1} // the eras before the restores that are not undone
	for i, r := range h.Restores {
		made := &e.all[i+1]
		if made.upTo = r.Target; r.Undoes {
			made.parent = undoable[len(undoable)-1]
			undoable = undoable[:max(1, len(undoable)-1)]
		} else {
			made.parent = e.of(r.Target)
			undoable = append(undoable, i)
		}
		if made.upTo == 0 {
			made.upTo = math.MaxInt64
		}
		if made.parent < 0 || made.parent > i {
			return eras{all: e.all[:1]}, []Violation{{Restored, r.From, fmt.Sprintf("there is nothing that %+v could go back to", r)}}
		}
	}
	return e, nil
}

// revisionsOf are all revisions that anybody was told of, in order.
func revisionsOf(h *history.History) []int64 {
	told := map[int64]bool{}
	for _, op := range h.Operations {
		told[op.Revision] = true
	}
	for _, w := range h.Watches {
		told[w.Progress], told[w.Compacted] = true, true
		for _, e := range w.Events {
			told[e.Revision] = true
		}
	}
	for _, s := range h.States {
		told[s.Revision] = true
	}
	delete(told, 0)
	return slices.Sorted(maps.Keys(told))
}

// of is the era of a revision.
func (e eras) of(revision int64) int {
	last := 0
	for i := range e.all {
		if revision >= e.all[i].from {
			last = i
		}
	}
	return last
}

// last is the era at the end.
func (e eras) last() int { return len(e.all) - 1 }

// upTo is the last revision of an era that is in the history that leads to another one; 0 for none.
func (e eras) upTo(in, leadsTo int) int64 {
	for i, upTo := leadsTo, int64(math.MaxInt64); i >= 0; i, upTo = e.all[i].parent, e.all[i].upTo {
		if i == in {
			return upTo
		}
	}
	return 0
}

// has reports whether a revision is in the history that leads to an era: all that was not gone back behind.
func (e eras) has(leadsTo int, revision int64) bool {
	return revision <= e.upTo(e.of(revision), leadsTo)
}

// line are the operations that are, or may be, in the history that leads to an era: as if what was gone back behind had never been. A write without
// an answer is not, if it was sent when somebody had been told of the last revision that counts.
func (e eras) line(leadsTo int, all []history.Operation) []history.Operation {
	passed := map[int]time.Duration{}
	for _, op := range all {
		if !op.Acknowledged() || op.Revision == 0 {
			continue
		}
		in := e.of(op.Revision)
		if first, is := passed[in]; op.Revision >= e.upTo(in, leadsTo) && (!is || op.Return < first) {
			passed[in] = op.Return
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(op history.Operation) bool {
		if op.Acknowledged() && op.Revision != 0 {
			return !e.has(leadsTo, op.Revision)
		}
		in, certain := e.sentIn(op)
		first, is := passed[in]
		return certain && (e.upTo(in, leadsTo) == 0 || is && op.Call > first)
	})
}

// sentIn is the era in which an operation without an answer was carried out, if at all, and whether that is certain: none was begun or ended
// in between.
func (e eras) sentIn(op history.Operation) (in int, certain bool) {
	for i, r := range e.restores {
		switch {
		case op.Call > r.To:
			in = i + 1
		case op.Return >= r.From:
			return 0, false
		}
	}
	return in, true
}

// states checks that a cluster has, after a restore, exactly what was acknowledged in the history that it has now.
func (e eras) states(h *history.History) []Violation {
	var found []Violation
	for _, s := range h.States {
		at := e.of(s.Revision)
		found = append(found, e.holds("the cluster, after a restore,", s.Pairs, h.Operations, at, s.Revision)...)
	}
	return found
}

// holds checks that pairs are what was acknowledged of unique keys in the history that leads to an era, up to a revision.
func (e eras) holds(who string, pairs map[string]string, all []history.Operation, leadsTo int, upTo int64) []Violation {
	var found []Violation
	for _, op := range all {
		if !op.Wrote() || !strings.HasPrefix(op.Key, UniquePrefix) || op.Revision > upTo {
			continue
		}
		got, there := pairs[op.Key]
		switch is := e.has(leadsTo, op.Revision); {
		case is && (!there || got != op.Value):
			found = append(found, Violation{Durable, op.Return, fmt.Sprintf("%s=%s was acknowledged to %s at revision %d, and %s has %q", op.Key, op.Value, op.Client, op.Revision, who, got)})
		case !is && there:
			found = append(found, Violation{OneHistory, op.Return, fmt.Sprintf("%s=%s was acknowledged to %s at revision %d, which was gone back behind, and %s has it", op.Key, got, op.Client, op.Revision, who)})
		}
	}
	return found
}

// oneHistory checks that nobody who watches is led from one history to another without being told that the first has ended.
func (e eras) oneHistory(all []history.Watch) []Violation {
	var found []Violation
	for _, w := range all {
		for _, r := range append(revisionsIn(w.Events), w.Progress) {
			if r != 0 && e.of(r) != e.of(w.From) {
				found = append(found, Violation{OneHistory, w.At, fmt.Sprintf("%s/%d was asked to begin at revision %d, and got revision %d, of the history after a restore", w.Watcher, w.Segment, w.From, r)})
				break
			}
		}
	}
	return found
}

func revisionsIn(events []history.Event) (all []int64) {
	for _, e := range events {
		all = append(all, e.Revision)
	}
	return all
}
