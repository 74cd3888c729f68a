// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// Prefixes of keys.
const (
	// UniquePrefix is that of keys that are written once and never deleted.
	UniquePrefix = "u/"
	// RegisterPrefix is that of contended keys.
	RegisterPrefix = "r/"
)

// finals are the key spaces that were read to their end, by member.
type finals map[string]map[string]string

func finalsOf(h *history.History) finals {
	f := finals{}
	for member, pairs := range h.Finals {
		if !h.Unread[member] {
			f[member] = pairs
		}
	}
	return f
}

// durability checks that each member has every write of a unique key at the end, with its value, and none that was gone back behind.
func (f finals) durability(all []history.Operation, times eras, members int) []Violation {
	var found []Violation
	for _, member := range slices.Sorted(maps.Keys(f)) {
		found = append(found, times.holds(member+", at the end,", f[member], all, times.last(), math.MaxInt64)...)
	}
	return append(found, lacking(Durable, "their key space", len(f), members)...)
}

// hashes checks that all members have the same hash at one revision.
func hashes(all []history.Hash, members int) []Violation {
	var found []Violation
	given := map[string]bool{}
	for _, h := range all {
		given[h.Member] = true
		first := all[0]
		if h.Revision != first.Revision || h.Compacted != first.Compacted || h.Hash != first.Hash {
			found = append(found, Violation{SameHash, 0, fmt.Sprintf("%s has hash %08x at revision %d, compacted to %d, and %s has %08x at %d, compacted to %d", first.Member, first.Hash, first.Revision, first.Compacted, h.Member, h.Hash, h.Revision, h.Compacted)})
		}
	}
	return append(found, lacking(SameHash, "a hash of it", len(given), members)...)
}

// lacking returns that a rule is undecided, because not all members have said what they have at the end.
func lacking(rule Rule, what string, given, members int) []Violation {
	if given >= members {
		return nil
	}
	return []Violation{{Undecided, 0, fmt.Sprintf("%s: %d of %d members have given %s at the end", rule, given, members, what)}}
}

// reads returns what members have in registers at the end as reads after everything else. They are concurrent with each other: an
// operation of unknown outcome may happen in between.
func (f finals) reads(all []history.Operation) []history.Operation {
	end, keys := time.Duration(0), map[string]bool{}
	for _, op := range all {
		end = max(end, op.Return)
		keys[op.Key] = true
	}
	for _, pairs := range f {
		for key := range pairs {
			keys[key] = true
		}
	}
	var reads []history.Operation
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !strings.HasPrefix(key, RegisterPrefix) {
			continue
		}
		for _, member := range slices.Sorted(maps.Keys(f)) {
			reads = append(reads, history.Operation{Client: "end of " + member, Kind: history.Get, Call: end + 1, Return: end + 2, Key: key, Found: f[member][key]})
		}
	}
	return reads
}

// written checks that nobody sees, in a watch or at the end, what no client has sent, and that no key goes that never had a lease:
// clients delete nothing.
func written(h *history.History) []Violation {
	type pair struct{ key, value string }
	sent, leased := map[pair]bool{}, map[string]bool{}
	for _, op := range h.Operations {
		if op.Kind == history.Put || op.Kind == history.Swap {
			sent[pair{op.Key, op.Value}] = true
			leased[op.Key] = leased[op.Key] || op.Lease != 0
		}
	}
	var found []Violation
	for _, w := range h.Watches {
		for _, e := range w.Events {
			switch {
			case e.Deleted && !leased[e.Key]:
				found = append(found, Violation{Written, w.At, fmt.Sprintf("%s got the deletion of %s at revision %d, which no client has asked for", w.Watcher, e.Key, e.Revision)})
			case !e.Deleted && !sent[pair{e.Key, e.Value}]:
				found = append(found, Violation{Written, w.At, fmt.Sprintf("%s got %s=%s at revision %d, which no client has written", w.Watcher, e.Key, e.Value, e.Revision)})
			}
		}
	}
	unsent := func(who string, pairs map[string]string) {
		for key, value := range pairs {
			if !sent[pair{key, value}] {
				found = append(found, Violation{Written, 0, fmt.Sprintf("%s has %s=%s, which no client has written", who, key, value)})
			}
		}
	}
	for member, pairs := range h.Finals {
		unsent(member+", at the end,", pairs)
	}
	for _, s := range h.States {
		unsent("the cluster, after a restore,", s.Pairs)
	}
	slices.SortFunc(found, func(a, b Violation) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Message, b.Message)) })
	return found
}
