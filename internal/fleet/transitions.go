// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Record records a policy: from now on, no older generation of it grants slots. A policy that has replaced another of its name is recorded
// once that one is forgotten. It reports whether anything has changed.
func (l *Ledger) Record(p *Policy) bool {
	r := l.Recorded(p.Name)
	if r == nil {
		l.Policies = append(l.Policies, Recorded{Name: p.Name, UID: p.UID, Generation: p.Generation})
		return true
	}
	if r.UID != p.UID || r.Generation >= p.Generation {
		return false
	}
	r.Generation = p.Generation
	return true
}

// Forget removes deleted policies. A policy of the same name may select other clusters, so changes begin with canaries again, and those that have
// not failed and that no cluster has are removed; paused ones stay paused. It reports whether anything has changed.
func (l *Ledger) Forget(deleted []types.UID) bool {
	before := len(l.Policies)
	l.Policies = slices.DeleteFunc(l.Policies, func(r Recorded) bool {
		if !slices.Contains(deleted, r.UID) {
			return false
		}
		for i := range l.Changes {
			if c := &l.Changes[i]; c.Policy == r.Name {
				c.Passed, c.Done = 0, 0
			}
		}
		l.Changes = slices.DeleteFunc(l.Changes, func(c Change) bool { return c.Policy == r.Name && len(c.Failures) == 0 && !l.has(c.Name) })
		return true
	})
	return len(l.Policies) < before
}

// Unwatched forgets what nothing is known of, since no operator has watched for a while: with what a cluster is compared, as a node may have been
// drained since; and of what no policy is left, what was watched, and what a task that ran has changed, as it may have succeeded and be gone by
// now: if it still runs, that is found out again. It reports whether anything has changed.
func (l *Ledger) Unwatched() (changed bool) {
	for _, known := range slices.Clone(l.Holders) {
		h := l.Holder(known.Task)
		left := slices.ContainsFunc(h.Policies, func(name string) bool { return l.Recorded(name) != nil })
		switch {
		case !left && !h.Ended.IsZero():
			l.remove(h.Task)
		case h.Baseline == "" && (left || h.Change == ""):
			continue
		default:
			h.Baseline = ""
			if !left {
				h.Empty()
			}
		}
		changed = true
	}
	return changed
}

// Watched returns the canary that is watched in a cluster, which is judged before another task of it gets a slot by Grant; nil if there is none.
func (l *Ledger) Watched(etcd types.UID) *Holder {
	return find(l.Holders, func(h *Holder) bool { return h.Etcd == etcd && h.Canary && h.MayFail() && !h.Ended.IsZero() })
}

// Maintained reports whether a task runs in the cluster of a holder that is watched (GrantBeside).
func (l *Ledger) Maintained(h *Holder) bool {
	return slices.ContainsFunc(l.Holders, func(o Holder) bool { return o.Etcd == h.Etcd && !o.Over() })
}

// has reports whether a holder has a change.
func (l *Ledger) has(change string) bool {
	return slices.ContainsFunc(l.Holders, func(h Holder) bool { return h.Change == change })
}

// Grant gives a task a slot. It ends the watch of its cluster, since failures could no longer be told from the effects of the task.
func (l *Ledger) Grant(h Holder) {
	for _, o := range slices.Clone(l.Holders) {
		if o.Etcd == h.Etcd && o.Over() {
			l.remove(o.Task)
		}
	}
	l.add(h)
}

// GrantBeside gives a slot to a task that changes no template. The watch of its cluster goes on, and compares with how the cluster is afterwards.
func (l *Ledger) GrantBeside(h Holder) {
	for _, o := range slices.Clone(l.Holders) {
		switch {
		case o.Etcd != h.Etcd:
		case o.Aborted:
			l.remove(o.Task)
		case !o.Ended.IsZero():
			l.Holder(o.Task).Baseline = ""
		}
	}
	l.add(h)
}

func (l *Ledger) add(h Holder) {
	l.Holders = append(l.Holders, h)
	for _, p := range h.Policies {
		l.begin(p, h.Change, h.Granted)
	}
}

// begin records that a cluster gets a change, and returns the change; nil without a name.
func (l *Ledger) begin(policy, name string, now time.Time) *Change {
	if name == "" {
		return nil
	}
	if c := l.Change(policy, name); c != nil {
		c.Last = now
		return c
	}
	l.Changes = append(l.Changes, Change{Policy: policy, Name: name, Since: now, Last: now, Resumed: FirstToken(now)})
	return &l.Changes[len(l.Changes)-1]
}

