// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// annotationFence is written to tasks that have not started when the ledger is rebuilt, a policy is new, or a slot is given back: it
// changes their resourceVersion, and the start that an earlier answer allowed can no longer be written.
const annotationFence = "druid.gardener.cloud/fleet-ledger-rebuilt"

// rebuild makes a ledger from the running tasks and from the changes in the statuses of policies. Policies whose tasks cannot be counted
// remain unknown to it.
func (c *Controller) rebuild(ctx context.Context) (*fleet.Ledger, error) {
	c.lost()
	now := c.Clock.Now()
	l := &fleet.Ledger{}
	policies := &v1alpha1.EtcdFleetPolicyList{}
	if err := c.Live.List(ctx, policies); err != nil {
		return nil, fmt.Errorf("listing the policies of the fleet: %w", err)
	}
	for i := range policies.Items {
		remember(l, &policies.Items[i], now)
		if policies.Items[i].Status.ObservedGeneration > 0 {
			// There was a ledger when this was written.
			l.Rebuilt = now
		}
	}
	v, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	for i := range policies.Items {
		if !v.knows(&policies.Items[i]) {
			return nil, errors.New(hasChanged(policies.Items[i].Name))
		}
	}
	if v == nil {
		return l, nil
	}
	found := c.countTasks(ctx, v, func(string) bool { return true })
	c.counted(found)
	found.record(l, v, found.met(""))
	if found.err != nil {
		log.FromContext(ctx).Error(found.err, "Tasks could not be counted for the ledger of the fleet: nothing starts by the policies of their namespaces until they are")
	}
	log.FromContext(ctx).Info("Rebuilt the ledger of the fleet", "holders", len(l.Holders), "changes", len(l.Changes))
	return l, nil
}

// census is a count of the running tasks in the namespaces of policies that the ledger does not know yet. It fences the tasks there that
// have not started: an answer from before the count can no longer start them.
type census struct {
	run []fleet.Holder
	// complete are the policies all of whose namespaces were counted: nothing is granted by the others. uncounted says why not.
	complete  map[string]bool
	uncounted map[string]error
	// done are the namespaces that were counted for a policy which is not complete, and fenced are the tasks of others, and for which
	// policies: neither is written to again, unless there is a gap before the next count.
	done   map[placed]bool
	fenced map[types.UID]string
	// at is when it ended: it may take longer than a gap.
	at  time.Time
	err error
}

// placed names a namespace of a policy.
type placed struct {
	policy    types.UID
	namespace string
}

// countTasks counts tasks for the policies that are new.
func (c *Controller) countTasks(ctx context.Context, v *view, isNew func(policy string) bool) census {
	before := c.lastCensus()
	if !lasting.Unbroken(before.at, c.Clock.Now(), maxGap) {
		before = census{}
	}
	n := census{complete: map[string]bool{}, uncounted: map[string]error{}, done: map[placed]bool{}, fenced: map[types.UID]string{}}
	for _, namespace := range slices.Sorted(maps.Keys(v.covering)) {
		wanted, of := []string(nil), ""
		for _, name := range v.covering[namespace] {
			at := placed{v.policies[name].UID, namespace}
			if !isNew(name) {
				continue
			}
			if n.done[at] = true; !before.done[at] {
				wanted, of = append(wanted, name), of+string(at.policy)+"/"
			}
		}
		if len(wanted) == 0 {
			continue
		}
		run, fenced, err := c.count(ctx, v, namespace, func(task types.UID) bool { return before.fenced[task] == of })
		if n.run = append(n.run, run...); err == nil {
			continue
		}
		n.err = errors.Join(n.err, err)
		for _, name := range wanted {
			n.uncounted[name] = cmp.Or(n.uncounted[name], err)
			delete(n.done, placed{v.policies[name].UID, namespace})
		}
		for _, task := range fenced {
			n.fenced[task] = of
		}
	}
	for name, p := range v.policies {
		n.complete[name] = isNew(name) && n.uncounted[name] == nil
		if n.complete[name] {
			maps.DeleteFunc(n.done, func(at placed, _ bool) bool { return at.policy == p.UID })
		}
	}
	n.at = c.Clock.Now()
	return n
}

// met returns the running tasks of the count, which began at a revision of the ledger.
func (n *census) met(revision string) *met {
	m := &met{revision: revision}
	for _, h := range n.run {
		m.add(h.Task, true)
	}
	return m
}

