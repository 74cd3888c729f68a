// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package pods finds parts of pods, and says what they are.
package pods

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Container returns the status of a container of a pod; nil if there is none.
func Container(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	all := pod.Status.ContainerStatuses
	if i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Image returns the image of a container; empty if there is none of that name.
func Image(spec corev1.PodSpec, container string) string {
	for _, c := range spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// Tag returns the tag of an image, also beside a digest; empty if it has none.
func Tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[i+1:]
	}
	return ""
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Condition returns a condition of a pod; nil if it has none of that type.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	all := pod.Status.Conditions
	if i := slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == conditionType }); i >= 0 {
		return &all[i]
	}
	return nil
}
