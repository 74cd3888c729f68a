// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// segment is one watch, from its request to its end.
type segment struct {
	name   string
	from   int64
	events []history.Event
	at     []time.Duration // of each event
	// reached is the revision up to which the watch has delivered everything.
	reached int64
}

// watches checks what etcd guarantees of watches, and that they agree with each other and with what was acknowledged.
func watches(h *history.History) []Violation {
	segments, found := segmented(h.Watches)
	truth, disagreements := agreed(segments)
	found = append(found, disagreements...)
	found = append(found, acknowledgedEvents(h.Operations, segments, truth)...)
	revisions := slices.Sorted(maps.Keys(truth))
	for _, s := range segments {
		found = append(found, s.complete(revisions, truth)...)
	}
	return found
}

// segmented groups the answers by watch, and checks the order within each.
func segmented(all []history.Watch) ([]*segment, []Violation) {
	var found []Violation
	byName := map[string]*segment{}
	var segments []*segment
	for _, w := range all {
		name := fmt.Sprintf("%s/%d", w.Watcher, w.Segment)
		s := byName[name]
		if s == nil {
			s = &segment{name: name, from: w.From, reached: w.From - 1}
			byName[name] = s
			segments = append(segments, s)
		}
		for _, e := range w.Events {
			found = append(found, s.add(e, w.At)...)
		}
		if w.Progress > 0 {
			s.reached = max(s.reached, w.Progress)
		}
	}
	return segments, found
}

func (s *segment) add(e history.Event, at time.Duration) []Violation {
	var found []Violation
	switch {
	case e.Revision < s.from:
		found = append(found, Violation{Resumable, at, fmt.Sprintf("%s was asked to begin at revision %d, and got revision %d", s.name, s.from, e.Revision)})
	case e.Revision > s.reached:
	case slices.Contains(s.events, e):
		found = append(found, Violation{Unique, at, fmt.Sprintf("%s got revision %d of %s twice", s.name, e.Revision, e.Key)})
	default:
		found = append(found, Violation{Ordered, at, fmt.Sprintf("%s got revision %d after it had everything up to %d", s.name, e.Revision, s.reached)})
	}
	s.events, s.at = append(s.events, e), append(s.at, at)
	s.reached = max(s.reached, e.Revision)
	return found
}

// agreed returns the event of each revision. The clients write one key in each transaction, and every leased key has a
// lease of its own, so there is one.
func agreed(segments []*segment) (map[int64]history.Event, []Violation) {
	var found []Violation
	truth, source := map[int64]history.Event{}, map[int64]string{}
	for _, s := range segments {
		for i, e := range s.events {
			if other, known := truth[e.Revision]; known && other != e {
				found = append(found, Violation{Agreeing, s.at[i], fmt.Sprintf("revision %d is %+v for %s and %+v for %s", e.Revision, other, source[e.Revision], e, s.name)})
				continue
			}
			truth[e.Revision], source[e.Revision] = e, s.name
		}
	}
	return truth, found
}

// acknowledgedEvents checks what watchers saw against the writes that were acknowledged, and adds the writes that no
// watcher saw to the truth, so that complete misses them.
func acknowledgedEvents(ops []history.Operation, segments []*segment, truth map[int64]history.Event) []Violation {
	var found []Violation
	if len(segments) == 0 {
		return nil
	}
	for _, op := range ops {
		if !op.Wrote() || op.Revision == 0 {
			continue
		}
		e, seen := truth[op.Revision]
		want := history.Event{Revision: op.Revision, Key: op.Key, Value: op.Value}
		if seen && e != want {
			found = append(found, Violation{Agreeing, op.Call, fmt.Sprintf("the write of %s=%s by %s was acknowledged at revision %d, and watchers got %+v", op.Key, op.Value, op.Client, op.Revision, e)})
		}
		if !seen {
			truth[op.Revision] = want
		}
	}
	return found
}

// complete checks that a watch delivered every event between its beginning and what it has reached.
func (s *segment) complete(revisions []int64, truth map[int64]history.Event) []Violation {
	got := map[int64]bool{}
	for _, e := range s.events {
		got[e.Revision] = true
	}
	var found []Violation
	first, _ := slices.BinarySearch(revisions, s.from)
	for _, r := range revisions[first:] {
		if r > s.reached {
			break
		}
		if !got[r] {
			at := time.Duration(0)
			if len(s.at) > 0 {
				at = s.at[len(s.at)-1]
			}
			found = append(found, Violation{Complete, at, fmt.Sprintf("%s was asked for everything from revision %d on, reached %d, and never got %+v", s.name, s.from, s.reached, truth[r])})
		}
	}
	return found
}
