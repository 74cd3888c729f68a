// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"

	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"k8s.io/apimachinery/pkg/types"
)

// enter puts a task in line. It keeps the place that its Etcd had.
func (c *Controller) enter(candidate fleet.Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	s, known := c.since[candidate.Etcd]
	if !known {
		s.began = now
		c.join(candidate.Namespace)
	}
	s.asked = now
	c.since[candidate.Etcd] = s
	candidate.Since, candidate.ChangeSince = s.began, now
	for uid, w := range c.waiting {
		if w.Etcd != candidate.Etcd {
			continue
		}
		if w.Change == candidate.Change {
			candidate.ChangeSince = w.ChangeSince
		}
		// An earlier task of the Etcd has ended: this one has its turn.
		delete(c.waiting, uid)
	}
	c.waiting[candidate.Task] = &waiter{Candidate: candidate, entered: now}
}

// join starts a namespace that was not waiting at the level of the least served one that is, so that it gains no credit by not waiting. The
// caller holds the mutex.
func (c *Controller) join(namespace string) {
	least, found := 0.0, false
	for _, w := range c.waiting {
		if w.Namespace == namespace {
			return
		}
		if n := c.served[w.Namespace]; !found || n < least {
			least, found = n, true
		}
	}
	c.served[namespace] = max(c.served[namespace], least)
}

// leave removes a task from the line.
func (c *Controller) leave(task types.UID, granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[task]
	if w == nil {
		return
	}
	if delete(c.waiting, task); granted {
		c.served[w.Namespace]++
		c.Metrics.waited(c.Clock.Now().Sub(c.since[w.Etcd].began))
		delete(c.since, w.Etcd)
	}
}

// input returns the input of a decision.
func (c *Controller) input(v *view, l *fleet.Ledger) fleet.Input {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := fleet.Input{Now: c.Clock.Now(), Policies: inForce(v.policies, l), Covering: v.covering, Ledger: l, Asked: v.asked, Failing: lastFailed(v, l), Impaired: v.impaired, Served: maps.Clone(c.served)}
	for _, w := range c.waiting {
		in.Waiting = append(in.Waiting, w.Candidate)
	}
	return in
}

// asking returns the tasks that ask for changes: those in line, and those that were before this operator, by their status.
func (c *Controller) asking(v *view) (all []fleet.Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		all = append(all, w.Candidate)
	}
	for uid, t := range v.tasks {
		if c.waiting[uid] == nil && t.Status.Change != "" {
			all = append(all, fleet.Candidate{Namespace: t.Namespace, Change: t.Status.Change})
		}
	}
	return all
}

// lastFailed returns the namespaces of the Etcds in which the last change failed, and which exist and are not hibernated: others ask for nothing.
func lastFailed(v *view, l *fleet.Ledger) map[types.UID]string {
	all := map[types.UID]string{}
	for _, uid := range l.Failing {
		if etcd := v.etcds[uid]; etcd != nil && etcd.Spec.Replicas > 0 {
			all[uid] = etcd.Namespace
		}
	}
	return all
}

// inForce returns the policies, with those that the ledger does not know yet marked invalid, so that they grant nothing.
func inForce(policies map[string]*fleet.Policy, l *fleet.Ledger) map[string]*fleet.Policy {
	all := maps.Clone(policies)
	for name, p := range policies {
		if l.Recorded(name) == nil {
			unknown := *p
			unknown.Invalid, all[name] = "its tasks are not counted yet", &unknown
		}
	}
	return all
}

// forget removes tasks that no longer wait, tasks that were woken and have not asked, and places that no task claims. A recreation that runs may
// wait until it stops the pods.
func (c *Controller) forget(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	for uid, w := range c.waiting {
		t := v.tasks[uid]
		gone := v.at.After(w.entered) && (t == nil || t.Spec.Suspend || runs(t) && !t.StopsNothingYet())
		if gone && t == nil && !c.send(w) {
			// It may need no slot any more, and would not ask before long.
			continue
		}
		if gone || !w.woken.IsZero() && now.Sub(w.woken) > answer {
			delete(c.waiting, uid)
		}
	}
	for etcd, s := range c.since {
		if now.Sub(s.asked) > kept {
			delete(c.since, etcd)
		}
	}
}
