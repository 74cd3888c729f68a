// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "e2e", Name: name, Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "main-2"}, CreationTimestamp: metav1.Now()}
}

// Whoever reads the last lines sees what holds the test up, whatever else there is.
func TestTheMostUsefulIsLast(t *testing.T) {
	g := NewWithT(t)
	since := metav1.NewTime(time.Now().Add(-10 * time.Second))
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	died := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "the volume is\nanother member's " + strings.Repeat("x", 999)}}
	pod := &corev1.Pod{ObjectMeta: named("main-3"), Status: corev1.PodStatus{
		Phase:                 corev1.PodPending,
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare", State: waiting, LastTerminationState: died, RestartCount: 2}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "etcd", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}}
	etcd := &v1alpha1.Etcd{ObjectMeta: named("main"), Spec: v1alpha1.EtcdSpec{Replicas: 5}, Status: v1alpha1.EtcdStatus{Conditions: v1alpha1.Conditions{
		{Condition: metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Message: "fine"}},
		{Condition: metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionFalse, Message: "fine"}},
		{Condition: metav1.Condition{Type: v1alpha1.ConditionScaled, Status: metav1.ConditionFalse, Reason: "Scaling", Message: "3 of 5", LastTransitionTime: since}},
		{Condition: metav1.Condition{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Message: "3 of 5"}},
		{Condition: metav1.Condition{Type: v1alpha1.ConditionAlarmRaised, Status: metav1.ConditionTrue, Reason: "NoSpace", Message: "Alarm NOSPACE of main-0", LastTransitionTime: since}},
	}}}
	set := &appsv1.StatefulSet{ObjectMeta: named("main"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5)}, Status: appsv1.StatefulSetStatus{Replicas: 4, ReadyReplicas: 3, UpdatedReplicas: 4, UpdateRevision: "main-2"}}
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: named("main-members-5"), Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange}, Status: v1alpha1.EtcdOperatorTaskStatus{
		State: v1alpha1.TaskStateInProgress, Progress: "0/2",
		Conditions:    []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Message: "main-3 has to join"}},
		LastOperation: &v1alpha1.LastOperation{Name: "ScaleUp", State: v1alpha1.OperationStateCompleted},
		LastErrors:    []v1alpha1.LastError{{Code: "ERR_OLD"}, {Code: "ERR_NEW", Description: "no"}},
	}}
	done := &v1alpha1.EtcdOperatorTask{ObjectMeta: named("main-a"), Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateSucceeded, Conditions: task.Status.Conditions}}
	done.CreationTimestamp = since
	elsewhere := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "main-0"}}
	said := Scene{Kube: apitest.API(pod, etcd, set, task, done, elsewhere), Namespace: "e2e", Logs: fake.NewClientset()}.String()
	g.Expect(said).To(MatchRegexp(`^StatefulSet main: 5 replicas wanted, 4 pods, 3 ready, 4 updated to main-2
pod main-3 \(main-2\) Pending; prepare CrashLoopBackOff, 2 restarts, before: Error 1 the volume is another member's x{100,220}…; etcd running, not ready
  prepare: fake logs
Etcd main: 5 replicas, generation 0, observed 0
  Scaled is False \(Scaling\) for 1.s: 3 of 5
  AlarmRaised is True \(NoSpace\) for 1.s: Alarm NOSPACE of main-0
task main-a \(\) Succeeded
task main-members-5 \(MembershipChange\) InProgress 0/2: main-3 has to join; last operation ScaleUp Completed; last error ERR_NEW: no$`))
}

// A line of the operator's log is shown without what every line has, and only the last lines are shown.
func TestLinesOfALog(t *testing.T) {
	g := NewWithT(t)
	g.Expect(logged(`{"level":"info","ts":"T","caller":"a.go:1","msg":"Performing step","namespace":"e2e","reconcileID":"1","task":{"name":"x"}}`)).To(Equal(`operator T: Performing step {"task":{"name":"x"}}`))
	g.Expect(logged("panic: no")).To(Equal("panic: no"))
	g.Expect(last(2, []string{"a", "b", "c"})).To(Equal([]string{"b", "c"}))
	g.Expect(last(2, []string{"a"})).To(Equal([]string{"a"}))
}
