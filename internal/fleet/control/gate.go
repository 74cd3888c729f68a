// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package control lets tasks wait for the fleet: it is the Gate of the task engine, and the controller of EtcdFleetPolicies. What may
// start is decided by package fleet, and recorded by package store before it starts.
package control

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Controller is the Gate, and the controller of policies.
type Controller struct {
	// Client reads from the cache and writes to the API server, and Live reads from it.
	Client   client.Client
	Live     client.Reader
	Store    *store.Store
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	Metrics  *Metrics

	wakes chan event.GenericEvent

	mu sync.Mutex
	// seen is what the cache showed at a time.
	seen   *view
	seenAt time.Time
	// waiting are the tasks that asked and have to wait, and since is when an Etcd began to wait.
	waiting map[types.UID]*waiter
	since   map[types.UID]since
	// served is how many slots a namespace has had.
	served map[string]float64
	// prints are fingerprints that are known.
	prints map[string]string

	// The rest is used by the controller alone: for how long clusters have been well, and which changes were paused.
	well   lasting.Timers[types.UID, bool]
	unwell lasting.Timers[types.UID, bool]
	paused map[string]bool
}

// waiter is a task that waits.
type waiter struct {
	fleet.Candidate
	// entered is when it last asked.
	entered time.Time
	// woken is when it was last told to ask; zero if it has asked since.
	woken time.Time
}

// since is when an Etcd began to wait, and when it last asked.
type since struct{ began, asked time.Time }

const (
	// soon is when a task asks again that is among the first in line, and late when the others do. They are woken when it is their
	// turn, and ask besides so that what their status says stays true.
	soon, late = 30 * time.Second, 10 * time.Minute
	// near is how many are among the first.
	near = 20
	// answer is for how long a task that was woken may take to ask: after that, others go ahead of it.
	answer = 15 * time.Second
	// kept is for how long the place of an Etcd is kept that does not ask.
	kept = 15 * time.Minute
	// stale is when to ask again if the cache is behind.
	stale = time.Second
)

// New returns a Controller. It rebuilds the ledger if it is lost.
func New(c client.Client, live client.Reader, namespace string, now clock.PassiveClock, recorder events.EventRecorder, metrics *Metrics) *Controller {
	f := &Controller{
		Client: c, Live: live, Clock: now, Recorder: recorder, Metrics: metrics, wakes: make(chan event.GenericEvent, 1024),
		waiting: map[types.UID]*waiter{}, since: map[types.UID]since{}, served: map[string]float64{}, prints: map[string]string{}, paused: map[string]bool{},
	}
	f.Store = &store.Store{Client: c, Live: live, Namespace: namespace, Rebuild: f.rebuild}
	return f
}

// Wakes implements engine.Gate.
func (c *Controller) Wakes() <-chan event.GenericEvent { return c.wakes }

// Ask implements engine.Gate.
func (c *Controller) Ask(ctx context.Context, task tasks.Task) (*engine.Wait, error) {
	if !needsSlot(task.Object.Spec.Type) {
		return nil, nil
	}
	v, err := c.look(ctx)
	if err != nil || v == nil || len(v.covering[task.Object.Namespace]) == 0 {
		return nil, err
	}
	candidate, err := c.candidate(ctx, v, task)
	if err != nil {
		return nil, err
	}
	c.enter(candidate)
	granted, decision, err := c.take(ctx, v, task, candidate)
	if err != nil {
		return nil, err
	}
	if granted {
		c.leave(candidate.Task, true)
		return nil, nil
	}
	return c.wait(decision), nil
}