// record records who runs, and the policies that are in force from now on. It reports whether there are any. Whatever runs with a change that
// has yet to pass canaries is one: nothing else would say that the change is bad.
func (n *census) record(l *fleet.Ledger, v *view, m *met) (changed bool) {
	for _, h := range n.run {
		if l.Holder(h.Task) != nil || !m.runs[h.Task] {
			continue
		}
		h.Canary = slices.ContainsFunc(h.Policies, func(name string) bool { return v.policies[name] != nil && l.InCanaryStage(v.policies[name], h.Change) })
		l.Grant(h)
		changed = true
	}
	for _, name := range slices.Sorted(maps.Keys(v.policies)) {
		if n.complete[name] || l.Recorded(name) != nil {
			changed = l.Record(v.policies[name]) || changed
		}
	}
	// One that the cache has shown, or that has a slot of the default, has no change yet.
	return l.Join(v.policies, v.covering, n.run, v.at) || changed
}

// counted remembers a census whose outcome is in the ledger, and lastCensus returns it.
func (c *Controller) counted(n census) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.census = n
}

// lost forgets what was counted for a ledger that is lost, and generation says how many were.
func (c *Controller) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.census = census{}
	c.rebuilds++
}

func (c *Controller) generation() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rebuilds
}

func (c *Controller) lastCensus() census {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.census
}

// uncounted says why nothing is granted by a policy that the ledger does not know, as far as that is known.
func (c *Controller) uncounted(policy string) string {
	if err := c.lastCensus().uncounted[policy]; err != nil {
		return sanitize.Text(err.Error(), maxMessage/4)
	}
	return ""
}

// count returns the tasks of a namespace that run, and fences the others, unless that was done before.
func (c *Controller) count(ctx context.Context, v *view, namespace string, isFenced func(types.UID) bool) (run []fleet.Holder, fenced []types.UID, err error) {
	found := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.Live.List(ctx, found, client.InNamespace(namespace)); err != nil {
		return nil, nil, fmt.Errorf("listing the tasks of namespace %s: %w", namespace, err)
	}
	for i := range found.Items {
		t := &found.Items[i]
		if !v.asks(t) || t.Status.State.IsFinal() {
			continue
		}
		if t.Status.State != v1alpha1.TaskStateInProgress {
			if etcdtasks.TooLarge(t) {
				// No operator starts it as it is, and the API server may refuse to annotate it.
				continue
			}
			if !isFenced(t.UID) {
				if refused := c.fence(ctx, t); refused != nil {
					err = errors.Join(err, refused)
					continue
				}
			}
			fenced = append(fenced, t.UID)
		}
		if t.Status.State == v1alpha1.TaskStateInProgress {
			h := unasked(t, v, c.Clock.Now())
			// A recreation that stops nothing yet asks for its change when it does.
			if h.Policies[0] != fleet.Default && !t.StopsNothingYet() {
				is := c.changeOf(ctx, t)
				h.Change, h.Target = is.change, is.target
			}
			run = append(run, h)
		}
	}
	return run, fenced, err
}

// changeOf returns the fingerprints of what a task that runs changes; empty if that cannot be read.
func (c *Controller) changeOf(ctx context.Context, t *v1alpha1.EtcdOperatorTask) (is fingerprints) {
	etcd := &v1alpha1.Etcd{}
	if err := c.Live.Get(ctx, t.EtcdKey(), etcd); err == nil {
		is, _ = c.brought(ctx, tasks.Task{Object: t, Etcd: etcd})
	}
	return is
}

// missing returns the rollouts that run by policies without a change: the cache has shown them before they were counted, or the change could not
// be read.
func (c *Controller) missing(ctx context.Context, v *view, l *fleet.Ledger) (all []fleet.Holder) {
	for i := range l.Holders {
		h := &l.Holders[i]
		t := v.tasks[h.Task]
		if h.Change != "" || h.Over() || t == nil || !runs(t) || !t.Spec.Type.IsRollout() || t.StopsNothingYet() || v.covering[h.Namespace][0] == fleet.Default {
			continue
		}
		is := c.changeOf(ctx, t)
		all = append(all, fleet.Holder{Task: h.Task, Change: is.change, Target: is.target})
	}
	return all
}

// fence changes the resourceVersion of a task. If it has started by now, the task shows that.
func (c *Controller) fence(ctx context.Context, t *v1alpha1.EtcdOperatorTask) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotationFence: c.Clock.Now().UTC().Format(time.RFC3339Nano)}}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := c.Client.Patch(ctx, t, client.RawPatch(types.MergePatchType, patch)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("fencing task %s/%s: %w", t.Namespace, t.Name, err)
	}
	return nil
}

