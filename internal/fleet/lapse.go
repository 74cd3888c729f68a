// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"
)

// lapse is for how long no cluster gets a change, nor is done with it, before it is tried in canaries again.
const lapse = time.Hour

// Lapse has changes that are asked for again, long after they went through the fleet, begin with canaries: they may be others that only
// look the same, or meet another world. What has waited since then belongs to the earlier time. It reports whether there are any.
func Lapse(in Input) bool {
	asked := map[string]time.Time{}
	for _, c := range in.Waiting {
		if first, known := asked[c.Change]; !known || c.ChangeSince.Before(first) {
			asked[c.Change] = c.ChangeSince
		}
	}
	found := false
	for i := range in.Ledger.Changes {
		c := &in.Ledger.Changes[i]
		since, asks := asked[c.Name]
		if !asks || c.Passed == 0 || since.Sub(c.Last) <= lapse || slices.ContainsFunc(in.Ledger.Holders, func(h Holder) bool { return h.Change == c.Name }) {
			continue
		}
		c.Passed, c.Done, c.Since, found = 0, 0, since, true
	}
	return found
}
