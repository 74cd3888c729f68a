// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package hotprefix counts which prefixes of keys are written most, in a table of fixed size (Space-Saving: Metwally, Agrawal and
// El Abbadi, 2005). Keys are tenants' data: a prefix has at most two components, and is shown only if ten keys share it; whole keys are shown only to those who ask for them. It is pure.
package hotprefix

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

const (
	// entries is the size of a table. A prefix with more than this part of the events is in it.
	entries = 64
	// EnoughKeys is how many keys have to share a prefix that is shown.
	EnoughKeys = 10
	// components is how many components of a key its prefix has.
	components = 2
	// maxPrefix bounds a prefix, in bytes.
	maxPrefix = 128
	// maxKey bounds a key, in bytes.
	maxKey = 512
	// turn is how long a table counts before the next one does.
	turn = time.Minute
)

// Other is the prefix of what is not shown: keys without a prefix that enough keys share.
const Other = "…"

// Prefix is how much was written below a prefix.
type Prefix struct {
	// Prefix of keys, such as /registry/pods/…
	Prefix string `json:"prefix"`
	// Events are puts and deletions; at most MaxError of them are of another prefix.
	Events   int64 `json:"events"`
	MaxError int64 `json:"maxError,omitempty"`
	// Bytes of keys and values, at least.
	Bytes int64 `json:"bytes"`
}

// Report is what was written since a time.
type Report struct {
	Since    time.Time `json:"since"`
	Events   int64     `json:"events"`
	Bytes    int64     `json:"bytes"`
	Prefixes []Prefix  `json:"prefixes"`
	// Keys are whole keys, if they were asked for.
	Keys []Prefix `json:"keys,omitempty"`
}

// Recent counts what was written in the last minute or two. Its zero value has counted nothing.
type Recent struct {
	prefixes, keys turns
	// revision is the last that was counted: a stream that begins again is not counted twice.
	revision int64
}

// Add counts an event of a key at a revision, of so many bytes.
func (r *Recent) Add(key []byte, revision, bytes int64, now time.Time) {
	if revision < r.revision {
		return
	}
	r.revision = revision
	r.prefixes.at(now).add(PrefixOf(key), key, bytes)
	r.keys.at(now).add(key[:min(len(key), maxKey)], key, bytes)
}

// Report returns what was counted, the most events first. Whole keys are in it only if they were asked for.
func (r *Recent) Report(now time.Time, withKeys bool) Report {
	report := r.prefixes.report(now, func(e entry) string {
		return Name(e.prefix, len(e.keys))
	})
	if withKeys {
		report.Keys = r.keys.report(now, func(e entry) string { return sanitize.Text(e.prefix, maxKey) }).Prefixes
	}
	return report
}

// turns count in the table of this turn, and keep that of the turn before.
type turns struct{ now, before table }

// at returns the table of a time. It begins another one after a turn, or where the clock was set back.
func (r *turns) at(now time.Time) *table {
	switch since := now.Sub(r.now.since); {
	case r.now.entries == nil || since >= 2*turn || since < 0:
		r.before, r.now = table{}, newTable(now)
	case since >= turn:
		r.before, r.now = r.now, newTable(now)
	}
	return &r.now
}

// report returns what was counted, by the names that entries are shown with.
func (r *turns) report(now time.Time, show func(entry) string) Report {
	if !r.now.since.IsZero() {
		r.at(now)
	}
	report := Report{Since: r.now.since, Prefixes: []Prefix{}}
	if r.before.entries != nil {
		report.Since = r.before.since
	}
	merged := map[string]*Prefix{}
	for _, t := range []*table{&r.before, &r.now} {
		report.Events, report.Bytes = report.Events+t.events, report.Bytes+t.bytes
		for _, e := range t.entries {
			prefix := show(e)
			if merged[prefix] == nil {
				merged[prefix] = &Prefix{Prefix: prefix}
			}
			m := merged[prefix]
			m.Events, m.MaxError, m.Bytes = m.Events+e.events, m.MaxError+e.maxError, m.Bytes+e.bytes
		}
	}
	for _, m := range merged {
		report.Prefixes = append(report.Prefixes, *m)
	}
	slices.SortFunc(report.Prefixes, func(a, b Prefix) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.Prefix, b.Prefix))
	})
	return report
}

// table counts the events of one turn.
type table struct {
	since         time.Time
	events, bytes int64
	entries       []entry
	// at is where the entry of a prefix is.
	at   map[string]int
	seed maphash.Seed
}

type entry struct {
	prefix                  string
	events, maxError, bytes int64
	// keys are hashes of different keys, up to enough of them.
	keys []uint64
}

func newTable(now time.Time) table {
	return table{since: now, entries: make([]entry, 0, entries), at: make(map[string]int, entries), seed: maphash.MakeSeed()}
}

// add counts an event of a key below a prefix.
func (t *table) add(prefix, key []byte, bytes int64) {
	t.events, t.bytes = t.events+1, t.bytes+bytes
	i, known := t.at[string(prefix)]
	if !known {
		i = t.place(string(prefix))
	}
	e := &t.entries[i]
	e.events, e.bytes = e.events+1, e.bytes+bytes
	if len(e.keys) < EnoughKeys {
		if hash := maphash.Bytes(t.seed, key); !slices.Contains(e.keys, hash) {
			e.keys = append(e.keys, hash)
		}
	}
}

// place makes an entry for a prefix. If there is no room, the rarest gives its place and its count, which may be the newcomer's from
// earlier.
func (t *table) place(prefix string) int {
	if len(t.entries) < entries {
		t.entries = append(t.entries, entry{prefix: prefix})
		t.at[prefix] = len(t.entries) - 1
		return len(t.entries) - 1
	}
	least := 0
	for i := range t.entries {
		if t.entries[i].events < t.entries[least].events {
			least = i
		}
	}
	e := &t.entries[least]
	delete(t.at, e.prefix)
	*e = entry{prefix: prefix, events: e.events, maxError: e.events, keys: e.keys[:0]}
	t.at[prefix] = least
	return least
}

// Name returns how a prefix is shown that so many keys share: as Other, unless they are EnoughKeys.
func Name(prefix string, keys int) string {
	if prefix == "" || keys < EnoughKeys {
		return Other
	}
	return sanitize.Text(prefix, maxPrefix) + "/" + Other
}

// PrefixOf returns the first components of a key, never the last one, and no more than is shown.
func PrefixOf(key []byte) []byte {
	at := 0
	for range components {
		end := bytes.IndexByte(key[min(at+1, len(key)):], '/')
		if end < 0 {
			break
		}
		at += 1 + end
	}
	return key[:min(at, maxPrefix)]
}
