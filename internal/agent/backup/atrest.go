// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import "time"

// AtRest is what a full snapshot has: the result of the agent's command snapshot-prefixes, as JSON.
type AtRest struct {
	// Snapshot is its name, Created when it was taken, and Database the size of its file in bytes, with free pages.
	Snapshot string    `json:"snapshot,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Database int64     `json:"database,omitempty"`
	// Sizes of all keys, and by prefix, the largest first. What too few keys share is under one name at the end.
	Sizes
	Prefixes []PrefixSizes `json:"prefixes,omitempty"`
}

// Sizes is how much there is of some keys.
type Sizes struct {
	// Keys that are present, their Bytes with those of their values, and the Largest of them.
	Keys    int64 `json:"keys,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	Largest int64 `json:"largest,omitempty"`
	// Revisions are the values that are stored, present and earlier ones, Deletions the keys that were deleted and are not compacted, and
	// Stored is the bytes of all of these.
	Revisions int64 `json:"revisions,omitempty"`
	Deletions int64 `json:"deletions,omitempty"`
	Stored    int64 `json:"stored,omitempty"`
}

// PrefixSizes is how much there is below a prefix of keys, such as "/registry/pods/…".
type PrefixSizes struct {
	Prefix string `json:"prefix"`
	Sizes
}

// Add adds other keys.
func (s *Sizes) Add(o Sizes) {
	s.Keys, s.Bytes, s.Largest = s.Keys+o.Keys, s.Bytes+o.Bytes, max(s.Largest, o.Largest)
	s.Revisions, s.Deletions, s.Stored = s.Revisions+o.Revisions, s.Deletions+o.Deletions, s.Stored+o.Stored
}
