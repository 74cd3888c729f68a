// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// interval is how often the fleet is reconciled while there is a policy, besides after events.
const interval = 5 * time.Second

// Reconcile reconciles the whole fleet: it releases slots, follows changes, publishes the status of policies, and wakes the tasks whose turn
// it is. Without a policy, and while the default limits nothing, it sends no request. If something cannot be read or counted, only the tasks
// that depend on it wait, and the error is returned at the end.
func (c *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	c.refresh()
	v, err := c.look(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if v == nil {
		c.Metrics.keep(nil)
		return c.dismiss(), nil
	}
	c.Metrics.keep(v.policies)
	c.forget(v)
	known, err := c.Store.Read(ctx)
	if errors.Is(err, store.ErrNewer) {
		c.refuse(ctx, v, err.Error())
		return ctrl.Result{RequeueAfter: interval}, nil
	}
	c.newer = false
	if err != nil {
		return ctrl.Result{}, err
	}
	n, unread := c.news(ctx, v, known)
	after, err := c.write(ctx, v, &n)
	if err != nil {
		return ctrl.Result{}, errors.Join(unread, err)
	}
	c.followed = c.Clock.Now()
	if n.ledger == c.generation() {
		c.counted(n.census)
	}
	c.Metrics.ledger(after)
	in := c.input(v, after)
	next, awaited := fleet.Next(in)
	c.wake(append(next, c.report(v, in)...))
	c.Metrics.await(v.policies, awaited)
	if len(v.objects)+len(after.Holders)+len(in.Waiting) == 0 {
		return ctrl.Result{}, unread
	}
	return ctrl.Result{RequeueAfter: interval}, errors.Join(unread, c.publish(ctx, v, in))
}

// refuse reports for each policy that nothing starts, since a newer operator has written the ledger. It does not write their statuses, which
// may have fields that this operator does not know.
func (c *Controller) refuse(ctx context.Context, v *view, message string) {
	for i := range v.objects {
		name := v.objects[i].Name
		c.Metrics.paused.WithLabelValues(name).Set(1)
		if !c.newer {
			c.warn(v, name, v1alpha1.ReasonLedgerOfNewerOperator, message)
		}
	}
	if !c.newer {
		log.FromContext(ctx).Info("Nothing starts", "reason", message)
	}
	c.newer = true
}

// news is what a reconcile has found that the ledger does not know.
type news struct {
	// ledger is how many ledgers were rebuilt before: a count for a ledger that was lost since must be repeated.
	ledger   int
	found    []finding
	replaced []types.UID
	// gap: the holders were not followed for a while.
	gap    bool
	census census
	// met are the tasks that run without a slot.
	met *met
	// missing are the changes of rollouts that have none in the ledger.
	missing []fleet.Holder
}

// write records news in the ledger, and returns the ledger. Tasks that run without a slot are read again if the ledger was written since.
func (c *Controller) write(ctx context.Context, v *view, n *news) (after *fleet.Ledger, err error) {
	for range maxMeetings {
		var unknown []*v1alpha1.EtcdOperatorTask
		err := c.Store.Change(ctx, func(l *fleet.Ledger) bool {
			after, unknown = l, strangers(l, v, n.met, n.census.run...)
			return len(unknown) == 0 && c.record(l, v, *n)
		})
		if err != nil || len(unknown) == 0 {
			return after, err
		}
		if err := c.meet(ctx, unknown, n.met); err != nil {
			log.FromContext(ctx).Error(err, "Tasks that could not be read count as running")
		}
	}
	return nil, errBusy
}

// maxMeetings is how often a reconcile reads the tasks that run without a slot; after that, it returns errBusy.
const maxMeetings = 5

var errBusy = errors.New("the ledger of the fleet was written each time that the tasks without a slot were read")

// news gathers what the ledger does not know yet. The error says what could not be read.
func (c *Controller) news(ctx context.Context, v *view, known *fleet.Ledger) (n news, unread error) {
	var errs [4]error
	n.ledger = c.generation()
	n.gap = c.unfollowed()
	n.found, errs[0] = c.follow(ctx, v, known)
	n.replaced, errs[1] = c.replaced(ctx, v, known)
	n.census = c.countTasks(ctx, v, func(policy string) bool {
		r := known.Recorded(policy)
		return r == nil || slices.Contains(n.replaced, r.UID)
	})
	errs[2] = n.census.err
	n.missing = c.missing(ctx, v, known)
	n.met = n.census.met(known.Revision)
	errs[3] = c.meet(ctx, strangers(known, v, n.met), n.met)
	return n, errors.Join(errs[:]...)
}

// record records news in the ledger, and reports whether that changes it.
func (c *Controller) record(l *fleet.Ledger, v *view, n news) (changed bool) {
	changed = l.Forget(n.replaced)
	if n.gap {
		changed = l.Unwatched() || changed
	}
	if n.ledger == c.generation() {
		changed = n.census.record(l, v, n.met) || changed
	}
	changed = c.adopt(l, v, n.met) || changed
	changed = l.Join(v.policies, v.covering, n.missing, v.at) || changed
	for i := range v.objects {
		o := &v.objects[i]
		for _, token := range strings.Split(o.Annotations[v1alpha1.AnnotationResumeChange], ",") {
			changed = l.ResumeBy(o.Name, strings.TrimSpace(token)) || changed
		}
	}
	for _, f := range n.found {
		changed = f.apply(l, c.Clock.Now()) || changed
	}
	if changed {
		l.Prune(v.covering, func() []fleet.Candidate { return c.asking(v) })
	}
	return changed
}

// replaced returns the policies that the ledger knows and the API server no longer has.
func (c *Controller) replaced(ctx context.Context, v *view, l *fleet.Ledger) (all []types.UID, err error) {
	for _, r := range l.Policies {
		if p := v.policies[r.Name]; r.Name == fleet.Default || p != nil && p.UID == r.UID {
			continue
		}
		live := &v1alpha1.EtcdFleetPolicy{}
		if unread := client.IgnoreNotFound(c.Live.Get(ctx, types.NamespacedName{Name: r.Name}, live)); unread != nil {
			err = errors.Join(err, fmt.Errorf("reading EtcdFleetPolicy %s, which the ledger knows: %w", r.Name, unread))
		} else if live.UID != r.UID {
			all = append(all, r.UID)
		}
	}
	return all, err
}

// refresh discards the view, so that the cache is read again.
func (c *Controller) refresh() {
	defer c.looking.Lock()()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seenAt, c.passed = time.Time{}, c.Clock.Now()
}

// wake makes tasks ask again; only the first while the ledger has no room.
func (c *Controller) wake(tasks []types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lasting.Unbroken(c.full, c.Clock.Now(), 2*interval) {
		tasks = tasks[:min(len(tasks), near)]
	}
	for _, uid := range tasks {
		if w := c.waiting[uid]; w != nil && w.woken.IsZero() && c.send(w) {
			w.woken = c.Clock.Now()
		}
	}
}

// send makes a task ask again. It returns false if the engine is busy: then the task is woken in the next reconcile, or asks by itself.
func (c *Controller) send(w *waiter) bool {
	etcd := &v1alpha1.Etcd{}
	etcd.Namespace, etcd.Name = w.Namespace, w.EtcdName
	select {
	case c.wakes <- event.GenericEvent{Object: etcd}:
		return true
	default:
		return false
	}
}

// dismiss makes all waiting tasks ask again, since there is no policy any more.
func (c *Controller) dismiss() ctrl.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, w := range c.waiting {
		if !c.send(w) {
			return ctrl.Result{RequeueAfter: stale}
		}
		delete(c.waiting, uid)
	}
	return ctrl.Result{}
}

