// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Seen remembers when this agent first knew that its member has a revision, whether it leads or not. What is collected late has that time: what is
// written during an upload, while the store is out of reach, or before another leader took its next snapshot. Its zero value remembers nothing. It is
// safe for concurrent use.
type Seen struct {
	mu sync.Mutex
	// marks ascend by revision.
	marks []mark
}

// mark is a revision, and the time at which the member was known to have it, in Unix nanoseconds.
type mark struct{ revision, at int64 }

// maxMarks takes half a megabyte. If something is written all the time, and noted once a second, it is reached after nine hours.
const maxMarks = 1 << 15

// Note notes the revision that the member has at a time. A lower one than before means that what followed it is gone: etcd is still
// replaying its log, or has other data.
func (s *Seen) Note(revision int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.marks); n > 0 && s.marks[n-1].revision == revision {
		return
	}
	s.marks = append(s.marks[:s.first(revision)], mark{revision, at.UnixNano()})
	if len(s.marks) < maxMarks {
		return
	}
	// Every second one is enough for what is long past. Those in between count as seen later, and never earlier.
	kept := s.marks[:0]
	for i := 1; i < len(s.marks); i += 2 {
		kept = append(kept, s.marks[i])
	}
	s.marks = kept
}

// At returns when a revision, which is delivered now, was first seen.
func (s *Seen) At(revision int64, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.first(revision); i < len(s.marks) {
		return time.Unix(0, s.marks[i].at).UTC()
	}
	return now
}

// first returns the index of the first mark that has a revision, or how many there are. The caller holds the lock.
func (s *Seen) first(revision int64) int {
	i, _ := slices.BinarySearchFunc(s.marks, revision, func(m mark, revision int64) int { return cmp.Compare(m.revision, revision) })
	return i
}
