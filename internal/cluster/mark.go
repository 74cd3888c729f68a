// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Mark is an in-place update of a pod that has begun, as the pod's annotation records it.
type Mark struct {
	// UID of the pod. A mark with another UID came with a template or was copied from another pod, and is ignored.
	UID types.UID `json:"uid"`
	// Source and Target are the revisions before and after the update.
	Source string `json:"source"`
	Target string `json:"target"`
	// Earlier are the targets of earlier updates that did not end. The pod may have some of their values.
	Earlier []string `json:"earlier,omitempty"`
	// Originals are the IDs of the containers to restart before their first update, and Containers before their last one.
	Originals  map[string]string `json:"originals,omitempty"`
	Containers map[string]string `json:"containers,omitempty"`
	// Failed is why the update cannot be carried out; empty if it can, as far as is known.
	Failed string `json:"failed,omitempty"`
}

// MarkOf returns the mark of a pod; nil if it has none.
func MarkOf(pod metav1.Object) *Mark {
	text, found := pod.GetAnnotations()[v1alpha1.AnnotationInPlaceUpdate]
	if !found {
		return nil
	}
	m := &Mark{}
	if err := json.Unmarshal([]byte(text), m); err != nil || m.UID != pod.GetUID() {
		return nil
	}
	return m
}

// To returns the mark of the same update with another target. A failure of the previous target is dropped.
func (m Mark) To(target string) Mark {
	next := m
	next.Containers, next.Originals = maps.Clone(m.Containers), maps.Clone(m.Originals)
	if m.Target != target {
		next.Target, next.Failed = target, ""
		next.Earlier = slices.DeleteFunc(append(slices.Clone(m.Earlier), m.Target), func(s string) bool { return s == target })
		slices.Sort(next.Earlier)
		next.Earlier = slices.Compact(next.Earlier)
	}
	return next
}

// Restart records that a container is about to be restarted.
func (m *Mark) Restart(container, id string) {
	if m.Containers == nil {
		m.Containers, m.Originals = map[string]string{}, map[string]string{}
	}
	m.Containers[container] = id
	if _, known := m.Originals[container]; !known {
		m.Originals[container] = id
	}
}

// RestartsOthers reports whether the update restarts a container other than etcd.
func (m *Mark) RestartsOthers() bool {
	for name := range m.Containers {
		if name != v1alpha1.ContainerEtcd {
			return true
		}
	}
	return false
}

func (m Mark) String() string {
	// Strings and a map of strings never fail to encode.
	text, _ := json.Marshal(m)
	return string(text)
}
