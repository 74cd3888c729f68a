// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// take has the ledger record that a task has a slot, if it may take one. A grant for another resourceVersion of the task stands until a
// live read shows that it is void: an operator that was paused may still write that start.
func (c *Controller) take(ctx context.Context, v *view, task tasks.Task, candidate fleet.Candidate) (granted bool, decision fleet.Decision, err error) {
	void := ""
	for {
		stands := ""
		err = c.Store.Change(ctx, func(l *fleet.Ledger) (changed bool) {
			h := l.Holder(candidate.Task)
			if stands = ""; h == nil {
				granted, decision, changed = c.decide(l, v, task.Object, candidate)
				return changed
			}
			// It was granted before, and its start was not written.
			if h.ResourceVersion != task.Object.ResourceVersion && h.ResourceVersion != void {
				stands = h.ResourceVersion
				return false
			}
			granted, changed = true, h.ResourceVersion != task.Object.ResourceVersion
			h.ResourceVersion = task.Object.ResourceVersion
			return changed
		})
		if err != nil || stands == "" {
			return granted && err == nil, decision, err
		}
		live := &v1alpha1.EtcdOperatorTask{}
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(task.Object), live); err != nil {
			return false, decision, fmt.Errorf("reading task %s, which was granted a slot: %w", candidate.TaskName, err)
		}
		if live.ResourceVersion == stands {
			return false, c.behind("", "the cache does not show the task as it was when it got its slot"), nil
		}
		void = stands
	}
}

// decide gives a task a slot, if it may take one.
func (c *Controller) decide(l *fleet.Ledger, v *view, t *v1alpha1.EtcdOperatorTask, candidate fleet.Candidate) (granted bool, decision fleet.Decision, changed bool) {
	changed = c.adopt(l, v)
	in := c.input(v, l)
	name := unseen(l, v)
	switch {
	case bypasses(t):
	case name != "":
		return false, c.behind(name, fmt.Sprintf("EtcdFleetPolicy %s has changed, and the cache does not show how yet", name)), changed
	default:
		changed = fleet.Lapse(in) || changed
		if decision = fleet.Decide(in, candidate.Task); decision.Hold != nil {
			return false, decision, changed
		}
	}
	for _, name := range v.covering[candidate.Namespace] {
		if name != fleet.Default {
			l.Record(v.policies[name])
		}
	}
	holder := fleet.Grant(in, candidate.Task, decision)
	holder.ResourceVersion, holder.Unasked = t.ResourceVersion, bypasses(t)
	l.Grant(holder)
	return true, decision, true
}

// bypasses reports whether a person has a task start in spite of the policies. The admission policy checks that they may.
func bypasses(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Annotations[v1alpha1.AnnotationBypassFleet] == "true"
}

// behind is the decision where what is known is out of date.
func (c *Controller) behind(policy, message string) fleet.Decision {
	return fleet.Decision{Hold: &fleet.Hold{Reason: fleet.WaitingForSlot, Policy: policy, Next: c.Clock.Now().Add(stale), Message: message}}
}

// unseen names a policy that the cache does not show as the ledger knows it; empty if there is none. Nothing is granted until it does,
// or until the policy is known to be deleted.
func unseen(l *fleet.Ledger, v *view) string {
	for _, r := range l.Policies {
		if p := v.policies[r.Name]; p == nil || p.UID != r.UID || p.Generation < r.Generation {
			return r.Name
		}
	}
	return ""
}
