// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
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

// pods, volumes, sets and claims have what is kept of an object use the pool.
func (p *pool) pods(trim func(*corev1.Pod) *corev1.Pod) func(*corev1.Pod) *corev1.Pod {
	return func(pod *corev1.Pod) *corev1.Pod {
		kept := trim(pod)
		// What is kept of containers has no name of a cluster in it.
		kept.Spec.Containers = pooled(p, &corev1.PodSpec{Containers: kept.Spec.Containers}).Containers
		return kept
	}
}

func (p *pool) volumes(trim func(*corev1.PersistentVolume) *corev1.PersistentVolume) func(*corev1.PersistentVolume) *corev1.PersistentVolume {
	return func(volume *corev1.PersistentVolume) *corev1.PersistentVolume {
		kept := trim(volume)
		kept.Spec.NodeAffinity = pooled(p, kept.Spec.NodeAffinity)
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

// template has a template of pods use what others have as well.
func (p *pool) template(spec *corev1.PodSpec) {
	spec.SecurityContext = pooled(p, spec.SecurityContext)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			p.container(&containers[i])
		}
	}
	for i := range spec.Volumes {
		// A volume that has it already may be one that others have in common, which is only read.
		if common := pooled(p, spec.Volumes[i].Projected); common != spec.Volumes[i].Projected {
			spec.Volumes[i].Projected = common
		}
	}
}

// named has what a transform keeps of an object of an Etcd use parts that have the name of the Etcd in them, and not its namespace. With a
// pool for all kinds, the objects of Etcds of the same name in many namespaces, such as Gardener's, have them in common.
func (p *pool) named(transform toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		kept, err := transform(object)
		if o, ok := kept.(metav1.Object); !ok || err != nil || o.GetLabels()[v1alpha1.LabelPartOf] == "" {
			return kept, err
		}
		switch o := kept.(type) {
		case *corev1.Pod:
			// Its labels have its own name.
			return kept, nil
		case *appsv1.StatefulSet:
			p.namedSet(&o.Spec)
		case *corev1.Service:
			o.Spec.Selector = p.texts(o.Spec.Selector)
			o.Spec.Ports = pooled(p, &corev1.ServiceSpec{Ports: o.Spec.Ports}).Ports
		case *policyv1.PodDisruptionBudget:
			o.Spec.Selector = pooled(p, o.Spec.Selector)
		case *rbacv1.Role:
			o.Rules = pooled(p, &rbacv1.Role{Rules: o.Rules}).Rules
		}
		o := kept.(metav1.Object)
		o.SetLabels(p.texts(o.GetLabels()))
		return kept, nil
	}
}

func (p *pool) namedSet(set *appsv1.StatefulSetSpec) {
	set.Selector, set.Template.Labels = pooled(p, set.Selector), p.texts(set.Template.Labels)
	spec := &set.Template.Spec
	spec.Affinity, spec.Volumes = pooled(p, spec.Affinity), pooled(p, &corev1.PodSpec{Volumes: spec.Volumes}).Volumes
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = pooled(p, &corev1.Container{VolumeMounts: containers[i].VolumeMounts}).VolumeMounts
		}
	}
}

// texts returns labels, or a selector by them, as others have it.
func (p *pool) texts(texts map[string]string) map[string]string {
	return pooled(p, &metav1.LabelSelector{MatchLabels: texts}).MatchLabels
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
