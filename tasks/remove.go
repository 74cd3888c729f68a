// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Only the two functions below delete or evict pods (TestOnlyTwoFunctionsRemovePods).
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create

// DeletePod deletes a pod if it has not changed since it was observed. A grace period of 0 stands for the pod's own.
func DeletePod(ctx context.Context, c client.Client, pod *corev1.Pod, observed metav1.Preconditions, grace time.Duration) error {
	options := []client.DeleteOption{client.Preconditions(observed)}
	if grace > 0 {
		// Never 0: the kubelet confirms that the containers have ended before a replacement is created.
		options = append(options, client.GracePeriodSeconds(max(1, int64(grace.Seconds()))))
	}
	return c.Delete(ctx, pod, options...)
}

// EvictPod evicts a pod if it has not changed since it was observed. A dry run shows whether a PodDisruptionBudget allows the disruption,
// without using it up.
func EvictPod(ctx context.Context, c client.Client, pod *corev1.Pod, observed metav1.Preconditions, dryRun ...string) error {
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &observed, DryRun: dryRun}}
	options := &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dryRun}}
	return c.SubResource("eviction").Create(ctx, pod, eviction, options)
}
