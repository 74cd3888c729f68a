// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

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
