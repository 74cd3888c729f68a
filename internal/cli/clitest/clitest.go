// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package clitest has tasks for the plugin's tests, and the time at which they are printed.
package clitest

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Now is the time of the tests.
var Now = time.Date(2026, 1, 2, 0, 0, 30, 0, time.UTC)

// Ago returns the time some seconds before Now.
func Ago(seconds int) metav1.Time {
	return metav1.Time{Time: Now.Add(-time.Duration(seconds) * time.Second)}
}

// Task returns a task that was created some seconds ago.
func Task(name string, taskType v1alpha1.TaskType, state v1alpha1.TaskState, ago int) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name), CreationTimestamp: Ago(ago), ResourceVersion: "1"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: taskType, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "etcd-main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: state},
	}
}

// With adds a condition to a task.
func With(t *v1alpha1.EtcdOperatorTask, conditionType string, status metav1.ConditionStatus, reason, message string) *v1alpha1.EtcdOperatorTask {
	t.Status.Conditions = append(t.Status.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message})
	return t
}

// Held returns a rollout that has replaced an unhealthy member and deleted a follower, and is blocked because the follower's
// replacement does not start.
func Held() *v1alpha1.EtcdOperatorTask {
	t := Task("etcd-main-rollout-7d9f9c7bd5-5c8fb-1", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateInProgress, 60)
	t.Spec.Config = "targetRevision: etcd-main-7d9f9c7bd5\n"
	initiated := Ago(59)
	t.Status.InitiatedAt, t.Status.Progress = &initiated, "2/3"
	message := "etcd-main-1 does not start (container etcd: ImagePullBackOff: Back-off pulling image \"quay.io/coreos/etcd:v3.6.99\")"
	With(t, v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "the update strategy of StatefulSet etcd-main is OnDelete")
	With(t, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonHeld, "OthersParticipating: "+message)
	t.Status.Rollout = &v1alpha1.RolloutStatus{
		TargetRevision: "etcd-main-7d9f9c7bd5", Replicas: 3, UpdatedReplicas: 2, ParticipatingReplicas: 2,
		HeldBy: &v1alpha1.Hold{Guard: v1alpha1.GuardOthersParticipating, Pod: "etcd-main-1", Message: message, Since: Ago(20)},
		Pods: []v1alpha1.RolloutPod{
			removed("etcd-main-0", v1alpha1.ClassUnready, v1alpha1.RoleUnknown, v1alpha1.OperationStateCompleted, 45, 2,
				"etcd-main-0 runs and does not participate; its successor at revision etcd-main-7d9f9c7bd5 participates", 58),
			removed("etcd-main-1", v1alpha1.ClassParticipating, v1alpha1.RoleFollower, v1alpha1.OperationStateInProgress, 44, 3,
				"etcd-main-1 is a follower, and all others participate", 44),
		},
	}
	return t
}

func removed(pod string, class v1alpha1.PodClass, role v1alpha1.Role, state v1alpha1.OperationState, transition int, serving int32, reason string, observed int) v1alpha1.RolloutPod {
	return v1alpha1.RolloutPod{
		Name: pod, UID: types.UID(pod), Class: class, Role: role, Revision: "etcd-main-6c4b8f9d5c",
		LastOperation: v1alpha1.LastOperation{Name: "DeletePod", State: state, LastTransitionTime: Ago(transition), Reason: reason},
		Evidence: v1alpha1.Evidence{
			ObservedAt: metav1.MicroTime{Time: Ago(observed).Time}, Leader: "etcd-main-2", Voters: 3, Quorum: 2, ServingVoters: serving,
		},
	}
}

// Ended returns a rollout that has succeeded, with its events.
func Ended() (*v1alpha1.EtcdOperatorTask, []corev1.Event) {
	t := Held()
	t.Status.State, t.Status.Progress = v1alpha1.TaskStateSucceeded, "3/3"
	completed := Ago(5)
	t.Status.CompletedAt = &completed
	r := t.Status.Rollout
	r.HeldBy, r.UpdatedReplicas, r.ParticipatingReplicas = nil, 3, 3
	r.Pods[1].LastOperation.State, r.Pods[1].LastOperation.LastTransitionTime = v1alpha1.OperationStateCompleted, Ago(10)
	r.Pods[1].LastOperation.Reason += "; its successor at revision etcd-main-7d9f9c7bd5 participates"
	r.LeaderHandover = &v1alpha1.LeaderHandover{From: "etcd-main-2", To: "etcd-main-0", Attempts: 1, LastAttemptTime: Ago(9)}
	message := "every pod of StatefulSet etcd-main is at revision etcd-main-7d9f9c7bd5, and every member participates"
	t.Status.Conditions = t.Status.Conditions[:1]
	With(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSucceeded, message)
	return t, []corev1.Event{
		event("Started", "task QuorumAwareRollout of Etcd etcd-main has started", 59),
		event("DeletePod", "etcd-main-0 runs and does not participate", 58),
		event("Stalled", "no progress for 10m0s; OthersParticipating: etcd-main-1 does not start", 15),
		event("MoveLeader", "etcd-main-2 leads and is next: leadership goes to etcd-main-0, which is updated and has caught up", 9),
		event("Succeeded", message, 5),
	}
}

func event(reason, message string, ago int) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, EventTime: metav1.MicroTime{Time: Ago(ago).Time}}
}

// Rejected returns a task that ended with an error before it ran.
func Rejected(code v1alpha1.ErrorCode, description string) *v1alpha1.EtcdOperatorTask {
	t := Task("etcd-main-rollout-x7k2p", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateRejected, 30)
	at := Ago(29)
	t.Status.InitiatedAt, t.Status.CompletedAt = &at, &at
	t.Status.LastErrors = []v1alpha1.LastError{{Code: code, Description: description, ObservedAt: at}}
	With(t, v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonRejected, string(code)+": "+description)
	return With(t, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRejected, string(code)+": "+description)
}

// Queue returns queued and finished tasks, unordered.
func Queue() []*v1alpha1.EtcdOperatorTask {
	suspended := Task("etcd-main-defrag-b2wlq", v1alpha1.OnDemandMaintenance, v1alpha1.TaskStatePending, 40)
	suspended.Spec.Suspend = true
	queued := With(Task("etcd-main-snapshot-k9fzx", v1alpha1.OnDemandSnapshot, v1alpha1.TaskStatePending, 30),
		v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonQueued, "number 2 in line, behind etcd-main-rollout-7d9f9c7bd5-5c8fb-1")
	unseen := Task("etcd-main-copy-backups-m4r8t", v1alpha1.CopyBackups, "", 1)
	other := Task("events-restart-c5n2j", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateSucceeded, 7200)
	other.Spec.OwnerEtcdReference.Name = "etcd-events"
	ended, _ := Ended()
	ended.Name, ended.UID, ended.CreationTimestamp = "etcd-main-rollout-6c4b8f9d5c-5c8fb-1", "ended", Ago(90000)
	return []*v1alpha1.EtcdOperatorTask{other, unseen, ended, suspended, queued, Held()}
}
