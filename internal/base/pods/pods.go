// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package pods finds parts of a pod's status.
package pods

import (
	"slices"

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

// Condition returns a condition of a pod; nil if it has none of that type.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	all := pod.Status.Conditions
	if i := slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == conditionType }); i >= 0 {
		return &all[i]
	}
	return nil
}
