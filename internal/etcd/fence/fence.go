// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package fence keeps clients away from a cluster while a Restore replaces its data: the selector of the client Service then has the
// UID of the task, which no pod has as a label. That is not part of what is applied, so that it also begins and ends while the spec is
// suspended or refused.
package fence

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fencer fences the client Services of Etcds.
type Fencer struct{ state.Access }

// wanted returns the UID of the task that keeps clients away from a Service; empty if none does. Where a newer operator keeps them away for a
// task of a type of its own, they stay away (ADR 110).
func wanted(tasks []v1alpha1.EtcdOperatorTask, service *corev1.Service) string {
	if t := etcdtasks.OfNewerOperator(tasks, service.Spec.Selector[v1alpha1.LabelFencedBy]); t != nil {
		return string(t.UID)
	}
	t := etcdtasks.Recovering(tasks)
	if t == nil || t.Status.Recovery == nil || t.Status.Recovery.Restore == nil || !t.Status.Recovery.Restore.Fenced {
		return ""
	}
	return string(t.UID)
}

// patch returns what has to change in a Service; nil if nothing has to. It is pure.
func patch(service *corev1.Service, by string) map[string]any {
	if service.Spec.Selector[v1alpha1.LabelFencedBy] == by {
		return nil
	}
	value := any(by)
	if by == "" {
		value = nil
	}
	return map[string]any{"spec": map[string]any{"selector": map[string]any{v1alpha1.LabelFencedBy: value}}}
}

// Reconcile has the client Service select no member while a task keeps clients away, and all of them otherwise. What the cache shows is
// decided again on live reads. Whether other objects of the Etcd are its own does not matter: clients must not be kept away by those.
func (f Fencer) Reconcile(ctx context.Context, st *state.State) error {
	service, err := read(ctx, f.Client, st.Etcd)
	if err != nil || service == nil || patch(service, wanted(st.Tasks, service)) == nil {
		return err
	}
	reads := f.Live()
	tasks, err := etcdtasks.List(ctx, reads, st.Etcd)
	if err != nil {
		return err
	}
	if service, err = read(ctx, reads, st.Etcd); err != nil || service == nil {
		return err
	}
	by := wanted(tasks, service)
	change := patch(service, by)
	if change == nil || ownership.Of(st.Etcd, "Service", service) != nil {
		return nil
	}
	if err := reads.Fresh(ctx); err != nil {
		return err
	}
	if err := f.Client.Patch(ctx, service, asread.Merge(change), apply.Manager); err != nil {
		return fmt.Errorf("changing the selector of Service %s: %w", client.ObjectKeyFromObject(service), err)
	}
	ctrl.LoggerFrom(ctx).Info("Changed which members the client Service selects", "fencedBy", by)
	return nil
}

// read returns the client Service of an Etcd; nil if there is none.
func read(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*corev1.Service, error) {
	return lookup.Get[corev1.Service](ctx, reader, "Service", client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.ClientServiceName()})
}
