// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waitTimeout bounds each wait for a cluster. It is many times longer than needed.
const waitTimeout = 5 * time.Minute

// Cluster is a StatefulSet of etcd members. It may belong to an Etcd of the same name.
type Cluster struct {
	*Stage
	Namespace, Name string
}

// Key returns the key of the StatefulSet and of the Etcd.
func (c Cluster) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// PodName returns the name of the pod of an ordinal.
func (c Cluster) PodName(ordinal int) string { return fmt.Sprintf("%s-%d", c.Name, ordinal) }

// StatefulSet reads the StatefulSet.
func (c Cluster) StatefulSet(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := c.Client.Get(ctx, c.Key(), set); err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", c.Key(), err)
	}
	return set, nil
}

// Pod reads the pod of an ordinal.
func (c Cluster) Pod(ctx context.Context, ordinal int) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.PodName(ordinal)}
	if err := c.Client.Get(ctx, key, pod); err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	return pod, nil
}

// DeletePod deletes the pod of an ordinal.
func (c Cluster) DeletePod(ctx context.Context, ordinal int) error {
	pod, err := c.Pod(ctx, ordinal)
	if err != nil {
		return err
	}
	if err := c.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// WaitReady waits until the pod of an ordinal is at the newest revision and ready.
func (c Cluster) WaitReady(ctx context.Context, ordinal int, note Note) error {
	return until(ctx, waitTimeout, c.PodName(ordinal)+" to be back", note, func(ctx context.Context) (string, error) {
		set, err := c.StatefulSet(ctx)
		if err != nil {
			return "", err
		}
		pod, err := c.Pod(ctx, ordinal)
		if err != nil {
			return "", err
		}
		return lacking(set, pod), nil
	})
}

// WaitHealthy waits until every pod is at the newest revision and ready, and every member knows the same
// leader. It returns the leader's ordinal.
func (c Cluster) WaitHealthy(ctx context.Context, note Note) (leader int, err error) {
	err = until(ctx, waitTimeout, "all members of "+c.Key().String()+" to be healthy", note, func(ctx context.Context) (string, error) {
		if lack, err := c.lackingNow(ctx); lack != "" || err != nil {
			return lack, err
		}
		leader, err = c.Leader(ctx)
		return "", err
	})
	return leader, err
}

// lackingNow returns what differs from the newest template; empty if nothing does.
func (c Cluster) lackingNow(ctx context.Context) (string, error) {
	set, err := c.StatefulSet(ctx)
	if err != nil {
		return "", err
	}
	if set.Status.ObservedGeneration < set.Generation {
		return "the StatefulSet controller has not observed the newest template", nil
	}
	for i := range int(*set.Spec.Replicas) {
		pod, err := c.Pod(ctx, i)
		if err != nil {
			return "", err
		}
		if lack := lacking(set, pod); lack != "" {
			return lack, nil
		}
	}
	return "", nil
}

func lacking(set *appsv1.StatefulSet, pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return pod.Name + " is terminating"
	case pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision:
		return pod.Name + " is outdated"
	case !isReady(pod):
		return pod.Name + " is not ready"
	}
	return ""
}

// isReady reports whether the etcd container is ready.
func isReady(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == v1alpha1.ContainerEtcd {
			return s.Ready
		}
	}
	return false
}
