// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberships

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// cordons selects events of nodes that are cordoned or uncordoned.
func cordons() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, is := e.ObjectNew.(*corev1.Node)
			return ok && is && before.Spec.Unschedulable != after.Spec.Unschedulable
		},
	}
}

// onDrain returns the Etcds whose only member leaves a cordoned node. The reconcile finds out which node it is on.
func (r *Reconciler) onDrain(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	etcds := &v1alpha1.EtcdList{}
	if err := r.Client.List(ctx, etcds, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing the Etcds that a drain may be about failed")
		return nil
	}
	for i := range etcds.Items {
		if e := &etcds.Items[i]; e.SurgesOnDrain() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)})
		}
	}
	return requests
}

// cordoned reports, by the cache, whether the only member of an Etcd that leaves cordoned nodes is on one.
func (r *Reconciler) cordoned(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	if !etcd.SurgesOnDrain() {
		return false, nil
	}
	pod, node := &corev1.Pod{}, &corev1.Node{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.PodName(0)}, pod); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading pod %s/%s: %w", etcd.Namespace, etcd.PodName(0), err)
	} else if err != nil || pod.Spec.NodeName == "" {
		return false, nil
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading node %s: %w", pod.Spec.NodeName, err)
	}
	return node.Spec.Unschedulable, nil
}
