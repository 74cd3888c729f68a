// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumes,verbs=get;list;watch

// addSurroundings keeps of nodes, volumes and claims what decisions rest on. No label says which of them belong to an
// Etcd: a claim may have been there before it.
func addSurroundings(to map[client.Object]cache.ByObject) {
	maps.Copy(to, map[client.Object]cache.ByObject{
		&corev1.Node{}:                  {Transform: keep(essenceOfNode)},
		&corev1.PersistentVolume{}:      {Transform: keep(essenceOfVolume)},
		&corev1.PersistentVolumeClaim{}: {Transform: keep(essenceOfClaim)},
	})
}

// keep makes a transform of a function from an object to the part of it that is kept.
func keep[T any](essence func(T) T) func(any) (any, error) {
	return func(object any) (any, error) {
		if o, ok := object.(T); ok {
			return slim(essence(o))
		}
		return object, nil
	}
}

// essenceOfPod leaves out what a pod has from its template, which is most of it.
func essenceOfPod(p *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: p.Status}
	kept.ManagedFields = nil
	for _, c := range p.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Ports: c.Ports})
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			kept.Spec.Volumes = append(kept.Spec.Volumes, v)
		}
	}
	return kept
}

func essenceOfMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.ManagedFields, m.Annotations = nil, nil
	return m
}

func essenceOfNode(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: essenceOfMeta(n.ObjectMeta), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			// Its heartbeat is of no interest.
			kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return kept
}

func essenceOfVolume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: essenceOfMeta(v.ObjectMeta), Spec: corev1.PersistentVolumeSpec{NodeAffinity: v.Spec.NodeAffinity}}
}

func essenceOfClaim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: essenceOfMeta(c.ObjectMeta), Spec: c.Spec, Status: c.Status}
}
