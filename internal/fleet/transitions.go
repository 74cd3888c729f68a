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

// Record records a policy: from now on nothing is granted by an older generation of it. One that has replaced another is recorded once
// that one is forgotten. It reports whether that is new.
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

// Forget forgets policies that are deleted. One of the same name may select other clusters: its changes begin with canaries, and those
// that are paused stay so. It reports whether there are any.
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
		return true
	})
	return len(l.Policies) < before
}

// Grant gives a task a slot. If its cluster is being watched, that ends: what the task does could not be told from what is watched for.
func (l *Ledger) Grant(h Holder) {
	for _, o := range slices.Clone(l.Holders) {
		if o.Etcd == h.Etcd && o.Over() {
			l.remove(o.Task)
		}
	}
	l.Holders = append(l.Holders, h)
	for _, p := range h.Policies {
		l.begin(p, h.Change, h.Granted)
	}
}

// begin makes sure that a change is known.
func (l *Ledger) begin(policy, name string, now time.Time) *Change {
	if name == "" {
		return nil
	}
	if c := l.Change(policy, name); c != nil {
		c.Last = now
		return c
	}
	l.prune(policy)
	l.Changes = append(l.Changes, Change{Policy: policy, Name: name, Since: now, Last: now, Resumed: FirstToken(now)})
	return &l.Changes[len(l.Changes)-1]
}

// FirstToken is what the number in tokens that resume a change begins with: what resumed an earlier life of the change resumes no later
// one.
func FirstToken(now time.Time) int { return int(now.Unix()) }

// prune makes room for another change of a policy. The oldest goes that no holder has and that has not failed; if all have, the
// oldest of the namespace in which most have, so that a tenant who makes many changes fail pushes out only their own.
func (l *Ledger) prune(policy string) {
	count, failed := 0, map[string]int{}
	for _, c := range l.Changes {
		if c.Policy == policy {
			count++
			failed[c.firstNamespace()]++
		}
	}
	if count < maxChanges {
		return
	}
	most := ""
	for namespace, n := range failed {
		if namespace != "" && (most == "" || n > failed[most] || n == failed[most] && namespace < most) {
			most = namespace
		}
	}
	for _, namespace := range []string{"", most} {
		i := slices.IndexFunc(l.Changes, func(c Change) bool {
			return c.Policy == policy && c.firstNamespace() == namespace && !slices.ContainsFunc(l.Holders, func(h Holder) bool { return h.Change == c.Name })
		})
		if i >= 0 {
			l.Changes = slices.Delete(l.Changes, i, i+1)
			return
		}
	}
}

// firstNamespace is that of the first failure; empty if it has not failed.
func (c *Change) firstNamespace() string {
	if len(c.Failures) == 0 {
		return ""
	}
	return c.Failures[0].Namespace
}

// Succeeded records that the task of a holder has succeeded and was cleaned up after: a change is watched from now on.
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

// Soaked records that a cluster was watched for long enough, and nothing broke. For a policy that was forgotten since, it was not.
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

// Abandoned records that the task of a holder has neither succeeded nor failed, and how it left its members; empty if they are well. Of
// a canary that is not, it stays unknown whether the change works there: it counts as failed, and no other cluster tries.
func (l *Ledger) Abandoned(task types.UID, left string, now time.Time) {
	if h := l.Holder(task); h != nil && h.Canary && left != "" {
		l.Failed(task, left, now)
	}
}

// notKept stands for the reason of a failure.
const notKept = "the reason is not kept"

// Shed makes the ledger smaller by so many bytes, if it can, by what no slot and no pause depends on: why changes have failed, and then with what
// the newest of the clusters that are watched are compared, which is found out again.
func (l *Ledger) Shed(excess int) {
	for i := range l.Changes {
		for j := range l.Changes[i].Failures {
			f := &l.Changes[i].Failures[j]
			if less := len(f.Reason) - len(notKept); excess > 0 && less > 0 {
				f.Reason, excess = notKept, excess-less
			}
		}
	}
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

// remove removes the holder with a task that is over.
func (l *Ledger) remove(task types.UID) {
	l.Withdraw(task)
	l.Over = newest(append(l.Over, task), maxOver)
}

// newest are the last so many of a list.
func newest[T any](all []T, most int) []T { return all[max(0, len(all)-most):] }

// measure keeps how long a slot was held by a task that ran.
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

// ResumeToken is what a person sets the annotation to who resumes the change as they see it.
func (c *Change) ResumeToken() string { return fmt.Sprintf("%s.%d", c.Name, c.Resumed) }

// ResumeBy lets a change that is paused continue, with a canary if it has not passed one, by a token that names it. It does nothing unless the
// change was resumed as often as the person saw who decides it.
func (l *Ledger) ResumeBy(policy, token string) bool {
	for i := range l.Changes {
		if c := &l.Changes[i]; c.Policy == policy && c.ResumeToken() == token && len(c.Failures) > 0 {
			c.Resumed++
			c.Failures = nil
			return true
		}
	}
	return false
}

// Usual is how long nine tenths of the newest slots of a policy were held at most; 0 if too few are known.
func (r *Recorded) Usual() time.Duration {
	if r == nil || len(r.Seconds) < 5 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.Seconds))
	return time.Duration(sorted[(len(sorted)*9+9)/10-1]) * time.Second
}
