// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodIP returns the address of the pod of an ordinal. It is in TEST-NET-1: nothing answers there.
func PodIP(ordinal int) string { return fmt.Sprintf("192.0.2.%d", ordinal+1) }

// ordinalOf returns the ordinal of a StatefulSet's pod; 0 for any other pod.
func ordinalOf(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	if err != nil {
		return 0
	}
	return n
}

// PodStatus returns the status that a kubelet writes for a pod in a state, with an address. It keeps parts of the present
// status that already match, including times.
func PodStatus(pod *corev1.Pod, state PodState, podIP string) corev1.PodStatus {
	now := metav1.Now()
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodRunning
	status.HostIP, status.HostIPs = podIP, []corev1.HostIP{{IP: podIP}}
	status.PodIP, status.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	ready := corev1.ConditionFalse
	if state == Ready || state == Infeasible || state == Deferred {
		ready = corev1.ConditionTrue
	}
	status.ObservedGeneration = pod.Generation
	setCondition(&status, corev1.PodScheduled, corev1.ConditionTrue, now)
	setCondition(&status, corev1.PodInitialized, corev1.ConditionTrue, now)
	setCondition(&status, corev1.ContainersReady, ready, now)
	setCondition(&status, corev1.PodReady, ready, now)

	resize(&status, pod, state, now)

	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, c := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: *status.StartTime, FinishedAt: *status.StartTime,
			}},
		})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(&pod.Status, c, state, now))
	}
	return status
}

func containerStatus(before *corev1.PodStatus, c corev1.Container, state PodState, now metav1.Time) corev1.ContainerStatus {
	runs := state != Crashing && (state != AgentDown || c.Name != v1alpha1.ContainerBackupRestore)
	// One run for each image: a container is restarted when that changes.
	id := "simulated://" + c.Name + "/" + c.Image
	status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: id, Ready: runs && state != NotReady, Started: &runs, Resources: c.Resources.DeepCopy()}
	if !runs {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "simulated"}
		return status
	}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
	for _, b := range before.ContainerStatuses {
		if b.Name != c.Name || b.State.Running == nil {
			continue
		}
		if b.ContainerID == id {
			status.State.Running = b.State.Running
		}
		if state == Infeasible || state == Deferred {
			status.Resources = b.Resources
		}
	}
	return status
}

// setCondition sets a condition, unless it already has the status.
// resize says of a pod whose resources have changed that they are not what is used.
func resize(status *corev1.PodStatus, pod *corev1.Pod, state PodState, now metav1.Time) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		if c.Type == corev1.PodResizePending {
			now = c.LastTransitionTime
		}
		return c.Type == corev1.PodResizePending
	})
	if state != Infeasible && state != Deferred {
		return
	}
	for i, c := range pod.Spec.Containers {
		if i < len(status.ContainerStatuses) && status.ContainerStatuses[i].Resources != nil && !equality.Semantic.DeepEqual(c.Resources, *status.ContainerStatuses[i].Resources) {
			reason := map[PodState]string{Infeasible: corev1.PodReasonInfeasible, Deferred: corev1.PodReasonDeferred}[state]
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "simulated", LastTransitionTime: now})
			return
		}
	}
}

func setCondition(status *corev1.PodStatus, conditionType corev1.PodConditionType, value corev1.ConditionStatus, now metav1.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type != conditionType {
			continue
		}
		if c.Status != value {
			c.Status, c.LastTransitionTime = value, now
		}
		return
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: conditionType, Status: value, LastTransitionTime: now})
}
