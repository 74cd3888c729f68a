// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger records who holds slots, and the outcome of changes. What is not in it was not granted. An operator does not write a ledger that has
// a field which it does not know (package store).
type Ledger struct {
	// Revision is the resourceVersion of the stored ledger that this one is based on; empty if none is stored.
	Revision string `json:"-"`
	// Rebuilt is when it was last rebuilt from the running tasks because it was lost; zero if it never was.
	Rebuilt time.Time `json:"rebuilt,omitzero"`
	// Holders are the clusters whose task runs, and those that are watched afterwards.
	Holders []Holder `json:"holders,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Failing are the Etcds in which a change failed and none has succeeded since. The next change begins with them.
	Failing []types.UID `json:"failing,omitempty"`
	// Over are the newest tasks whose outcome is recorded: an operator with an older view of one of them gets no slot for it.
	Over []types.UID `json:"over,omitempty"`
	// Policies are those by which slots were granted.
	Policies []Recorded `json:"policies,omitempty"`
}

// Recorded is a policy as the Ledger knows it. An older generation grants nothing.
type Recorded struct {
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	// Seconds are the times for which the newest slots were held.
	Seconds []int `json:"seconds,omitempty"`
	// Proven are the templates that have worked in a cluster, the newest last.
	Proven []string `json:"proven,omitempty"`
}

// Holder is a cluster that has a slot or is watched.
type Holder struct {
	Task      types.UID `json:"task"`
	TaskName  string    `json:"taskName"`
	Namespace string    `json:"namespace"`
	Etcd      types.UID `json:"etcd"`
	EtcdName  string    `json:"etcdName"`
	// ResourceVersion of the task when it got the slot. Its start is only written under this one.
	ResourceVersion string `json:"resourceVersion"`
	// Policies that granted the slot.
	Policies []string `json:"policies,omitempty"`
	// Change and Target are the fingerprints of the change and of the whole new template; both are empty for a task that changes nothing,
	// and Target for a restart.
	Change string `json:"change,omitempty"`
	Target string `json:"target,omitempty"`
	// Canary: it keeps its slot while it is watched.
	Canary bool `json:"canary,omitempty"`
	// Impaired: the cluster lacked a member when it got the slot.
	Impaired bool `json:"impaired,omitempty"`
	// BackedUp: its backups did not fail when it got the slot, so they must not while it is watched.
	BackedUp bool `json:"backedUp,omitempty"`
	// Alarm is the reason of its condition AlarmRaised when it got the slot; empty if no alarm was raised.
	Alarm string `json:"alarm,omitempty"`
	// Unasked: the task ran before there was a policy, or before the ledger was rebuilt, or a person let it bypass the policy. It
	// uses a slot, beyond the limit if need be.
	Unasked bool      `json:"unasked,omitempty"`
	Granted time.Time `json:"granted"`
	// Counted: its failure is already recorded.
	Counted bool `json:"counted,omitempty"`
	// Ended is when its task succeeded, and the watch of the cluster began; zero before.
	Ended time.Time `json:"ended,omitzero"`
	// Baseline is what must not change during the watch; empty while it is unknown.
	Baseline string `json:"baseline,omitempty"`
	// Aborted: its task was deleted while it ran. It keeps its slot until the cluster lacks no member, or the next task takes it over.
	Aborted bool `json:"aborted,omitempty"`
}

// Over reports whether its task is over. The cluster is then watched until its next task that changes the template.
func (h *Holder) Over() bool { return !h.Ended.IsZero() || h.Aborted }

// MayFail reports whether it has a change whose failure is not counted yet.
func (h *Holder) MayFail() bool { return h.Change != "" && !h.Counted }

// UsesSlot reports whether it counts against limits.
func (h *Holder) UsesSlot() bool { return h.Ended.IsZero() || h.Canary }

// Change is the outcome of a change in the clusters of a policy.
type Change struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	// Since is when the first task with it got a slot, and Last when a cluster last got or completed it.
	Since time.Time `json:"since"`
	Last  time.Time `json:"last,omitzero"`
	// Passed is how many canaries it has passed, and Done how many clusters it has succeeded in, canaries included.
	Passed int `json:"passed,omitempty"`
	Done   int `json:"done,omitempty"`
	// Failures since it was last resumed, at most one for each Etcd.
	Failures []Failure `json:"failures,omitempty"`
	// Resumed grows each time a person resumes it.
	Resumed int `json:"resumed,omitempty"`
}

// Failure is a cluster in which a change failed, and why.
type Failure struct {
	Etcd      types.UID `json:"etcd"`
	Namespace string    `json:"namespace"`
	EtcdName  string    `json:"etcdName"`
	Target    string    `json:"target,omitempty"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`
}

const (
	// maxChanges bounds the changes of one policy, maxFailing the clusters that the next change begins with, maxOver the tasks that are
	// over, maxSeconds the slots whose length is kept, maxProven the templates that work, and maxReason the bytes of a reason.
	maxChanges, maxFailing, maxOver, maxSeconds, maxProven, maxReason = 100, 100, 500, 50, 100, 300
)

// Holder returns the holder with a task; nil if there is none.
func (l *Ledger) Holder(task types.UID) *Holder {
	return find(l.Holders, func(h *Holder) bool { return h.Task == task })
}

// Change returns a change of a policy; nil if it is not known.
func (l *Ledger) Change(policy, name string) *Change {
	return find(l.Changes, func(c *Change) bool { return c.Policy == policy && c.Name == name })
}

// Recorded returns the record of a policy; nil if there is none.
func (l *Ledger) Recorded(name string) *Recorded {
	return find(l.Policies, func(r *Recorded) bool { return r.Name == name })
}

// find returns the first element that a function accepts; nil if there is none.
func find[T any](all []T, accepts func(*T) bool) *T {
	for i := range all {
		if accepts(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// IsOver reports whether the outcome of a task is recorded.
func (l *Ledger) IsOver(task types.UID) bool { return slices.Contains(l.Over, task) }

// InCanaryStage reports whether a change has yet to pass the canaries of a policy.
func (l *Ledger) InCanaryStage(p *Policy, change string) bool {
	if change == "" || p.Canary.Count == 0 {
		return false
	}
	c := l.Change(p.Name, change)
	return c == nil || c.Passed < p.Canary.Count
}

// Pausing returns the failed change that keeps a task from starting by a policy; nil if there is none. It is the task's own, or another one
// to the same template, unless that template has succeeded in any cluster. In a cluster where it failed, another change may fix that.
func (l *Ledger) Pausing(p *Policy, c *Candidate) *Change {
	if own := l.Change(p.Name, c.Change); own != nil && own.Paused(p) {
		return own
	}
	if !l.unproven(p.Name, c.Target) {
		return nil
	}
	return find(l.Changes, func(o *Change) bool {
		return o.Policy == p.Name && o.Paused(p) && o.failedWith(c.Target) && !o.failedIn(c.Etcd)
	})
}

// unproven reports whether no change to a template is known to have succeeded in a cluster of a policy.
func (l *Ledger) unproven(policy, target string) bool {
	r := l.Recorded(policy)
	return target != "" && (r == nil || !slices.Contains(r.Proven, target))
}

func (c *Change) failedWith(target string) bool {
	return slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Target == target })
}

func (c *Change) failedIn(etcd types.UID) bool {
	return slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Etcd == etcd })
}