// finding is a change of the state of a holder.
type finding struct {
	task types.UID
	kind kind
	// reason of a failure; for a task that is over, the state in which it left its members.
	reason string
	// version is the resourceVersion for which a task that has not started had its slot: it may have been granted another since.
	version string
}

// kind of a finding.
type kind int

const (
	succeeded kind = iota // its task has succeeded, and was cleaned up after
	unstarted             // its task has not started, and can no longer start under the resourceVersion of the grant
	released              // its task is over, and the change neither succeeded nor failed
	aborted               // its task was deleted
	failed                // its task has failed, and was cleaned up after
	failing               // the change failed, and its task runs
	baseline              // its watch compares with this state
	soaked                // it was watched for long enough
	broke                 // something broke while it was watched
)

// apply records a finding, and reports whether it is new.
func (f finding) apply(l *fleet.Ledger, now time.Time) bool {
	h := l.Holder(f.task)
	if h == nil || f.kind == unstarted && f.version != h.ResourceVersion {
		return false
	}
	switch f.kind {
	case succeeded:
		if !h.Ended.IsZero() {
			return false
		}
		l.Succeeded(f.task, now)
	case unstarted:
		l.Withdraw(f.task)
	case released:
		l.Abandoned(f.task, f.reason, now)
		l.Release(f.task, now)
	case aborted:
		if h.Aborted && (h.Counted || !h.Canary || f.reason == "") {
			return false
		}
		l.Aborted(f.task, f.reason, now)
	case failed, broke:
		l.Failed(f.task, f.reason, now)
		l.Release(f.task, now)
	case failing:
		if !h.MayFail() {
			return false
		}
		l.Failed(f.task, f.reason, now)
	case baseline:
		h.Baseline = f.reason
	case soaked:
		l.Soaked(f.task, now)
	}
	return true
}

// report emits an event for each newly paused change, and returns the tasks that wait for it, whose status should say so.
func (c *Controller) report(v *view, in fleet.Input) (told []types.UID) {
	paused := map[string]bool{}
	for i := range in.Ledger.Changes {
		change := &in.Ledger.Changes[i]
		p := v.policies[change.Policy]
		if p == nil || !change.Paused(p) {
			continue
		}
		key := fmt.Sprint(change.Policy, "/", change.Name, "/", change.Resumed)
		if paused[key] = true; !c.paused[key] {
			c.warn(v, change.Policy, v1alpha1.ReasonChangeFailed, change.PausedMessage(change.Name))
			for j := range in.Waiting {
				if in.Ledger.Pausing(p, &in.Waiting[j]) == change {
					told = append(told, in.Waiting[j].Task)
				}
			}
		}
	}
	c.paused = paused
	return told
}
