// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"
)

// Join has every policy in force record what becomes of the holders in its namespaces, also one that came after their tasks had got their slots:
// otherwise it would try a template that has failed there. A holder without a change gets the one that was found. If its task runs, it
// is a canary if a policy that learns of its change has yet to try it. It reports whether anything has changed.
func (l *Ledger) Join(policies map[string]*Policy, covering map[string][]string, found []Holder, now time.Time) (changed bool) {
	for i := range l.Holders {
		h := &l.Holders[i]
		if h.Counted {
			continue
		}
		learn := slices.DeleteFunc(slices.Clone(covering[h.Namespace]), func(name string) bool {
			return name == Default || policies[name] == nil || l.Recorded(name) == nil || slices.Contains(h.Policies, name)
		})
		if len(learn) > 0 {
			// The default records nothing of a change.
			h.Policies = slices.DeleteFunc(slices.Concat(h.Policies, learn), func(name string) bool { return name == Default })
			changed = true
		}
		if is := find(found, func(f *Holder) bool { return f.Task == h.Task && f.Change != "" }); is != nil && h.Change == "" && !slices.Contains(h.Policies, Default) {
			h.Change, h.Target, learn, changed = is.Change, is.Target, h.Policies, true
		}
		for _, name := range learn {
			if p := policies[name]; p != nil {
				h.Canary = h.Canary || !h.Over() && l.InCanaryStage(p, h.Change)
				l.begin(name, h.Change, now)
			}
		}
	}
	return changed
}
