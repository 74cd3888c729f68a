// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// annotationFence is written to tasks that have not started when the ledger is rebuilt, or a policy is new: it changes their
// resourceVersion, and the start that an earlier answer allowed can no longer be written.
const annotationFence = "druid.gardener.cloud/fleet-ledger-rebuilt"

// rebuild makes a ledger of what the API server shows: of the tasks that run, and of what the policies' statuses say of changes.
func (c *Controller) rebuild(ctx context.Context) (*fleet.Ledger, error) {
	now := c.Clock.Now()
	l := &fleet.Ledger{}
	policies := &v1alpha1.EtcdFleetPolicyList{}
	if err := c.Live.List(ctx, policies); err != nil {
		return nil, fmt.Errorf("listing the policies of the fleet: %w", err)
	}
	for i := range policies.Items {
		l.Record(read(&policies.Items[i]))
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
	for namespace := range v.covering {
		ran, err := c.count(ctx, v, namespace)
		if err != nil {
			return nil, err
		}
		for _, t := range ran {
			h := unasked(t, v.covering[namespace], now)
			if h.Policies[0] != fleet.Default {
				h.Change = c.changeOf(ctx, t)
			}
			l.Grant(h)
		}
	}
	slices.SortFunc(l.Holders, func(a, b fleet.Holder) int { return strings.Compare(string(a.Task), string(b.Task)) })
	log.FromContext(ctx).Info("Rebuilt the ledger of the fleet", "holders", len(l.Holders), "changes", len(l.Changes))
	return l, nil
}

// arrived returns the tasks that run in the namespaces of policies that the ledger does not know yet. No task there that has not started
// can start by an answer from before there was the policy.
func (c *Controller) arrived(ctx context.Context, v *view, l *fleet.Ledger, replaced []types.UID) (all []fleet.Holder, err error) {
	now := c.Clock.Now()
	isNew := func(name string) bool {
		r := l.Recorded(name)
		return name != fleet.Default && (r == nil || slices.Contains(replaced, r.UID))
	}
	for namespace, names := range v.covering {
		if !slices.ContainsFunc(names, isNew) {
			continue
		}
		ran, err := c.count(ctx, v, namespace)
		if err != nil {
			return nil, err
		}
		for _, t := range ran {
			all = append(all, unasked(t, names, now))
		}
	}
	return all, nil
}

// count returns the tasks of a namespace that run, and fences the others.
func (c *Controller) count(ctx context.Context, v *view, namespace string) (run []*v1alpha1.EtcdOperatorTask, err error) {
	found := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.Live.List(ctx, found, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the tasks of namespace %s: %w", namespace, err)
	}
	for i := range found.Items {
		t := &found.Items[i]
		if !v.asks(t) || t.Status.State.IsFinal() {
			continue
		}
		if t.Status.State != v1alpha1.TaskStateInProgress {
			if err := c.fence(ctx, t); err != nil {
				return nil, err
			}
		}
		if t.Status.State == v1alpha1.TaskStateInProgress {
			run = append(run, t)
		}
	}
	return run, nil
}

// changeOf returns the fingerprint of what a task that runs changes; empty if that cannot be read.
func (c *Controller) changeOf(ctx context.Context, t *v1alpha1.EtcdOperatorTask) string {
	etcd := &v1alpha1.Etcd{}
	if err := c.Live.Get(ctx, t.EtcdKey(), etcd); err != nil {
		return ""
	}
	change, err := c.change(ctx, tasks.Task{Object: t, Etcd: etcd})
	if err != nil {
		return ""
	}
	return change
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

// unasked makes a holder of a task that runs without having asked.
func unasked(t *v1alpha1.EtcdOperatorTask, policies []string, now time.Time) fleet.Holder {
	return fleet.Holder{
		Task: t.UID, TaskName: t.Name, Namespace: t.Namespace, Etcd: etcdOf(t), EtcdName: t.Spec.OwnerEtcdReference.Name,
		ResourceVersion: t.ResourceVersion, Policies: policies, Unasked: true, Granted: now,
	}
}

// remember records what the status of a policy says of changes. That a change has passed its canaries is not known: it begins with one
// again.
func remember(l *fleet.Ledger, p *v1alpha1.EtcdFleetPolicy, now time.Time) {
	for _, s := range p.Status.Changes {
		change := fleet.Change{Policy: p.Name, Name: s.Change, Since: s.Since.Time, Done: int(s.Done), Resumed: fleet.FirstToken(now)}
		if n, err := strconv.Atoi(s.ResumeToken[strings.LastIndex(s.ResumeToken, ".")+1:]); err == nil {
			change.Resumed = n
		}
		for _, f := range s.Failures {
			change.Failures = append(change.Failures, fleet.Failure{Etcd: f.UID, Namespace: f.Namespace, EtcdName: f.Etcd, Reason: f.Reason, At: f.At.Time})
			l.Failing = append(l.Failing, f.UID)
		}
		for len(change.Failures) < int(s.Failed) {
			// The status names the first few.
			change.Failures = append(change.Failures, fleet.Failure{Reason: "the ledger was lost, which had the name and the reason"})
		}
		l.Changes = append(l.Changes, change)
	}
}

// adopt records the tasks that run without having asked: they ran before there was a policy for them. It reports whether there are any.
func (c *Controller) adopt(l *fleet.Ledger, v *view) bool {
	found := false
	for uid, t := range v.tasks {
		if t.Status.State == v1alpha1.TaskStateInProgress && l.Holder(uid) == nil {
			l.Grant(unasked(t, v.covering[t.Namespace], c.Clock.Now()))
			found = true
		}
	}
	return found
}