// FirstToken is the first number in the resume tokens of a change. It depends on the time, so that a token of a change that was forgotten
// does not resume it later.
func FirstToken(now time.Time) int { return int(now.Unix()) }

// Prune bounds the changes of each policy. Those that no holder has and that have not failed go first; then those of the namespace with the most
// failed changes, so that a tenant only displaces their own. Of these, it is the one that the tasks of the fewest other namespaces ask for, and
// then the oldest: a change that others wait for would no longer be paused.
func (l *Ledger) Prune(covering map[string][]string, asking func() []Candidate) {
	var all []Candidate
	count := map[string]int{}
	for _, c := range l.Changes {
		count[c.Policy]++
	}
	for policy, n := range count {
		for ; n > maxChanges; n-- {
			if all == nil {
				all = asking()
			}
			i := l.leastMissed(policy, covering, all)
			if i < 0 {
				break
			}
			l.Changes = slices.Delete(l.Changes, i, i+1)
		}
	}
}

// leastMissed returns the index of the change of a policy that is forgotten first; -1 if all have holders.
func (l *Ledger) leastMissed(policy string, covering map[string][]string, asking []Candidate) int {
	failed, most := map[string]int{}, ""
	for i := range l.Changes {
		if c := &l.Changes[i]; c.Policy == policy && len(c.Failures) > 0 {
			failed[c.firstNamespace()]++
		}
	}
	for namespace, n := range failed {
		if most == "" || n > failed[most] || n == failed[most] && namespace < most {
			most = namespace
		}
	}
	for _, namespace := range []string{"", most} {
		least, fewest := -1, 0
		for i := range l.Changes {
			c := &l.Changes[i]
			if c.Policy != policy || c.firstNamespace() != namespace || l.has(c.Name) {
				continue
			}
			if n := c.concerns(covering, asking); least < 0 || n < fewest {
				least, fewest = i, n
			}
		}
		if least >= 0 {
			return least
		}
	}
	return -1
}

// concerns counts the namespaces, except the first in which it failed, in which a change failed, or tasks ask for it or for a template with which
// it failed.
func (c *Change) concerns(covering map[string][]string, asking []Candidate) int {
	all := map[string]bool{}
	for _, f := range c.Failures {
		all[f.Namespace] = true
	}
	for i := range asking {
		a := &asking[i]
		if (a.Change == c.Name || a.Target != "" && c.failedWith(a.Target)) && slices.Contains(covering[a.Namespace], c.Policy) {
			all[a.Namespace] = true
		}
	}
	delete(all, c.firstNamespace())
	return len(all)
}

// firstNamespace returns the namespace of the first failure; empty if the change has not failed.
func (c *Change) firstNamespace() string {
	if len(c.Failures) == 0 {
		return ""
	}
	return c.Failures[0].Namespace
}

// Succeeded records that the task of a holder has succeeded and was cleaned up after. A change is watched from then on.
func (l *Ledger) Succeeded(task types.UID, now time.Time) {
	h := l.Holder(task)
	if h == nil || !h.Ended.IsZero() {
		return
	}
	l.measure(h, now)
	if !h.MayFail() {
		l.remove(task)
		return
	}
	h.Ended = now
}

// Soaked records that a cluster was watched for long enough and nothing broke. Policies that were forgotten since do not count it.
func (l *Ledger) Soaked(task types.UID, now time.Time) {
	h := l.Holder(task)
	if h == nil {
		return
	}
	for _, p := range h.Policies {
		r := l.Recorded(p)
		if r == nil {
			continue
		}
		if c := l.begin(p, h.Change, now); c != nil {
			c.Done++
			if h.Canary {
				c.Passed++
			}
		}
		if l.unproven(p, h.Target) {
			r.Proven = newest(append(r.Proven, h.Target), maxProven)
		}
	}
	l.Failing = slices.DeleteFunc(l.Failing, func(e types.UID) bool { return e == h.Etcd })
	l.remove(task)
}

// Failed records that a change failed in the cluster of a holder, once.
func (l *Ledger) Failed(task types.UID, reason string, now time.Time) {
	h := l.Holder(task)
	if h == nil || !h.MayFail() {
		return
	}
	h.Counted = true
	reason = reason[:min(len(reason), maxReason)]
	for _, p := range h.Policies {
		c := l.begin(p, h.Change, now)
		if !c.failedIn(h.Etcd) {
			c.Failures = append(c.Failures, Failure{Etcd: h.Etcd, Namespace: h.Namespace, EtcdName: h.EtcdName, Target: h.Target, Reason: reason, At: now})
		}
	}
	if !slices.Contains(l.Failing, h.Etcd) {
		l.Failing = newest(append(l.Failing, h.Etcd), maxFailing)
	}
}

