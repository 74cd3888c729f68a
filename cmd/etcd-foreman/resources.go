// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// resourceLists interns lists of resources: there are few different ones, of almost a kilobyte each, and every object has
// some. Cached objects are read-only.
type resourceLists struct {
	// known are corev1.ResourceLists, by their content.
	known sync.Map
}

func (r *resourceLists) interned(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return list
	}
	var says strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		says.WriteString(string(name) + "=" + quantity.String() + ",")
	}
	known, _ := r.known.LoadOrStore(says.String(), list)
	return known.(corev1.ResourceList)
}

func (r *resourceLists) claim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	kept := trimmedClaim(c)
	kept.Spec.Resources.Requests, kept.Status.Capacity = r.interned(kept.Spec.Resources.Requests), r.interned(kept.Status.Capacity)
	return kept
}

func (r *resourceLists) statefulSet(s *appsv1.StatefulSet) *appsv1.StatefulSet {
	for _, containers := range [][]corev1.Container{s.Spec.Template.Spec.InitContainers, s.Spec.Template.Spec.Containers} {
		for i := range containers {
			c := &containers[i].Resources
			c.Requests, c.Limits = r.interned(c.Requests), r.interned(c.Limits)
		}
	}
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i].Spec.Resources
		c.Requests = r.interned(c.Requests)
	}
	return s
}
