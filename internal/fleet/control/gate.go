// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package control is the Gate of the task engine and the controller of EtcdFleetPolicies. Package fleet decides which tasks may start, and
// package store records each start before it happens.
package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
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
	// Namespaces are those in which the operator works; none: in all.
	Namespaces []string
	// Patience is how long a rollout must make no progress for its change to have failed. New sets ten minutes, the default of
	// progressDeadline. The deadline of the task does not count: with a short one, a tenant could pause a change for everyone.
	Patience time.Duration
	// Looked returns when the members of an Etcd were asked for what its status says now; zero if this process does not know. It is nil
	// where another operator writes the status.
	Looked func(*v1alpha1.Etcd) time.Time

	wakes chan event.GenericEvent
	// pokes are for the controller itself.
	pokes chan event.GenericEvent

	// looking is held while the cache is read, so that concurrent readers share one view.
	looking lock.One

	mu sync.Mutex
	// passed is when the controller last looked at the fleet.
	passed time.Time
	// seen is what the cache showed at a time.
	seen   *view
	seenAt time.Time
	// waiting are the tasks that have to wait, and since is when each Etcd began to wait.
	waiting map[types.UID]*waiter
	since   map[types.UID]since
	// served is how many slots each namespace has had.
	served map[string]float64
	// prints are fingerprints that are known.
	prints map[string]fingerprints
	// census is the last count of tasks for new policies.
	census census
	// rebuilds is how often the ledger was rebuilt, and full is when it last had no room for another cluster.
	rebuilds int
	full     time.Time

	// Only the controller uses the rest: how long clusters have been well, or lacked no member after their task was deleted, and which
	// changes were paused.
	well   lasting.Timers[types.UID, bool]
	unwell lasting.Timers[types.UID, bool]
	whole  lasting.Timers[types.UID, bool]
	paused map[string]bool
	// followed is when it last recorded what has become of the holders; zero if it has not.
	followed time.Time
	// newer: the ledger is a newer operator's, and events have said so.
	newer bool
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
	// soon is when one of the first tasks in line asks again, and late when the others do. They are also woken when it is their turn; asking
	// in between keeps their status true.
	soon, late = 30 * time.Second, 10 * time.Minute
	// near is how many tasks are among the first.
	near = 20
	// answer is how long a task that was woken may take to ask. After that, others go ahead of it.
	answer = 15 * time.Second
	// kept is how long an Etcd that does not ask keeps its place.
	kept = 15 * time.Minute
	// stale is when to ask again if the cache is behind.
	stale = time.Second
)

// New returns a Controller. It rebuilds the ledger if it is lost.
func New(c client.Client, live client.Reader, namespace string, now clock.PassiveClock, recorder events.EventRecorder, metrics *Metrics) *Controller {
	f := &Controller{
		Patience: 10 * time.Minute,
		Client:   c, Live: live, Clock: now, Recorder: recorder, Metrics: metrics, wakes: make(chan event.GenericEvent, 1024), pokes: make(chan event.GenericEvent, 1),
		waiting: map[types.UID]*waiter{}, since: map[types.UID]since{}, served: map[string]float64{}, prints: map[string]fingerprints{}, paused: map[string]bool{},
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
	if err != nil {
		return nil, err
	}
	if !v.asks(task.Object) {
		return c.ungoverned(ctx, v, task.Object)
	}
	candidate, err := c.candidate(ctx, v, task)
	if err != nil {
		return nil, err
	}
	task.Object.Status.Change = candidate.Change
	c.enter(candidate)
	granted, decision, err := c.take(ctx, v, task, candidate)
	switch {
	case errors.Is(err, store.ErrNewer):
		return &engine.Wait{Reason: v1alpha1.ReasonFleetPaused, Message: err.Error(), RequeueAfter: soon}, nil
	case errors.Is(err, store.ErrFull):
		return &engine.Wait{Reason: v1alpha1.ReasonWaitingForSlot, Message: err.Error(), RequeueAfter: c.filled()}, nil
	case err != nil:
		return nil, err
	case granted:
		c.leave(candidate.Task, !runs(task.Object))
		return nil, nil
	}
	c.poke()
	wait := c.wait(decision)
	if runs(task.Object) {
		wait.Message += "; the task has stopped nothing yet, and keeps its slot"
	}
	return wait, nil
}

// runs reports whether a task has started.
func runs(t *v1alpha1.EtcdOperatorTask) bool { return t.Status.State == v1alpha1.TaskStateInProgress }

// ungoverned lets a task start that needs no slot according to the cache, unless the API server has a policy for it.
func (c *Controller) ungoverned(ctx context.Context, v *view, t *v1alpha1.EtcdOperatorTask) (*engine.Wait, error) {
	if bypasses(t) {
		return nil, nil
	}
	behind, err := c.confirm(ctx, v, t)
	if err != nil || behind == "" {
		return nil, err
	}
	return c.wait(c.behind("", behind)), nil
}

// filled notes that the ledger has no room, and returns when a task is to ask again. Each one that asks has the whole ledger encoded.
func (c *Controller) filled() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = c.Clock.Now()
	return late
}

