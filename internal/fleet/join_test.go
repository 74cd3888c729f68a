// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"
)

// A policy in force learns of the holders in its namespaces once, and of a change that was found by then.
func TestPoliciesJoin(t *testing.T) {
	for name, c := range map[string]struct {
		holder   func(*Holder)
		found    string
		policies []string
		change   string
		canary   bool
		changed  bool
	}{
		"the policy is known":                   {func(h *Holder) { h.Policies = []string{"p"} }, "", []string{"p"}, "A", false, false},
		"it is new":                             {func(h *Holder) { h.Policies = []string{"q"} }, "", []string{"q", "p"}, "A", true, true},
		"its holder is watched":                 {func(h *Holder) { h.Policies, h.Ended = []string{"q"}, noon }, "", []string{"q", "p"}, "A", false, true},
		"a canary is watched":                   {func(h *Holder) { canary(h); h.Policies = []string{"q"} }, "", []string{"q", "p"}, "A", true, true},
		"its task was deleted":                  {func(h *Holder) { h.Policies, h.Aborted = []string{"q"}, true }, "", []string{"q", "p"}, "A", false, true},
		"it has failed":                         {func(h *Holder) { h.Policies, h.Counted = []string{"q"}, true }, "", []string{"q"}, "A", false, false},
		"in place of the default":               {func(h *Holder) { h.Policies, h.Change = []string{Default}, "" }, "A", []string{"p"}, "A", true, true},
		"whose change is not known":             {func(h *Holder) { h.Policies, h.Change = []string{Default}, "" }, "", []string{"p"}, "", false, true},
		"whose change is known by now":          {func(h *Holder) { h.Policies, h.Change = []string{"p"}, "" }, "A", []string{"p"}, "A", true, true},
		"another change was found":              {func(h *Holder) { h.Policies = []string{"p"} }, "B", []string{"p"}, "A", false, false},
		"in a namespace that no policy selects": {func(h *Holder) { h.Policies, h.Change, h.Namespace = []string{Default}, "", "none" }, "A", []string{Default}, "", false, false},
	} {
		in := situation(history())
		in.Covering["none"] = []string{Default}
		in.Policies[Default] = &Policy{Name: Default}
		in.Ledger.Policies = []Recorded{{Name: "p"}, {Name: Default}}
		in.Ledger.Holders = []Holder{holding("a", c.holder)}
		found := []Holder{{Task: "other", Change: "C"}, {Task: "a", Change: c.found}}
		if changed := in.Ledger.Join(in.Policies, in.Covering, found, noon); changed != c.changed {
			t.Errorf("%s: changed: %t", name, changed)
		}
		h := in.Ledger.Holder("a")
		if !slices.Equal(h.Policies, c.policies) || h.Change != c.change || h.Canary != c.canary {
			t.Errorf("%s: %+v", name, h)
		}
		if begun := in.Ledger.Change("p", c.change) != nil; begun != (c.changed && c.change != "") {
			t.Errorf("%s: %+v", name, in.Ledger.Changes)
		}
		if in.Ledger.Join(in.Policies, in.Covering, found, noon) {
			t.Errorf("%s: it learns of it twice", name)
		}
	}
	// A policy that the ledger does not know yet counts first.
	in := situation(history(), holders(holding("a", func(h *Holder) { h.Policies = []string{"q"} })))
	if in.Ledger.Join(in.Policies, in.Covering, nil, noon) {
		t.Errorf("%+v", in.Ledger.Holders)
	}
}

// What is over when a policy comes takes no slot of the policies by which it was no canary, and does not fail their change.
func TestAPolicyThatComesMakesNothingACanaryThatIsOver(t *testing.T) {
	in := situation(holders(
		holding("a", func(h *Holder) { h.Policies, h.Ended = []string{"q"}, noon }),
		holding("b", func(h *Holder) { h.Policies, h.Aborted = []string{"q"}, true }),
	))
	in.Ledger.Policies = []Recorded{{Name: "p"}, {Name: "q"}}
	in.Ledger.Changes = []Change{{Policy: "q", Name: "A", Passed: 1}}
	if !in.Ledger.Join(in.Policies, in.Covering, nil, noon) || in.Ledger.Holder("a").UsesSlot() {
		t.Errorf("%+v", in.Ledger.Holders)
	}
	in.Ledger.Aborted("b", "a member is not ready", noon)
	if c := in.Ledger.Change("q", "A"); len(c.Failures) > 0 {
		t.Errorf("%+v", c)
	}
}
