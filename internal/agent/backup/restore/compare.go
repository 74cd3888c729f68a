// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
)

// seed of the hashes of keys and values.
var seed = maphash.MakeSeed()

// keySpace is the present keys of a database, by their hashes: keys and values are tenants' data, and may not fit into memory.
type keySpace struct {
	keys map[uint64]keyState
	// prefixes of the keys, each once, and what is stored below them.
	prefixes []string
	stored   []stored
	at       map[string]int32
}

type keyState struct {
	value uint64
	// size in bytes, with the key.
	prefix, size int32
}

// stored is what a database has below a prefix, with earlier revisions.
type stored struct {
	revisions, deletions, bytes int64
	// keys are hashes of different keys, up to enough of them, whether they are present or deleted.
	keys []uint64
}

func newKeySpace() *keySpace {
	return &keySpace{keys: map[uint64]keyState{}, at: map[string]int32{}}
}

func (s *keySpace) put(key, value []byte) {
	prefix, hash, size := s.prefix(key), maphash.Bytes(seed, key), len(key)+len(value)
	s.stored[prefix].add(hash, size)
	s.stored[prefix].revisions++
	s.keys[hash] = keyState{maphash.Bytes(seed, value), prefix, int32(min(size, math.MaxInt32))}
}

func (s *keySpace) remove(key []byte) {
	prefix, hash := s.prefix(key), maphash.Bytes(seed, key)
	s.stored[prefix].add(hash, len(key))
	s.stored[prefix].deletions++
	delete(s.keys, hash)
}

// add adds a change of a key that has so many bytes.
func (w *stored) add(key uint64, size int) {
	w.bytes += int64(size)
	if len(w.keys) < hotprefix.EnoughKeys && !slices.Contains(w.keys, key) {
		w.keys = append(w.keys, key)
	}
}

// prefix returns where the prefix of a key is.
func (s *keySpace) prefix(key []byte) int32 {
	prefix := hotprefix.PrefixOf(key)
	at, known := s.at[string(prefix)]
	if !known {
		at = int32(len(s.prefixes))
		s.at[string(prefix)], s.prefixes, s.stored = at, append(s.prefixes, string(prefix)), append(s.stored, stored{})
	}
	return at
}

// maxPrefixes is how many prefixes a comparison has.
const maxPrefixes = 20

// changesFrom returns what changes if a state takes the place of another: in total, and by prefix, where most changes first. A prefix
// is shown only if enough keys share it, as elsewhere.
func (s *keySpace) changesFrom(now *keySpace) (total backup.Changes, prefixes []backup.PrefixChanges) {
	type count struct {
		backup.Changes
		keys int
	}
	by := map[string]*count{}
	of := func(prefix string) *count {
		if by[prefix] == nil {
			by[prefix] = &count{}
		}
		by[prefix].keys++
		return by[prefix]
	}
	for key, then := range s.keys {
		c := of(s.prefixes[then.prefix])
		if is, ok := now.keys[key]; !ok {
			c.Back++
		} else if is.value != then.value {
			c.Changed++
		}
	}
	for key, is := range now.keys {
		if _, ok := s.keys[key]; !ok {
			of(now.prefixes[is.prefix]).Gone++
		}
	}
	shown := map[string]*backup.Changes{}
	for prefix, c := range by {
		name := hotprefix.Name(prefix, c.keys)
		if shown[name] == nil {
			shown[name] = &backup.Changes{}
		}
		add(shown[name], c.Changes)
		add(&total, c.Changes)
	}
	for prefix, c := range shown {
		if *c != (backup.Changes{}) {
			prefixes = append(prefixes, backup.PrefixChanges{Prefix: prefix, Changes: *c})
		}
	}
	slices.SortFunc(prefixes, func(a, b backup.PrefixChanges) int {
		return cmp.Or(cmp.Compare(sum(b.Changes), sum(a.Changes)), strings.Compare(a.Prefix, b.Prefix))
	})
	return total, atMost(maxPrefixes, prefixes)
}

// atMost adds the last of some prefixes to those that are not shown, so that there are a number of lines at most.
func atMost(lines int, prefixes []backup.PrefixChanges) []backup.PrefixChanges {
	if len(prefixes) <= lines {
		return prefixes
	}
	other := backup.PrefixChanges{Prefix: hotprefix.Other}
	kept := slices.DeleteFunc(slices.Clone(prefixes), func(p backup.PrefixChanges) bool {
		if p.Prefix == other.Prefix {
			add(&other.Changes, p.Changes)
		}
		return p.Prefix == other.Prefix
	})
	for len(kept) >= lines && len(kept) > 0 {
		add(&other.Changes, kept[len(kept)-1].Changes)
		kept = kept[:len(kept)-1]
	}
	return append(kept, other)
}

func add(to *backup.Changes, c backup.Changes) {
	to.Back, to.Changed, to.Gone = to.Back+c.Back, to.Changed+c.Changed, to.Gone+c.Gone
}

func sum(c backup.Changes) int64 { return c.Back + c.Changed + c.Gone }
