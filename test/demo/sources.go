// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fromTasks reports a rollout from the status of its task alone, as kubectl shows it.
func fromTasks(s *reporter) source {
	return source{&v1alpha1.EtcdOperatorTask{}, func(before, after client.Object) []line {
		task := after.(*v1alpha1.EtcdOperatorTask)
		if task.Spec.OwnerEtcdReference.Name != s.cluster {
			return nil
		}
		old, _ := before.(*v1alpha1.EtcdOperatorTask)
		if old == nil {
			return append([]line{{text: fmt.Sprintf("task %s of type %s is created", task.Name, task.Spec.Type)}}, taskLines(&v1alpha1.EtcdOperatorTask{}, task)...)
		}
		return taskLines(old, task)
	}}
}

// Names of operations in the status of a task.
const (
	deletePod     = "DeletePod"
	patchMetadata = "PatchMetadata"
)

// taskLines returns the changes in the status of a task.
func taskLines(before, after *v1alpha1.EtcdOperatorTask) []line {
	var lines []line
	was, is := cmp.Or(before.Status.Rollout, &v1alpha1.RolloutStatus{}), cmp.Or(after.Status.Rollout, &v1alpha1.RolloutStatus{})
	if before.Status.State != after.Status.State && after.Status.State == v1alpha1.TaskStateInProgress {
		lines = append(lines, line{text: "the task starts"})
	}
	lines = append(lines, replacementLines(was, is)...)
	if is.LeaderHandover != nil && (was.LeaderHandover == nil || *was.LeaderHandover != *is.LeaderHandover) {
		lines = append(lines, line{pod: is.LeaderHandover.From, text: "MoveLeader: " + after.Status.LastOperation.Reason})
	}
	if h := is.HeldBy; h != nil && (was.HeldBy == nil || was.HeldBy.Guard != h.Guard || was.HeldBy.Message != h.Message) {
		lines = append(lines, line{text: fmt.Sprintf("blocked by %s: %s", h.Guard, h.Message)})
	}
	if before.Status.State != after.Status.State && after.Status.State.IsFinal() {
		text := string(after.Status.State)
		if c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionFinished); c != nil {
			text += ": " + c.Message
		}
		lines = append(lines, line{text: text})
	}
	return lines
}

// replacementLines returns which pods are deleted or written to, and which follow the template now. A write to metadata is no step
// of its own.
func replacementLines(was, is *v1alpha1.RolloutStatus) []line {
	before := map[types.UID]v1alpha1.LastOperation{}
	for _, p := range was.Pods {
		before[p.UID] = p.LastOperation
	}
	var back, gone []line
	for _, p := range is.Pods {
		op := p.LastOperation
		inPlace := op.Name != deletePod
		switch was, known := before[p.UID]; {
		case !known || was.Name != op.Name || was.State == op.State && was.Reason != op.Reason:
			step := line{pod: p.Name, text: fmt.Sprintf("%s: %s", op.Name, op.Reason)}
			if op.Name == patchMetadata {
				step.pod = ""
			}
			gone = append(gone, step)
		case was.State != op.State && op.State == v1alpha1.OperationStateCompleted && inPlace:
			back = append(back, line{text: fmt.Sprintf("%s is updated and participates (%d/%d)", p.Name, is.UpdatedReplicas, is.Replicas)})
		case was.State != op.State && op.State == v1alpha1.OperationStateCompleted:
			back = append(back, line{text: fmt.Sprintf("%s is back: its new pod participates (%d/%d)", p.Name, is.UpdatedReplicas, is.Replicas)})
		case was.State != op.State:
			back = append(back, line{text: fmt.Sprintf("%s %s: %s", op.Name, op.State, op.Reason)})
		}
	}
	return append(back, gone...)
}

// fromPods reports a rollout from the pods, since the StatefulSet controller gives no reasons.
func fromPods(s *reporter) source {
	return source{&corev1.Pod{}, func(before, after client.Object) []line {
		pod := after.(*corev1.Pod)
		if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "StatefulSet" || owner.Name != s.cluster {
			return nil
		}
		old, _ := before.(*corev1.Pod)
		return podLines(cmp.Or(old, &corev1.Pod{}), pod)
	}}
}

// podLines returns the changes of a pod.
func podLines(before, after *corev1.Pod) []line {
	switch {
	case before.DeletionTimestamp == nil && after.DeletionTimestamp != nil:
		return []line{{pod: after.Name, text: "the StatefulSet controller deletes " + after.Name}}
	case before.UID == "":
		return []line{{text: fmt.Sprintf("%s is re-created at revision %s", after.Name, after.Labels[appsv1.StatefulSetRevisionLabel])}}
	case !isReady(before) && isReady(after):
		return []line{{text: after.Name + " is ready"}}
	case isReady(before) && !isReady(after) && after.DeletionTimestamp == nil:
		return []line{{text: after.Name + " is no longer ready"}}
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == v1alpha1.ContainerEtcd {
			return s.Ready
		}
	}
	return false
}
