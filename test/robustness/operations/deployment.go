// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deployment is the Deployment of the operator. The ConfigMap of its configuration has the same name.
type Deployment struct {
	Kube client.Client
	Key  types.NamespacedName
}

// patch changes the Deployment.
func (d Deployment) patch(ctx context.Context, change func(*appsv1.Deployment)) error {
	object := &appsv1.Deployment{}
	if err := d.Kube.Get(ctx, d.Key, object); err != nil {
		return err
	}
	before := client.MergeFrom(object.DeepCopy())
	change(object)
	return d.Kube.Patch(ctx, object, before)
}

// gate is the feature gate with which the operator replaces the pods, and not the StatefulSet controller.
const gate = "QuorumAwareUpdatesWithOnDelete: "

// setGate switches the gate, and restarts the operator.
func (d Deployment) setGate(ctx context.Context, on bool) error {
	return until(ctx, "the gate is set", func(ctx context.Context) error {
		config := &corev1.ConfigMap{}
		if err := d.Kube.Get(ctx, d.Key, config); err != nil {
			return err
		}
		before := client.MergeFrom(config.DeepCopy())
		text := config.Data["config.yaml"]
		config.Data["config.yaml"] = strings.ReplaceAll(text, gate+fmt.Sprint(!on), gate+fmt.Sprint(on))
		if err := d.Kube.Patch(ctx, config, before); err != nil {
			return err
		}
		return d.patch(ctx, restart)
	})
}

// restart does what kubectl rollout restart does.
func restart(d *appsv1.Deployment) {
	if d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{}
	}
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = time.Now().Format(time.RFC3339Nano)
}

// Ready waits until the operator's pods are those of its newest template, and ready. A pod that the kubelet would restart
// only later, because its container was killed more than once, is replaced.
func (d Deployment) Ready(ctx context.Context) error {
	return until(ctx, "the operator is ready", func(ctx context.Context) error {
		object := &appsv1.Deployment{}
		if err := d.Kube.Get(ctx, d.Key, object); err != nil {
			return err
		}
		s := object.Status
		if s.ObservedGeneration == object.Generation && s.Replicas == *object.Spec.Replicas && s.UpdatedReplicas == s.Replicas && s.ReadyReplicas == s.Replicas {
			return nil
		}
		return errors.Join(fmt.Errorf("status: %+v", s), d.replaceWaiting(ctx))
	})
}

func (d Deployment) replaceWaiting(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := d.Kube.List(ctx, pods, client.InNamespace(d.Key.Namespace)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == d.Key.Name && s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" {
				return client.IgnoreNotFound(d.Kube.Delete(ctx, &pod))
			}
		}
	}
	return nil
}

// ThroughProxy makes the operator use another address of the API server. An empty host is the real one.
func (d Deployment) ThroughProxy(ctx context.Context, host, port string) error {
	err := until(ctx, "the operator's API server is set", func(ctx context.Context) error {
		return d.patch(ctx, func(object *appsv1.Deployment) {
			container := &object.Spec.Template.Spec.Containers[0]
			var kept []corev1.EnvVar
			for _, e := range container.Env {
				if !strings.HasPrefix(e.Name, "KUBERNETES_SERVICE_") {
					kept = append(kept, e)
				}
			}
			if host != "" {
				kept = append(kept, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: host}, corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: port})
			}
			container.Env = kept
		})
	})
	if err != nil {
		return err
	}
	return d.Ready(ctx)
}
