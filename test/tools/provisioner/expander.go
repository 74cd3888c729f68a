// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// provisionedBy is the annotation that the provisioning library leaves on each
// volume it created.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// expander grants every claim the size that it asks for. Kubernetes leaves this
// to an external controller, because a hostPath has no size of its own.
type expander struct {
	client      kubernetes.Interface
	provisioner string
	claims      corelisters.PersistentVolumeClaimLister
	synced      cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newExpander(client kubernetes.Interface, provisioner string, claims coreinformers.PersistentVolumeClaimInformer) (*expander, error) {
	e := &expander{
		client:      client,
		provisioner: provisioner,
		claims:      claims.Lister(),
		synced:      claims.Informer().HasSynced,
		queue:       workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	_, err := claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    e.enqueue,
		UpdateFunc: func(_, obj any) { e.enqueue(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching claims: %w", err)
	}
	return e, nil
}

func (e *expander) enqueue(obj any) {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && wantsMore(claim) {
		e.queue.Add(cache.MetaObjectToName(claim))
	}
}

// wantsMore reports whether a bound claim asks for more than it has.
func wantsMore(claim *corev1.PersistentVolumeClaim) bool {
	has, bound := claim.Status.Capacity[corev1.ResourceStorage]
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return bound && wants.Cmp(has) > 0
}

func (e *expander) watch(ctx context.Context) {
	defer e.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), e.synced) {
		return
	}
	go func() {
		<-ctx.Done()
		e.queue.ShutDown()
	}()
	for {
		key, shutdown := e.queue.Get()
		if shutdown {
			return
		}
		if err := e.expand(ctx, key); err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "Claim not expanded", "claim", klog.KRef(key.Namespace, key.Name))
			e.queue.AddRateLimited(key)
		} else {
			e.queue.Forget(key)
		}
		e.queue.Done(key)
	}
}

func (e *expander) expand(ctx context.Context, key cache.ObjectName) error {
	claim, err := e.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if err != nil {
		return fmt.Errorf("reading claim: %w", err)
	}
	if !wantsMore(claim) {
		return nil
	}
	volume, err := e.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", claim.Spec.VolumeName, err)
	}
	if volume.Annotations[provisionedBy] != e.provisioner {
		return nil
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	volume.Spec.Capacity[corev1.ResourceStorage] = size
	if _, err := e.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("growing volume %s: %w", volume.Name, err)
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = size
	if _, err := e.client.CoreV1().PersistentVolumeClaims(key.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("recording the new size in the claim: %w", err)
	}
	return nil
}