// unasked makes a holder of a task that runs without having asked. What alarm there was before it is not known: the one that there is does
// not count as new.
func unasked(t *v1alpha1.EtcdOperatorTask, v *view, now time.Time) fleet.Holder {
	return fleet.Holder{
		Task: t.UID, TaskName: t.Name, Namespace: t.Namespace, Etcd: etcdOf(t), EtcdName: t.Spec.OwnerEtcdReference.Name,
		ResourceVersion: t.ResourceVersion, Policies: v.covering[t.Namespace], Alarm: alarmOf(v.etcds[etcdOf(t)]), Unasked: true, Granted: now,
	}
}

// remember records the changes in the status of a policy. The status does not say whether they have passed their canaries, so they begin with
// one again.
func remember(l *fleet.Ledger, p *v1alpha1.EtcdFleetPolicy, now time.Time) {
	for _, s := range p.Status.Changes {
		change := fleet.Change{Policy: p.Name, Name: s.Change, Since: s.Since.Time, Done: int(s.Done), Resumed: fleet.FirstToken(now)}
		if n, err := strconv.Atoi(s.ResumeToken[strings.LastIndex(s.ResumeToken, ".")+1:]); err == nil {
			change.Resumed = n
		}
		for _, f := range s.Failures {
			change.Failures = append(change.Failures, fleet.Failure{Etcd: f.UID, Namespace: f.Namespace, EtcdName: f.Etcd, Target: f.Target, Reason: f.Reason, At: f.At.Time})
			l.Failing = append(l.Failing, f.UID)
		}
		for len(change.Failures) < int(s.Failed) {
			// The status names the first few.
			change.Failures = append(change.Failures, fleet.Failure{Reason: "the ledger was lost, which had the name and the reason"})
		}
		l.Changes = append(l.Changes, change)
	}
}

// met records by live reads whether tasks that are not in the ledger run. Such a task may get a slot, and end, before anything is written, so
// that it runs without a slot only holds for the revision of the ledger that was known before the read.
type met struct {
	revision string
	runs     map[types.UID]bool
}

// at forgets what no longer holds at a revision of the ledger.
func (m *met) at(revision string) {
	if m.revision != revision {
		maps.DeleteFunc(m.runs, func(_ types.UID, runs bool) bool { return runs })
	}
	m.revision = revision
}

// strangers returns the tasks that run according to the cache or a count, are not in the ledger, and have not been read yet.
func strangers(l *fleet.Ledger, v *view, m *met, counted ...fleet.Holder) (all []*v1alpha1.EtcdOperatorTask) {
	m.at(l.Revision)
	ask := func(t *v1alpha1.EtcdOperatorTask) {
		if _, known := m.runs[t.UID]; !known && l.Holder(t.UID) == nil {
			all = append(all, t)
		}
	}
	for _, t := range v.tasks {
		if t.Status.State == v1alpha1.TaskStateInProgress {
			ask(t)
		}
	}
	for _, h := range counted {
		if v.tasks[h.Task] == nil || v.tasks[h.Task].Status.State != v1alpha1.TaskStateInProgress {
			ask(&v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.TaskName, UID: h.Task}})
		}
	}
	return all
}

// meet reads tasks from the API server, and records whether they run. A lagging cache shows tasks that have ended, whose slots are free. A
// task that cannot be read counts as running.
func (c *Controller) meet(ctx context.Context, all []*v1alpha1.EtcdOperatorTask, m *met) (unread error) {
	for _, t := range all {
		live := &v1alpha1.EtcdOperatorTask{}
		err := client.IgnoreNotFound(c.Live.Get(ctx, client.ObjectKeyFromObject(t), live))
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("reading task %s/%s, which runs without a slot: %w", t.Namespace, t.Name, err))
		}
		m.add(t.UID, err != nil || live.UID == t.UID && live.Status.State == v1alpha1.TaskStateInProgress)
	}
	return unread
}

func (m *met) add(task types.UID, runs bool) {
	if m.runs == nil {
		m.runs = map[types.UID]bool{}
	}
	m.runs[task] = runs
}

// adopt records the tasks that already ran when their policy was created. It reports whether there are any.
func (c *Controller) adopt(l *fleet.Ledger, v *view, m *met) bool {
	found := false
	for uid, t := range v.tasks {
		if m.runs[uid] && l.Holder(uid) == nil {
			l.Grant(unasked(t, v, c.Clock.Now()))
			found = true
		}
	}
	return found
}
