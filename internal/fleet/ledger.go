// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger is who holds slots, and what has become of changes. It is the only truth of both: what is not in it was not granted.
type Ledger struct {
	// Rebuilt is when it was last made of the tasks that ran, because it was lost; zero if it never was.
	Rebuilt time.Time `json:"rebuilt,omitzero"`
	// Holders are the clusters whose task runs, and those that are watched after it.
	Holders []Holder `json:"holders,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Failing are the Etcds in which a change failed, and none has succeeded since. The next change begins with them.
	Failing []types.UID `json:"failing,omitempty"`
	// Policies are those by which slots were granted.
	Policies []Recorded `json:"policies,omitempty"`
}

// Recorded is a policy as the Ledger knows it. Nothing is granted by an older generation.
type Recorded struct {
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	Limit      int       `json:"limit"`
	// Seconds is how long the newest slots were held.
	Seconds []int `json:"seconds,omitempty"`
}

// Holder is a cluster with a slot, or one that is watched.
type Holder struct {
	Task      types.UID `json:"task"`
	TaskName  string    `json:"taskName"`
	Namespace string    `json:"namespace"`
	Etcd      types.UID `json:"etcd"`
	EtcdName  string    `json:"etcdName"`
	// ResourceVersion is that of the task when it got the slot: its start is written on this one alone.
	ResourceVersion string `json:"resourceVersion"`
	// Policies are those that granted it.
	Policies []string `json:"policies,omitempty"`
	// Change is the fingerprint; empty for a task that changes nothing.
	Change string `json:"change,omitempty"`
	// Canary: it keeps its slot while it is watched.
	Canary bool `json:"canary,omitempty"`
	// Impaired: the cluster lacked a member when it got the slot.
	Impaired bool `json:"impaired,omitempty"`
	// Unasked: the task ran before there was a policy, or before the ledger was rebuilt, or a person let it bypass the policy. It
	// uses a slot, beyond the limit if need be.
	Unasked bool      `json:"unasked,omitempty"`
	Granted time.Time `json:"granted"`
	// Counted: its failure is recorded already.
	Counted bool `json:"counted,omitempty"`
	// Ended is when its task had succeeded: the cluster is watched from then on. Zero while the task runs.
	Ended time.Time `json:"ended,omitzero"`
	// Baseline is what must not change while it is watched; empty while it is not known.
	Baseline string `json:"baseline,omitempty"`
}

// UsesSlot reports whether it counts against limits.
func (h *Holder) UsesSlot() bool { return h.Ended.IsZero() || h.Canary }

// Change is what has become of a change in the clusters of a policy.
type Change struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	// Since is when the first task with it got a slot.
	Since time.Time `json:"since"`
	// Passed is how many canaries it has passed, and Done in how many clusters it succeeded, those included.
	Passed int `json:"passed,omitempty"`
	Done   int `json:"done,omitempty"`
	// Failures since it was last resumed, by Etcd.
	Failures []Failure `json:"failures,omitempty"`
	// Resumed counts how often a person has resumed it.
	Resumed int `json:"resumed,omitempty"`
}

// Failure is a cluster in which a change failed, and why.
type Failure struct {
	Etcd      types.UID `json:"etcd"`
	Namespace string    `json:"namespace"`
	EtcdName  string    `json:"etcdName"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`
}

const (
	// maxChanges bounds the changes of one policy, maxFailing the clusters that the next change begins with, maxSeconds the slots
	// whose length is kept, and maxReason the bytes of a reason.
	maxChanges, maxFailing, maxSeconds, maxReason = 100, 100, 50, 300
)

// Holder returns the holder with a task; nil if there is none.
func (l *Ledger) Holder(task types.UID) *Holder {
	if i := slices.IndexFunc(l.Holders, func(h Holder) bool { return h.Task == task }); i >= 0 {
		return &l.Holders[i]
	}
	return nil
}

// Change returns a change of a policy; nil if it is not known.
func (l *Ledger) Change(policy, name string) *Change {
	if i := slices.IndexFunc(l.Changes, func(c Change) bool { return c.Policy == policy && c.Name == name }); i >= 0 {
		return &l.Changes[i]
	}
	return nil
}

// Recorded returns what is known of a policy; nil if nothing is.
func (l *Ledger) Recorded(name string) *Recorded {
	if i := slices.IndexFunc(l.Policies, func(r Recorded) bool { return r.Name == name }); i >= 0 {
		return &l.Policies[i]
	}
	return nil
}

// Record records a policy: from now on nothing is granted by an older generation of it. It reports whether that is new.
func (l *Ledger) Record(p *Policy) bool {
	r := l.Recorded(p.Name)
	if r == nil {
		l.Policies = append(l.Policies, Recorded{Name: p.Name})
		r = &l.Policies[len(l.Policies)-1]
	}
	before := *r
	if r.UID != p.UID {
		r.Generation, r.Seconds = 0, nil
	}
	r.UID, r.Generation, r.Limit = p.UID, max(r.Generation, p.Generation), p.Limit()
	return r.UID != before.UID || r.Generation != before.Generation || r.Limit != before.Limit
}

// Grant gives a task a slot. If its cluster is being watched, that ends: what the task does could not be told from what is watched for.
func (l *Ledger) Grant(h Holder) {
	l.Holders = slices.DeleteFunc(l.Holders, func(o Holder) bool { return o.Etcd == h.Etcd && !o.Ended.IsZero() })
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
		return c
	}
	l.prune(policy)
	l.Changes = append(l.Changes, Change{Policy: policy, Name: name, Since: now})
	return &l.Changes[len(l.Changes)-1]
}

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
	if h.Change == "" || h.Counted {
		l.remove(task)
		return
	}
	h.Ended = now
}

// Soaked records that a cluster was watched for long enough, and nothing broke.
func (l *Ledger) Soaked(task types.UID, now time.Time) {
	h := l.Holder(task)
	if h == nil {
		return
	}
	for _, p := range h.Policies {
		if c := l.begin(p, h.Change, now); c != nil {
			c.Done++
			if h.Canary {
				c.Passed++
			}
		}
	}
	l.Failing = slices.DeleteFunc(l.Failing, func(e types.UID) bool { return e == h.Etcd })
	l.remove(task)
}

// Failed records that a change failed in the cluster of a holder, once.
func (l *Ledger) Failed(task types.UID, reason string, now time.Time) {
	h := l.Holder(task)
	if h == nil || h.Counted || h.Change == "" {
		return
	}
	h.Counted = true
	reason = reason[:min(len(reason), maxReason)]
	for _, p := range h.Policies {
		c := l.begin(p, h.Change, now)
		if !slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Etcd == h.Etcd }) {
			c.Failures = append(c.Failures, Failure{Etcd: h.Etcd, Namespace: h.Namespace, EtcdName: h.EtcdName, Reason: reason, At: now})
		}
	}
	if !slices.Contains(l.Failing, h.Etcd) {
		l.Failing = append(l.Failing, h.Etcd)
		l.Failing = l.Failing[max(0, len(l.Failing)-maxFailing):]
	}
}

// Release removes a holder, whose task has ended or is gone, and was cleaned up after.
func (l *Ledger) Release(task types.UID, now time.Time) {
	if h := l.Holder(task); h != nil {
		l.measure(h, now)
		l.remove(task)
	}
}

func (l *Ledger) remove(task types.UID) {
	l.Holders = slices.DeleteFunc(l.Holders, func(h Holder) bool { return h.Task == task })
}

// measure keeps how long a slot was held by a task that ran.
func (l *Ledger) measure(h *Holder, now time.Time) {
	if !h.Ended.IsZero() || h.Unasked {
		return
	}
	for _, p := range h.Policies {
		if r := l.Recorded(p); r != nil {
			r.Seconds = append(r.Seconds, int(max(0, now.Sub(h.Granted).Seconds())))
			r.Seconds = r.Seconds[max(0, len(r.Seconds)-maxSeconds):]
		}
	}
}

// Resume lets a change that is paused continue, with a canary if it has not passed one. It does nothing unless the change was
// resumed as often as the person saw who decides it.
func (l *Ledger) Resume(policy, name string, resumed int) bool {
	c := l.Change(policy, name)
	if c == nil || c.Resumed != resumed || len(c.Failures) == 0 {
		return false
	}
	c.Resumed++
	c.Failures = nil
	return true
}

// ResumeToken is what a person sets the annotation to who resumes the change as they see it.
func (c *Change) ResumeToken() string { return fmt.Sprintf("%s.%d", c.Name, c.Resumed) }

// ResumeBy resumes the change of a policy that a token names.
func (l *Ledger) ResumeBy(policy, token string) bool {
	at := strings.LastIndex(token, ".")
	if at < 0 {
		return false
	}
	resumed, err := strconv.Atoi(token[at+1:])
	return err == nil && l.Resume(policy, token[:at], resumed)
}

// Usual is how long nine tenths of the newest slots of a policy were held at most; 0 if too few are known.
func (r *Recorded) Usual() time.Duration {
	if r == nil || len(r.Seconds) < 5 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.Seconds))
	return time.Duration(sorted[(len(sorted)*9+9)/10-1]) * time.Second
}