// poke triggers a reconcile unless one was recent: without a policy, nothing else tells the controller that tasks wait.
func (c *Controller) poke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := c.Clock.Now().Sub(c.passed); age >= 0 && age < 2*interval {
		return
	}
	select {
	case c.pokes <- event.GenericEvent{Object: &v1alpha1.EtcdOperatorTask{}}:
	default:
	}
}

// wait translates a decision for the task engine.
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
func (c *Controller) Pause(ctx context.Context, t *v1alpha1.EtcdOperatorTask) *engine.Wait {
	if !needsSlot(t.Spec.Type) || bypasses(t) {
		return nil
	}
	v, err := c.look(ctx)
	if err != nil || v == nil {
		return nil
	}
	now := c.Clock.Now()
	for _, name := range v.covering[t.Namespace] {
		p := v.policies[name]
		switch {
		case !p.PauseAtEnd:
			continue
		case p.UnknownWindows != "":
			return &engine.Wait{Reason: v1alpha1.ReasonWaitingForWindow, RequeueAfter: soon, Message: fmt.Sprintf(
				"EtcdFleetPolicy %s is invalid, so it is not known whether a window is open, and spec.atEnd is Pause: %s; fix it", name, p.UnknownWindows)}
		}
		if open, _, next := p.Opens(now); !open {
			message := fmt.Sprintf("no window of EtcdFleetPolicy %s is open, and spec.atEnd is Pause: the task is paused between two steps, and keeps its slot", name)
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
		Task: t.UID, TaskName: t.Name, Namespace: t.Namespace, Etcd: task.Etcd.UID, EtcdName: task.Etcd.Name, Class: fleet.Person,
		Wave: v.waves[t.Namespace], OwnWave: task.Etcd.Labels[v.orderBy(t.Namespace)], BackedUp: backedUp(task.Etcd), Alarm: alarmOf(task.Etcd),
	}
	var err error
	if candidate.Beside, err = c.beside(ctx, v, task); err != nil {
		return candidate, err
	}
	switch {
	case automatic(t):
		candidate.Class = fleet.Automatic
	case t.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy:
		candidate.Class = fleet.Upkeep
	}
	if lacksMember(task.Etcd) != nil && task.Etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady) {
		candidate.Class = fleet.Repair
	}
	if v.covering[t.Namespace][0] == fleet.Default {
		// It has no canaries, and pauses no change.
		return candidate, nil
	}
	is, err := c.change(ctx, task)
	candidate.Change, candidate.Target = is.change, is.target
	return candidate, err
}

// beside returns another running task of the Etcd; empty if there is none. It reads the task again, since the engine may already have seen its
// end.
func (c *Controller) beside(ctx context.Context, v *view, task tasks.Task) (types.UID, error) {
	for uid, shown := range v.tasks {
		if uid == task.Object.UID || etcdOf(shown) != task.Etcd.UID || shown.Status.State != v1alpha1.TaskStateInProgress {
			continue
		}
		t := &v1alpha1.EtcdOperatorTask{}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(shown), t); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading task %s/%s, which runs: %w", shown.Namespace, shown.Name, err)
		}
		if t.UID == uid && t.Status.State == v1alpha1.TaskStateInProgress {
			return uid, nil
		}
	}
	return "", nil
}
