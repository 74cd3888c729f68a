// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"time"
)

// lapse is how long no cluster may have begun or completed a change before it begins with canaries again.
const lapse = time.Hour

// Lapse lets changes that return long after they went through the fleet begin with canaries again: they may differ and only look the same,
// or the clusters may have changed. A task that has waited since then does not count as a return. It reports whether there are any.
func Lapse(in Input) bool {
	asked := maps.Clone(in.Asked)
	if asked == nil {
		asked = map[string]time.Time{}
	}
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
