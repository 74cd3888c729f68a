// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func replacement(name string, state v1alpha1.OperationState, reason string) v1alpha1.RolloutPod {
	return v1alpha1.RolloutPod{Name: name, UID: types.UID(name), LastOperation: v1alpha1.LastOperation{Name: "DeletePod", State: state, Reason: reason}}
}

func TestTaskLines(t *testing.T) {
	pending := &v1alpha1.EtcdOperatorTask{}
	started := &v1alpha1.EtcdOperatorTask{Status: v1alpha1.EtcdOperatorTaskStatus{
		State: v1alpha1.TaskStateInProgress,
		Rollout: &v1alpha1.RolloutStatus{
			Replicas: 3, Pods: []v1alpha1.RolloutPod{replacement("m-0", v1alpha1.OperationStateInProgress, "m-0 runs and does not participate")},
		},
	}}
	held := started.DeepCopy()
	held.Status.Rollout.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Message: "m-0 is terminating"}
	back := started.DeepCopy()
	back.Status.Rollout.UpdatedReplicas = 1
	back.Status.Rollout.Pods[0].LastOperation.State = v1alpha1.OperationStateCompleted
	back.Status.Rollout.LeaderHandover = &v1alpha1.LeaderHandover{From: "m-1", To: "m-0", Attempts: 1}
	back.Status.LastOperation = &v1alpha1.LastOperation{Name: "MoveLeader", Reason: "m-1 leads and is next"}
	ended := back.DeepCopy()
	ended.Status.State = v1alpha1.TaskStateSucceeded
	ended.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Message: "every member participates"}}

	written := func(kind string, state v1alpha1.OperationState) *v1alpha1.EtcdOperatorTask {
		task := started.DeepCopy()
		task.Status.Rollout.Pods[0].LastOperation = v1alpha1.LastOperation{Name: kind, State: state, Reason: "m-0 is updated in place"}
		return task
	}
	marked, resized, updated := written("PatchMetadata", v1alpha1.OperationStateInProgress), written("ResizePod", v1alpha1.OperationStateInProgress), written("PatchMetadata", v1alpha1.OperationStateCompleted)
	updated.Status.Rollout.UpdatedReplicas = 1

	for name, test := range map[string]struct {
		before, after *v1alpha1.EtcdOperatorTask
		want          []line
	}{
		"marks a pod":        {pending, marked, []line{{text: "the task starts"}, {text: "PatchMetadata: m-0 is updated in place"}}},
		"resizes it":         {marked, resized, []line{{pod: "m-0", text: "ResizePod: m-0 is updated in place"}}},
		"has updated it":     {written("PatchMetadata", v1alpha1.OperationStateInProgress), updated, []line{{text: "m-0 is updated and participates (1/3)"}}},
		"starts with a step": {pending, started, []line{{text: "the task starts"}, {pod: "m-0", text: "DeletePod: m-0 runs and does not participate"}}},
		"is held":            {started, held, []line{{text: "blocked by OthersParticipating: m-0 is terminating"}}},
		"is held still":      {held, held, nil},
		"goes on": {held, back, []line{
			{text: "m-0 is back: its new pod participates (1/3)"}, {pod: "m-1", text: "MoveLeader: m-1 leads and is next"},
		}},
		"ends": {back, ended, []line{{text: "Succeeded: every member participates"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, taskLines(test.before, test.after), cmp.AllowUnexported(line{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSourcesReportOnlyTheirCluster(t *testing.T) {
	s := &reporter{cluster: "m"}
	other := &v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{OwnerEtcdReference: v1alpha1.EtcdReference{Name: "other"}}}
	if lines := fromTasks(s).lines(nil, other); lines != nil {
		t.Errorf("of a task of another Etcd: %v", lines)
	}
	if lines := fromPods(s).lines(nil, &corev1.Pod{}); lines != nil {
		t.Errorf("of any pod: %v", lines)
	}
}

func TestPodLines(t *testing.T) {
	pod := func(ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-2", UID: "u", Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "m-abc"}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, Ready: ready}}
		return p
	}
	now := metav1.Now()
	deleted := pod(true)
	deleted.DeletionTimestamp = &now
	for name, test := range map[string]struct {
		before, after *corev1.Pod
		want          string
	}{
		"deleted":   {pod(true), deleted, "the StatefulSet controller deletes m-2"},
		"created":   {&corev1.Pod{}, pod(false), "m-2 is re-created at revision m-abc"},
		"ready":     {pod(false), pod(true), "m-2 is ready"},
		"not ready": {pod(true), pod(false), "m-2 is no longer ready"},
		"the same":  {pod(true), pod(true), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := podLines(test.before, test.after)
			if test.want == "" && got != nil || test.want != "" && (len(got) != 1 || got[0].text != test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
			if isStep := len(got) > 0 && got[0].pod != ""; isStep != (name == "deleted") {
				t.Errorf("%v: is a step: %t", got, isStep)
			}
		})
	}
}