// Aborted records that the task of a holder was deleted while it ran.
func (l *Ledger) Aborted(task types.UID, left string, now time.Time) {
	if h := l.Holder(task); h != nil {
		h.Aborted = true
		l.Abandoned(task, left, now)
	}
}

// Abandoned records that the task of a holder has neither succeeded nor failed. left is what is wrong with the members; empty if nothing is.
// A canary with such members counts as failed, since it is unknown whether the change works there.
func (l *Ledger) Abandoned(task types.UID, left string, now time.Time) {
	if h := l.Holder(task); h != nil && h.Canary && left != "" {
		l.Failed(task, left, now)
	}
}

// notKept stands for the reason of a failure.
const notKept = "the reason is not kept"

// Shorten makes the ledger smaller by so many bytes, if it can, by why changes have failed: first where no message says it. It returns by how
// many bytes it is still too large.
func (l *Ledger) Shorten(excess int) int {
	for _, first := range []int{maxNamed, 0} {
		for i := range l.Changes {
			for j := first; j < len(l.Changes[i].Failures); j++ {
				f := &l.Changes[i].Failures[j]
				if less := len(f.Reason) - len(notKept); excess > 0 && less > 0 {
					f.Reason, excess = notKept, excess-less
				}
			}
		}
	}
	return excess
}

// Shed makes the ledger smaller by so many bytes, if it can, by what no slot and no pause depends on: Shorten, and then with what the newest of the
// clusters that are watched are compared, which is found out again.
func (l *Ledger) Shed(excess int) {
	excess = l.Shorten(excess)
	for i := len(l.Holders) - 1; i >= 0 && excess > 0; i-- {
		excess -= len(l.Holders[i].Baseline)
		l.Holders[i].Baseline = ""
	}
}

// Release removes a holder, whose task has ended or is gone, and was cleaned up after.
func (l *Ledger) Release(task types.UID, now time.Time) {
	if h := l.Holder(task); h != nil {
		l.measure(h, now)
		l.remove(task)
	}
}

// Withdraw removes the holder with a task that has not started, and returns it; nil if there is none.
func (l *Ledger) Withdraw(task types.UID) *Holder {
	i := slices.IndexFunc(l.Holders, func(h Holder) bool { return h.Task == task })
	if i < 0 {
		return nil
	}
	held := l.Holders[i]
	l.Holders = slices.Delete(l.Holders, i, i+1)
	return &held
}

// Keep puts back a holder that was withdrawn, for another resourceVersion of its task.
func (l *Ledger) Keep(h *Holder, version string) {
	h.ResourceVersion = version
	l.Holders = append(l.Holders, *h)
}

// Empty has a holder bring nothing: its task stops nothing yet, and may not bring what it would now.
func (h *Holder) Empty() { h.Change, h.Target, h.Canary, h.Counted = "", "", false, false }

// remove removes the holder with a task that is over.
func (l *Ledger) remove(task types.UID) {
	l.Withdraw(task)
	l.Over = newest(append(l.Over, task), maxOver)
}

// newest returns the last elements of a list, at most so many.
func newest[T any](all []T, most int) []T { return all[max(0, len(all)-most):] }

// measure records how long a running task has held its slot.
func (l *Ledger) measure(h *Holder, now time.Time) {
	if !h.Ended.IsZero() || h.Unasked {
		return
	}
	for _, p := range h.Policies {
		if r := l.Recorded(p); r != nil {
			r.Seconds = newest(append(r.Seconds, int(max(0, now.Sub(h.Granted).Seconds()))), maxSeconds)
		}
	}
}

// ResumeToken is the value of the annotation that resumes the change in its present state.
func (c *Change) ResumeToken() string { return fmt.Sprintf("%s.%d", c.Name, c.Resumed) }

// ResumeBy resumes the failed change with a token, and reports whether there is one. A token of an earlier state of the change has no effect.
func (l *Ledger) ResumeBy(policy, token string) bool {
	c := find(l.Changes, func(c *Change) bool { return c.Policy == policy && c.ResumeToken() == token && len(c.Failures) > 0 })
	if c == nil {
		return false
	}
	c.Resumed++
	c.Failures = nil
	return true
}

// Usual returns the 90th percentile of how long the newest slots of a policy were held; 0 if too few are known.
func (r *Recorded) Usual() time.Duration {
	if r == nil || len(r.Seconds) < 5 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.Seconds))
	return time.Duration(sorted[(len(sorted)*9+9)/10-1]) * time.Second
}
