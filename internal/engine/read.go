// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// list returns the tasks of an Etcd that are not being deleted. They may be shared with the cache and must not be changed.
func (r *Reconciler) list(ctx context.Context, reader client.Reader, etcd types.NamespacedName) ([]*v1alpha1.EtcdOperatorTask, error) {
	found := &v1alpha1.EtcdOperatorTaskList{}
	if err := reader.List(ctx, found, etcdtasks.Of(etcd), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the tasks of Etcd %s: %w", etcd, err)
	}
	var all []*v1alpha1.EtcdOperatorTask
	for i := range found.Items {
		// A task that only waits for a finalizer no longer counts.
		if found.Items[i].DeletionTimestamp == nil {
			all = append(all, &found.Items[i])
		}
	}
	return all, nil
}

// separate returns the tasks of an Etcd, and those of an earlier Etcd of that name that have not ended. Without an Etcd, none is foreign.
func separate(all []*v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) (own, foreign []*v1alpha1.EtcdOperatorTask) {
	for _, t := range all {
		switch {
		case etcd == nil || etcdtasks.Foreign(t, etcd) == "":
			own = append(own, t)
		case !t.Status.State.IsFinal():
			foreign = append(foreign, t)
		}
	}
	return own, foreign
}

// etcdOf returns the Etcd of some tasks; nil if there is none. The cache is trusted only if it shows the owner of every task that has not
// ended, so that a stale cache neither adopts nor ends a task.
func (r *Reconciler) etcdOf(ctx context.Context, key types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) (*v1alpha1.Etcd, error) {
	cached, err := lookup.Get[v1alpha1.Etcd](ctx, r.Client, "Etcd", key)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if !t.Status.State.IsFinal() && (cached == nil || !etcdtasks.IsOwned(t, cached) || etcdtasks.Foreign(t, cached) != "") {
			return lookup.Get[v1alpha1.Etcd](ctx, r.Live, "Etcd", key)
		}
	}
	return cached, nil
}
