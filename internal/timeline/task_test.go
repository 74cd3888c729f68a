// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// step of a rollout on a pod, which was decided at a time, in a term of a leader; done is when it was completed, 0 while it is not.
func step(pod, operation, leader string, term int64, decided, done float64) v1alpha1.RolloutPod {
	p := v1alpha1.RolloutPod{
		Name: pod, UID: types.UID(pod + operation), Class: v1alpha1.ClassParticipating, Revision: "old",
		LastOperation: v1alpha1.LastOperation{Name: operation, State: v1alpha1.OperationStateInProgress, Reason: pod + " is next", LastTransitionTime: metav1.Time{Time: at(decided)}},
		Evidence:      v1alpha1.Evidence{ObservedAt: metav1.MicroTime{Time: at(decided)}, Leader: leader, Term: term},
	}
	if done > 0 {
		p.LastOperation.State, p.LastOperation.LastTransitionTime = v1alpha1.OperationStateCompleted, metav1.Time{Time: at(done)}
	}
	return p
}

func rollout(state v1alpha1.TaskState, change func(*v1alpha1.EtcdOperatorTask)) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "main-rollout-1"}}
	t.Spec.Type, t.Spec.OwnerEtcdReference.Name = v1alpha1.QuorumAwareRollout, "main"
	t.Status.State, t.Status.InitiatedAt = state, &metav1.Time{Time: at(0)}
	t.Status.Rollout = &v1alpha1.RolloutStatus{TargetRevision: "new", Replicas: 3, UpdatedReplicas: 2, Pods: []v1alpha1.RolloutPod{
		step("main-0", "DeletePod", "main-2", 4, 1, 9), step("main-1", "ResizePod", "main-2", 4, 10, 12),
	}}
	change(t)
	return t
}

// What the status of a task records is drawn in characters and as a picture, of one that has ended and of one that runs.
func TestOfTask(t *testing.T) {
	ended := rollout(v1alpha1.TaskStateSucceeded, func(t *v1alpha1.EtcdOperatorTask) {
		t.Status.CompletedAt = &metav1.Time{Time: at(30)}
		t.Status.Rollout.UpdatedReplicas = 3
		t.Status.Rollout.LeaderHandover = &v1alpha1.LeaderHandover{From: "main-2", To: "main-0", Attempts: 1, LastAttemptTime: metav1.Time{Time: at(13)}}
		t.Status.Rollout.Pods = append(t.Status.Rollout.Pods, step("main-2", "DeletePod", "main-0", 5, 14, 29))
	})
	blocked := rollout(v1alpha1.TaskStateInProgress, func(t *v1alpha1.EtcdOperatorTask) {
		t.Status.Rollout.Pods[1].LastOperation.State = v1alpha1.OperationStateFailed
		t.Status.Rollout.Pods = append(t.Status.Rollout.Pods, step("main-3", "EvictPod", "", 0, 20, 0))
		t.Status.Rollout.HeldBy = &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "main-2", Message: "main-3 is starting", Since: metav1.Time{Time: at(21)}}
	})
	for name, task := range map[string]*v1alpha1.EtcdOperatorTask{"ended": ended, "blocked": blocked} {
		chart, ok := OfTask(task, at(60))
		if !ok {
			t.Fatal("it is a rollout")
		}
		golden.Check(t, name+".txt", []byte(strings.Join(chart.Text(80), "\n")+"\n"))
		var picture, page bytes.Buffer
		if err := chart.Write(&picture); err != nil {
			t.Fatal(err)
		}
		if err := chart.WritePage(&page); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(picture.String(), ">writes<") || strings.Contains(picture.String(), "NaN") || strings.Contains(picture.String(), "ZgotmplZ") {
			t.Error("nothing is known of writes")
		}
		if !strings.HasPrefix(page.String(), "<!doctype html>") || !strings.Contains(page.String(), picture.String()) {
			t.Error("the page has the picture")
		}
		if width := len([]rune(strings.Split(strings.Join(chart.Text(80), "\n"), "\n")[3])); width > 80 {
			t.Errorf("a row has %d characters", width)
		}
	}
	for name, task := range map[string]*v1alpha1.EtcdOperatorTask{
		"not a rollout": rollout(v1alpha1.TaskStateSucceeded, func(t *v1alpha1.EtcdOperatorTask) { t.Status.Rollout = nil }),
		"not begun":     rollout(v1alpha1.TaskStatePending, func(t *v1alpha1.EtcdOperatorTask) { t.Status.InitiatedAt = nil }),
	} {
		if _, ok := OfTask(task, at(60)); ok {
			t.Error(name)
		}
	}
}

// A rollout of days has no more marks on its axis than a short one.
func TestTicksOfALongRollout(t *testing.T) {
	for _, d := range []time.Duration{time.Second, time.Hour, 30 * time.Hour, 20 * 24 * time.Hour} {
		if n := len(ticks(scale{zero, d.Seconds()})); n > 25 {
			t.Errorf("%s: %d marks", d, n)
		}
	}
}
