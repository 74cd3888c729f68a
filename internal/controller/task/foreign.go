// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Foreign says why a task is not for the given Etcd, but for an earlier one of the same name; empty when it is for this one.
// It is pure.
//
// The engine makes the Etcd an owner of each of its tasks when they arrive. A task that has no such owner yet, and was created
// before the Etcd, was meant for an Etcd that its author saw, or for none. Creation timestamps have steps of a second: a task
// of the same second is taken for one of this Etcd.
func Foreign(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) string {
	owned := false
	for _, o := range t.OwnerReferences {
		if o.Name != etcd.Name || !isEtcd(o) {
			continue
		}
		if o.UID != etcd.UID {
			return fmt.Sprintf("the task belongs to an earlier Etcd %s, with UID %s, which was deleted; the present one has UID %s", etcd.Name, o.UID, etcd.UID)
		}
		owned = true
	}
	if !owned && t.CreationTimestamp.Before(&etcd.CreationTimestamp) {
		return fmt.Sprintf("the task was created at %s, before the present Etcd %s, which was created at %s",
			timestamp(t), etcd.Name, timestamp(etcd))
	}
	return ""
}

// separate separates the tasks that are for an Etcd from those that are for an earlier one and have not ended. Without an Etcd
// none is foreign.
func separate(all []*v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) (own, foreign []*v1alpha1.EtcdOperatorTask) {
	for _, t := range all {
		switch {
		case etcd == nil || Foreign(t, etcd) == "":
			own = append(own, t)
		case !t.Status.State.IsFinal():
			foreign = append(foreign, t)
		}
	}
	return own, foreign
}

// etcdOf returns the Etcd of some tasks; nil when there is none. The cache is believed only where it shows the owner of each
// task that has not ended: no task is adopted, or ended, because the cache is behind.
func (r *Reconciler) etcdOf(ctx context.Context, key types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) (*v1alpha1.Etcd, error) {
	cached, err := readEtcd(ctx, r.Client, key)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if !t.Status.State.IsFinal() && (cached == nil || !isOwned(t, cached) || Foreign(t, cached) != "") {
			return readEtcd(ctx, r.Live, key)
		}
	}
	return cached, nil
}

// readEtcd reads an Etcd; nil when there is none.
func readEtcd(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1alpha1.Etcd, error) {
	etcd := &v1alpha1.Etcd{}
	if err := reader.Get(ctx, key, etcd); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Etcd %s: %w", key, err)
	}
	return etcd, nil
}

// refuse ends a task that is for an earlier Etcd. What it leaves behind is cleaned up after without an Etcd: nothing of the
// present one is the task's.
func (r *Reconciler) refuse(ctx context.Context, cached *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) error {
	t := cached.DeepCopy()
	arrive(t)
	return r.end(ctx, cached, tasks.Task{Object: t}, replaced(t, etcd))
}

// replaced is the verdict on a task that is for an earlier Etcd.
func replaced(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) tasks.Verdict {
	return tasks.Verdict{
		Outcome: tasks.Reject, Code: v1alpha1.ErrEtcdReplaced,
		Message: fmt.Sprintf("%s: if the task is meant for the present Etcd, create it again", Foreign(t, etcd)),
	}
}

func isEtcd(o metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(o.APIVersion)
	return err == nil && version.Group == v1alpha1.GroupVersion.Group && o.Kind == v1alpha1.KindEtcd
}

func timestamp(o metav1.Object) string { return o.GetCreationTimestamp().UTC().Format(time.RFC3339) }
