// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger is who holds slots, and what has become of changes. It is the only truth of both: what is not in it was not granted. An operator
// leaves a ledger alone that has a field which it does not know (package store).
type Ledger struct {
	// Revision is that of the stored ledger which this one is made of; empty if none is stored.
	Revision string `json:"-"`
	// Rebuilt is when it was last made of the tasks that ran, because it was lost; zero if it never was.
	Rebuilt time.Time `json:"rebuilt,omitzero"`
	// Holders are the clusters whose task runs, and those that are watched after it.
	Holders []Holder `json:"holders,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Failing are the Etcds in which a change failed, and none has succeeded since. The next change begins with them.
	Failing []types.UID `json:"failing,omitempty"`
	// Over are the newest tasks of which it is recorded what has become of them: an operator that has read one before that gets no slot for it.
	Over []types.UID `json:"over,omitempty"`
	// Policies are those by which slots were granted.
	Policies []Recorded `json:"policies,omitempty"`
}

// Recorded is a policy as the Ledger knows it. Nothing is granted by an older generation.
type Recorded struct {
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	// Seconds is how long the newest slots were held.
	Seconds []int `json:"seconds,omitempty"`
	// Proven are the templates with which a change has succeeded in a cluster, the newest last.
	Proven []string `json:"proven,omitempty"`
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
	// Change is the fingerprint, and Target that of all of the new template; empty for a task that changes nothing, and for a restart.
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
	// Counted: its failure is recorded already.
	Counted bool `json:"counted,omitempty"`
	// Ended is when its task had succeeded: the cluster is watched from then on. Zero while the task runs.
	Ended time.Time `json:"ended,omitzero"`
	// Baseline is what must not change while it is watched; empty while it is not known.
	Baseline string `json:"baseline,omitempty"`
	// Aborted: its task was deleted while it ran. It keeps its slot until the cluster lacks no member, or its next task takes it over.
	Aborted bool `json:"aborted,omitempty"`
}

// Over reports whether its task is over, and the cluster is only watched: its next task ends that.
func (h *Holder) Over() bool { return !h.Ended.IsZero() || h.Aborted }

// MayFail reports whether its change can fail: it has one, whose failure is not counted yet.
func (h *Holder) MayFail() bool { return h.Change != "" && !h.Counted }

// UsesSlot reports whether it counts against limits.
func (h *Holder) UsesSlot() bool { return h.Ended.IsZero() || h.Canary }

// Change is what has become of a change in the clusters of a policy.
type Change struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	// Since is when the first task with it got a slot, and Last when a cluster last got it, or was done with it.
	Since time.Time `json:"since"`
	Last  time.Time `json:"last,omitzero"`
	// Passed is how many canaries it has passed, and Done in how many clusters it succeeded, those included.
	Passed int `json:"passed,omitempty"`
	Done   int `json:"done,omitempty"`
	// Failures since it was last resumed, by Etcd.
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

// IsOver reports whether it is recorded what has become of a task.
func (l *Ledger) IsOver(task types.UID) bool { return slices.Contains(l.Over, task) }

// InCanaryStage reports whether a change has yet to pass canaries of a policy.
func (l *Ledger) InCanaryStage(p *Policy, change string) bool {
	if change == "" || p.Canary.Count == 0 {
		return false
	}
	c := l.Change(p.Name, change)
	return c == nil || c.Passed < p.Canary.Count
}

// Pausing returns the change that failed and for which a task does not start by a policy; nil if there is none. It is its own, or another one
// to the same template, unless that has succeeded anywhere: a template that is bad in place of one is bad in place of others. Where it failed,
// another change may set that right.
func (l *Ledger) Pausing(p *Policy, c *Candidate) *Change {
	if own := l.Change(p.Name, c.Change); own != nil && own.Paused(p) {
		return own
	}
	if !l.unproven(p.Name, c.Target) {
		return nil
	}
	for i := range l.Changes {
		if o := &l.Changes[i]; o.Policy == p.Name && o.Paused(p) && o.failedWith(c.Target) && !o.failedIn(c.Etcd) {
			return o
		}
	}
	return nil
}

// unproven reports whether it is not known of a template that a change to it has succeeded in a cluster of a policy.
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
