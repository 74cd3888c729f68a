// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Bounds of a pool: how many values it has, and the bytes of each. What is not among the first is kept by its object.
const (
	maxPooled      = 1000
	maxPooledValue = 4 << 10
)

// pool has parts that the objects of a kind of most Etcds have in common, such as the probes, ports and resources of a container. The cache has
// each once: its objects are only read. It is bounded, since others may write into their objects what they like.
type pool struct {
	mu     sync.Mutex
	values map[string]any
}

// message is a part that encodes itself.
type message[T any] interface {
	*T
	Marshal() ([]byte, error)
}

// pooled returns a value of the pool that is equal to one, which becomes part of the pool if there is none.
func pooled[T any, P message[T]](in *pool, value P) P {
	if value == nil {
		return nil
	}
	data, err := value.Marshal()
	if err != nil || len(data) > maxPooledValue {
		return value
	}
	key := fmt.Sprintf("%T %s", value, data)
	in.mu.Lock()
	defer in.mu.Unlock()
	if known, ok := in.values[key].(P); ok {
		return known
	}
	if in.values == nil {
		in.values = map[string]any{}
	}
	if len(in.values) < maxPooled {
		in.values[key] = value
	}
	return value
}

// pods, sets and claims have what is kept of an object use the pool.
func (p *pool) pods(trim func(*corev1.Pod) *corev1.Pod) func(*corev1.Pod) *corev1.Pod {
	return func(pod *corev1.Pod) *corev1.Pod {
		kept := trim(pod)
		p.template(&kept.Spec)
		return kept
	}
}

func (p *pool) sets(trim func(*appsv1.StatefulSet) *appsv1.StatefulSet) func(*appsv1.StatefulSet) *appsv1.StatefulSet {
	return func(set *appsv1.StatefulSet) *appsv1.StatefulSet {
		kept := trim(set)
		p.template(&kept.Spec.Template.Spec)
		for i := range kept.Spec.VolumeClaimTemplates {
			p.claim(&kept.Spec.VolumeClaimTemplates[i])
		}
		return kept
	}
}

func (p *pool) claims(trim func(*corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim) func(*corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return func(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		kept := trim(claim)
		p.claim(kept)
		return kept
	}
}

// template has a pod, or a template of pods, use what others have as well.
func (p *pool) template(spec *corev1.PodSpec) {
	spec.SecurityContext = pooled(p, spec.SecurityContext)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			p.container(&containers[i])
		}
	}
	for i := range spec.Volumes {
		spec.Volumes[i].Projected = pooled(p, spec.Volumes[i].Projected)
	}
}

// container has a container use what others have as well.
func (p *pool) container(c *corev1.Container) {
	common := pooled(p, &corev1.Container{
		Ports: c.Ports, Env: c.Env, Resources: c.Resources, LivenessProbe: c.LivenessProbe, ReadinessProbe: c.ReadinessProbe, StartupProbe: c.StartupProbe,
		SecurityContext: c.SecurityContext,
	})
	c.Ports, c.Env, c.Resources, c.SecurityContext = common.Ports, common.Env, common.Resources, common.SecurityContext
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = common.LivenessProbe, common.ReadinessProbe, common.StartupProbe
}

// claim has a claim, or a template of claims, use what others have as well.
func (p *pool) claim(claim *corev1.PersistentVolumeClaim) {
	common := pooled(p, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: claim.Spec.AccessModes, Resources: claim.Spec.Resources, StorageClassName: claim.Spec.StorageClassName, VolumeMode: claim.Spec.VolumeMode,
	}, Status: corev1.PersistentVolumeClaimStatus{AccessModes: claim.Status.AccessModes, Capacity: claim.Status.Capacity}})
	claim.Spec.AccessModes, claim.Spec.Resources, claim.Spec.StorageClassName, claim.Spec.VolumeMode = common.Spec.AccessModes, common.Spec.Resources, common.Spec.StorageClassName, common.Spec.VolumeMode
	claim.Status.AccessModes, claim.Status.Capacity = common.Status.AccessModes, common.Status.Capacity
}
