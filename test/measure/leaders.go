// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Sighting is what one member reported of its cluster; if it did not answer, Member, Leader and Term are 0. Only changes
// since the pod's last sighting are kept.
type Sighting struct {
	At  time.Time
	Pod string
	UID types.UID
	// Member is the ID of the member that was asked, Leader that of the leader it knows, 0 for none.
	Member, Leader uint64
	// Term is the raft term.
	Term uint64
}

// sightings collects Sightings.
type sightings struct {
	mutex sync.Mutex
	last  map[types.UID]Sighting
	all   []Sighting
}

func (s *sightings) add(seen Sighting) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	last, known := s.last[seen.UID]
	last.At = seen.At
	if known && last == seen {
		return
	}
	if s.last == nil {
		s.last = map[types.UID]Sighting{}
	}
	s.last[seen.UID] = seen
	s.all = append(s.all, seen)
}

func (s *sightings) list() []Sighting {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := slices.Clone(s.all)
	slices.SortStableFunc(all, func(a, b Sighting) int { return a.At.Compare(b.At) })
	return all
}

// Reigns returns the leaders that the members knew, in order. A reign ends when a member knows a leader in a newer term, or
// when no member knows one; the last lasts until the end.
func Reigns(all []Sighting, end time.Time) []Reign {
	pods := map[uint64]string{}
	for _, s := range all {
		pods[s.Member] = s.Pod
	}
	var reigns []Reign
	reigning := false
	latest := map[types.UID]Sighting{}
	for _, s := range all {
		latest[s.UID] = s
		term, leader := newest(latest)
		last := len(reigns) - 1
		if reigning && reigns[last].Term == term {
			continue
		}
		if reigning {
			reigns[last].To = s.At
		}
		if reigning = leader != 0; reigning {
			reigns = append(reigns, Reign{Pod: pods[leader], Term: term, From: s.At, To: end})
		}
	}
	return reigns
}

// newest returns the leader in the newest term with a known leader; 0 if there is none.
func newest(latest map[types.UID]Sighting) (term, leader uint64) {
	for _, s := range latest {
		if s.Leader != 0 && s.Term > term {
			term, leader = s.Term, s.Leader
		}
	}
	return term, leader
}

// leaderChanges returns the number of terms in which a member began to lead after from and not after until. A re-elected
// leader counts: there was none in between.
func leaderChanges(reigns []Reign, from, until time.Time) int {
	n := 0
	var term uint64
	for _, r := range reigns {
		if r.Term > term && term != 0 && r.From.After(from) && !r.From.After(until) {
			n++
		}
		term = max(term, r.Term)
	}
	return n
}
