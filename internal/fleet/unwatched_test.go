// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import "testing"

// What no operator has watched for a while is compared again from its beginning; without a policy that is left, it is neither success nor failure.
func TestWhatWasNotWatched(t *testing.T) {
	watched := func(h *Holder) { canary(h); h.Baseline = "b" }
	for name, c := range map[string]struct {
		holder                   func(*Holder)
		recorded                 string
		stays, canary, isChanged bool
	}{
		"watched":                  {watched, "p", true, true, true},
		"watched by none":          {watched, "q", false, false, true},
		"with nothing to compare":  {canary, "p", true, true, false},
		"it runs":                  {func(h *Holder) { h.Canary = true }, "p", true, true, false},
		"it ran for a policy":      {func(h *Holder) { h.Canary = true }, "q", true, false, true},
		"it ran and was no canary": {func(*Holder) {}, "q", true, false, true},
		"it ran without a change":  {func(h *Holder) { h.Empty() }, "q", true, false, false},
	} {
		l := &Ledger{Policies: []Recorded{{Name: c.recorded}}, Holders: []Holder{holding("a", c.holder)}}
		if changed := l.Unwatched(); changed != c.isChanged {
			t.Errorf("%s: changed: %t", name, changed)
		}
		h := l.Holder("a")
		if (h != nil) != c.stays || h != nil && (h.Canary != c.canary || h.Baseline != "" || (h.Change == "") != (c.recorded != "p")) {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
