// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// UniquePrefix is the prefix of keys that are written once and never deleted.
const UniquePrefix = "u/"

// leases checks that no key disappears before its lease can have expired: TTL after the last keep-alive that was
// acknowledged, counted from when it was asked for.
func leases(h *history.History) []Violation {
	type lease struct {
		key      string
		renewals []history.Operation
	}
	byID, byKey := map[int64]*lease{}, map[string]*lease{}
	for _, op := range h.Operations {
		if op.Lease == 0 || !op.Acknowledged() {
			continue
		}
		l := byID[op.Lease]
		if l == nil {
			l = &lease{}
			byID[op.Lease] = l
		}
		if op.Kind == history.Put {
			l.key, byKey[op.Key] = op.Key, l
		} else {
			l.renewals = append(l.renewals, op)
		}
	}
	var found []Violation
	reported := map[string]bool{}
	for _, w := range h.Watches {
		for _, e := range w.Events {
			l := byKey[e.Key]
			if !e.Deleted || l == nil || reported[e.Key] {
				continue
			}
			for _, r := range l.renewals {
				if r.Return < w.At && w.At < r.Call+r.TTL {
					reported[e.Key] = true
					found = append(found, Violation{LeaseKept, w.At, fmt.Sprintf("%s of lease %x was deleted at revision %d, %s after a renewal for %s", e.Key, r.Lease, e.Revision, (w.At - r.Call).Round(time.Millisecond), r.TTL)})
					break
				}
			}
		}
	}
	return found
}

// durability checks that each member has every write of a unique key at the end, with its value.
func durability(h *history.History) []Violation {
	var found []Violation
	for _, op := range h.Operations {
		if !op.Wrote() || !strings.HasPrefix(op.Key, UniquePrefix) {
			continue
		}
		for _, member := range slices.Sorted(maps.Keys(h.Finals)) {
			if got, there := h.Finals[member][op.Key]; !there || got != op.Value {
				found = append(found, Violation{Durable, op.Return, fmt.Sprintf("%s=%s was acknowledged to %s at revision %d, and %s has %q at the end", op.Key, op.Value, op.Client, op.Revision, member, got)})
			}
		}
	}
	return found
}

// hashes checks that all members have the same hash at one revision.
func hashes(all []history.Hash) []Violation {
	var found []Violation
	for _, h := range all {
		first := all[0]
		if h.Revision != first.Revision || h.Compacted != first.Compacted || h.Hash != first.Hash {
			found = append(found, Violation{SameHash, 0, fmt.Sprintf("%s has hash %08x at revision %d, compacted to %d, and %s has %08x at %d, compacted to %d", first.Member, first.Hash, first.Revision, first.Compacted, h.Member, h.Hash, h.Revision, h.Compacted)})
		}
	}
	return found
}