// take has the ledger record that a task has a slot, if it may take one.
func (c *Controller) take(ctx context.Context, v *view, task tasks.Task, candidate fleet.Candidate) (granted bool, decision fleet.Decision, err error) {
	version := task.Object.ResourceVersion
	err = c.Store.Change(ctx, func(l *fleet.Ledger) bool {
		granted = true
		if h := l.Holder(candidate.Task); h != nil {
			// It was granted before, and its start was not written.
			changed := h.ResourceVersion != version
			h.ResourceVersion = version
			return changed
		}
		changed := c.adopt(l, v)
		for _, p := range v.policies {
			if r := l.Recorded(p.Name); r != nil && r.UID == p.UID && r.Generation > p.Generation {
				granted, decision = false, fleet.Decision{Hold: &fleet.Hold{
					Reason: fleet.WaitingForSlot, Policy: p.Name, Next: c.Clock.Now().Add(stale),
					Message: fmt.Sprintf("EtcdFleetPolicy %s has changed, and the cache does not show how yet", p.Name),
				}}
				return changed
			}
		}
		in := c.input(v, l)
		if decision = fleet.Decide(in, candidate.Task); decision.Hold != nil {
			granted = false
			return changed
		}
		for _, name := range v.covering[candidate.Namespace] {
			l.Record(v.policies[name])
		}
		holder := fleet.Grant(in, candidate.Task, decision)
		holder.ResourceVersion = version
		l.Grant(holder)
		return true
	})
	return granted && err == nil, decision, err
}

// wait is what a decision means for a task.
func (c *Controller) wait(d fleet.Decision) *engine.Wait {
	again := late
	if d.Before < near {
		again = soon
	}
	if !d.Hold.Next.IsZero() {
		again = min(again, max(d.Hold.Next.Sub(c.Clock.Now()), stale))
	}
	message := d.Hold.Message
	if d.Before > 0 {
		message += fmt.Sprintf(" (number %d in line)", d.Before+1)
	}
	return &engine.Wait{Reason: string(d.Hold.Reason), Message: message, RequeueAfter: again}
}

// Pause implements engine.Gate: a task pauses while no window of a policy that says so is open.
func (c *Controller) Pause(t *v1alpha1.EtcdOperatorTask) *engine.Wait {
	if !needsSlot(t.Spec.Type) {
		return nil
	}
	// It reads the cache.
	v, err := c.look(context.Background())
	if err != nil || v == nil {
		return nil
	}
	now := c.Clock.Now()
	for _, name := range v.covering[t.Namespace] {
		p := v.policies[name]
		if !p.PauseAtEnd || p.Invalid != "" {
			continue
		}
		if open, _, next := p.Opens(now); !open {
			message := fmt.Sprintf("the windows of EtcdFleetPolicy %s have closed, and spec.atEnd is Pause: the task is paused between two steps, and keeps its slot", name)
			if !next.IsZero() {
				message += "; it continues at " + next.UTC().Format(time.RFC3339)
			}
			return &engine.Wait{Reason: v1alpha1.ReasonWaitingForWindow, Message: message, RequeueAfter: soon}
		}
	}
	return nil
}

// candidate makes a candidate of a task.
func (c *Controller) candidate(ctx context.Context, v *view, task tasks.Task) (fleet.Candidate, error) {
	t := task.Object
	candidate := fleet.Candidate{
		Task: t.UID, TaskName: t.Name, Namespace: t.Namespace, Etcd: task.Etcd.UID, EtcdName: task.Etcd.Name, Wave: v.waves[task.Etcd.UID], Class: fleet.Person,
	}
	if t.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy {
		candidate.Class = fleet.Upkeep
		if t.Spec.Type.IsRollout() {
			candidate.Class = fleet.Automatic
		}
	}
	if lacksMember(task.Etcd) != nil && task.Etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady) {
		candidate.Class = fleet.Repair
	}
	var err error
	candidate.Change, err = c.change(ctx, task)
	return candidate, err
}

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

// join has a namespace that did not wait begin where the least served one is that does: it hoards no credit. The caller has the lock.
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

// input is what is decided on.
func (c *Controller) input(v *view, l *fleet.Ledger) fleet.Input {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := fleet.Input{Now: c.Clock.Now(), Policies: v.policies, Covering: v.covering, Ledger: l, Impaired: v.impaired, Served: maps.Clone(c.served)}
	for _, w := range c.waiting {
		in.Waiting = append(in.Waiting, w.Candidate)
	}
	return in
}

// forget forgets the tasks that do not wait any more, those that were woken and have not asked, and places that nobody claims.
func (c *Controller) forget(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	for uid, w := range c.waiting {
		t := v.tasks[uid]
		gone := v.at.After(w.entered) && (t == nil || t.Spec.Suspend || t.Status.State == v1alpha1.TaskStateInProgress)
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
