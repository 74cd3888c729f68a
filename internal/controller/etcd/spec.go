// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reconcileSpec applies the objects of an Etcd. It returns the size of the cluster now, and whether the cache
// shows each object as it was applied for the present spec. While the cluster grows to its size the spec is not
// settled, so that each further member is due.
//
// What should be different is applied when the spec has changed or an annotation asks for it, so that a new
// version of the operator does not by itself replace the pods of every cluster. What somebody removed, or
// changed in what would be applied again, is put right at any time. While a Secret cannot be used nothing is
// made different, and no StatefulSet is made.
func (r *Reconciler) reconcileSpec(ctx context.Context, p *pass) (size sizing, settled bool, err error) {
	etcd, set, tls := p.etcd, p.set, p.tls
	if specSuspended(etcd) {
		return sizing{}, false, nil
	}
	if mayGrow(etcd, set) {
		// No pod is deleted while it is decided whether the cluster grows.
		defer r.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	}
	if size, err = r.size(ctx, etcd, set, p.asleep); err != nil {
		return size, false, err
	}
	p.scale = &scaling{etcd: etcd, set: set, replicas: size.replicas}
	if startsOrStopsAll(set, size.replicas) {
		// A cluster that grows does neither, so the lock is not held yet.
		defer r.Locker.Lock(client.ObjectKeyFromObject(etcd))()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxReadAge)
		defer cancel()
		if err := p.scale.confirm(ctx, readLive(r)); err != nil {
			return size, false, err
		}
	}
	in := component.Input{
		Etcd: etcd, Images: r.Images, Replicas: size.replicas, Strategy: r.wantedStrategy(),
		Capacity: etcd.Spec.Capacity(), Retention: retention(etcd, set),
		PeerTLS: tls.station, Authorities: tls.facts.Authorities,
	}
	if set != nil {
		// They are changed by reconcileStrategy and by reconcileVolumes alone.
		in.Strategy, in.Capacity = set.Spec.UpdateStrategy.Type, templateCapacity(set)
	}
	due := tls.problem == nil && (tls.due || specDue(etcd))
	// Without Secrets that can be used, pods could not start.
	settled, err = r.applyObjects(ctx, p, in, due, tls.problem != nil)
	p.compared = err == nil
	return size, settled && size.why == "" && len(p.obstructedBy()) == 0, err
}

// specSuspended tells whether the spec is to be left alone.
func specSuspended(etcd *v1alpha1.Etcd) bool {
	_, suspended := etcd.Annotations[v1alpha1.AnnotationSuspendSpecReconcile]
	return suspended
}

// specDue tells whether what should be different is to be applied.
func specDue(etcd *v1alpha1.Etcd) bool {
	return etcd.Generation != etcd.Status.ObservedGeneration || operationRequested(etcd)
}

func operationRequested(etcd *v1alpha1.Etcd) bool {
	return etcd.Annotations[v1alpha1.AnnotationOperation] == v1alpha1.OperationReconcile ||
		etcd.Annotations[v1alpha1.AnnotationGardenerOperation] == v1alpha1.OperationReconcile
}

// removeOperation removes the annotations that asked for a reconcile once that is done.
func (r *Reconciler) removeOperation(ctx context.Context, p *pass) error {
	etcd := p.etcd
	if !p.current() || !operationRequested(etcd) {
		return nil
	}
	before := etcd.DeepCopy()
	for _, key := range []string{v1alpha1.AnnotationOperation, v1alpha1.AnnotationGardenerOperation} {
		if etcd.Annotations[key] == v1alpha1.OperationReconcile {
			delete(etcd.Annotations, key)
		}
	}
	if err := r.Client.Patch(ctx, etcd, client.MergeFrom(before), fieldOwner); err != nil {
		return fmt.Errorf("removing the operation annotation of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return nil
}
