// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newTask makes a pending task that was created at the epoch and is at a resourceVersion.
func newTask(resourceVersion string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: resourceVersion, CreationTimestamp: metav1.Time{Time: epoch}},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStatePending},
	}
}

func TestLifeOfATask(t *testing.T) {
	g := NewWithT(t)
	task := newTask("7")
	task.Status = v1alpha1.EtcdOperatorTaskStatus{}
	RecordArrival(task)
	g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStatePending))
	g.Expect(task.Status.ArrivalResourceVersion).To(Equal("7"))
	task.ResourceVersion = "8"
	RecordArrival(task)
	g.Expect(task.Status.ArrivalResourceVersion).To(Equal("7"), "the arrival is recorded once")

	RecordAdmission(task, "{}", "fine", epoch)
	g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateInProgress))
	RecordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonRunning, Message: "going", Progress: "1/3", Step: &tasks.Step{Operation: "DeletePod", Reason: "it is sick"}}, epoch)
	g.Expect(*task.Status.LastOperation).To(Equal(v1alpha1.LastOperation{Name: "DeletePod", State: v1alpha1.OperationStateInProgress, LastTransitionTime: metav1.Time{Time: epoch}, Reason: "it is sick"}))
	g.Expect(meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionProgressing)).To(BeTrue())
	RecordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonStalled, Message: "stuck"}, epoch)
	g.Expect(task.Status.Progress).To(Equal("1/3"), "what a verdict leaves out stays")
	g.Expect(meta.IsStatusConditionFalse(task.Status.Conditions, v1alpha1.ConditionProgressing)).To(BeTrue())

	task.Status.Rollout = &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{}, BlockedBy: []v1alpha1.BlockedBy{{}}}
	RecordEnd(task, tasks.Done, "", "all is well", epoch.Add(time.Minute))
	g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(task.Status.CompletedAt.Time).To(Equal(epoch.Add(time.Minute)))
	g.Expect(task.Status.InitiatedAt.Time).To(Equal(epoch))
	g.Expect(task.Status.Rollout.HeldBy).To(BeNil())
	g.Expect(task.Status.Rollout.BlockedBy).To(BeEmpty())
	g.Expect(task.Status.LastErrors).To(BeEmpty())
}

func TestEndsOfATask(t *testing.T) {
	for outcome, want := range map[tasks.Outcome]struct {
		state               v1alpha1.TaskState
		succeeded, admitted metav1.ConditionStatus
	}{
		tasks.Done:   {v1alpha1.TaskStateSucceeded, metav1.ConditionTrue, metav1.ConditionTrue},
		tasks.Fail:   {v1alpha1.TaskStateFailed, metav1.ConditionFalse, metav1.ConditionTrue},
		tasks.Reject: {v1alpha1.TaskStateRejected, metav1.ConditionFalse, metav1.ConditionFalse},
	} {
		g := NewWithT(t)
		task := newTask("1")
		RecordEnd(task, outcome, "", "because", epoch)
		g.Expect(task.Status.State).To(Equal(want.state))
		g.Expect(task.Status.State.IsFinal()).To(BeTrue())
		g.Expect(meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionFinished)).To(BeTrue(), "kubectl wait ends, whatever the outcome")
		g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSucceeded).Status).To(Equal(want.succeeded))
		g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionAdmitted).Status).To(Equal(want.admitted))
	}
}

func TestLastErrors(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	for i := range 12 {
		AddError(task, v1alpha1.ErrInternal, fmt.Sprint(i), epoch)
	}
	g.Expect(task.Status.LastErrors).To(HaveLen(10))
	g.Expect(task.Status.LastErrors[9].Description).To(Equal("11"), "the newest is last")

	AddError(task, v1alpha1.ErrInternal, "5", epoch.Add(time.Second))
	g.Expect(task.Status.LastErrors[9].Description).To(Equal("11"), "the same again is not written within a minute")
	AddError(task, v1alpha1.ErrInternal, "5", epoch.Add(time.Minute))
	g.Expect(task.Status.LastErrors[9].Description).To(Equal("5"))
	g.Expect(task.Status.LastErrors).To(HaveLen(10))

	AddError(task, v1alpha1.ErrInternal, strings.Repeat("x", 1<<20), epoch)
	g.Expect(len(task.Status.LastErrors[9].Description)).To(BeNumerically("<=", maxMessage))
}

func TestUrgency(t *testing.T) {
	base := func() *v1alpha1.EtcdOperatorTask {
		task := newTask("1")
		RecordAdmission(task, "", "", epoch)
		RecordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonHeld, Message: "m-0 is starting", Rollout: &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{Pod: "m-0"}}}, epoch)
		return task
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdOperatorTask)
		urgent bool
	}{
		"nothing": {func(*v1alpha1.EtcdOperatorTask) {}, false},
		"the wording of a hold": {func(t *v1alpha1.EtcdOperatorTask) {
			RecordVerdict(t, tasks.Verdict{Reason: v1alpha1.ReasonHeld, Message: "m-0 is ready", Progress: "2/3", Rollout: &v1alpha1.RolloutStatus{UpdatedReplicas: 2}}, epoch)
		}, false},
		"a step": {func(t *v1alpha1.EtcdOperatorTask) {
			RecordVerdict(t, tasks.Verdict{Step: &tasks.Step{Operation: "x"}}, epoch)
		}, true},
		"a stall": {func(t *v1alpha1.EtcdOperatorTask) {
			RecordVerdict(t, tasks.Verdict{Reason: v1alpha1.ReasonStalled}, epoch)
		}, true},
		"the end": {func(t *v1alpha1.EtcdOperatorTask) { RecordEnd(t, tasks.Done, "", "", epoch) }, true},
		"a condition that is gone": {func(t *v1alpha1.EtcdOperatorTask) {
			meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionAdmitted)
		}, true},
		"an error": {func(t *v1alpha1.EtcdOperatorTask) { AddError(t, v1alpha1.ErrInternal, "x", epoch) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := base(), base()
			c.change(after)
			if got := IsUrgent(&before.Status, &after.Status); got != c.urgent {
				t.Errorf("urgent: %v", got)
			}
		})
	}
}

// What a container said at its end is in the result of a task, and its author may have chosen any image.
func TestAResultIsPlainText(t *testing.T) {
	g := NewWithT(t)
	task := newTask("7")
	hostile := map[string]string{"error\x1b[2J": "\x1b]0;owned\x07 red \u202e", "long": strings.Repeat("x", 1<<16)}
	for i := range 1000 {
		hostile[fmt.Sprintf("n%d", i)] = "v"
	}
	RecordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonRunning, Message: "\x1b[31mgoing", Result: hostile}, epoch)
	g.Expect(len(task.Status.Result)).To(BeNumerically("<=", 100))
	g.Expect(task.Status.Result).To(HaveKeyWithValue("error [2J", " ]0;owned  red  "))
	g.Expect(len(task.Status.Result["long"])).To(BeNumerically("<=", 4096))
	g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionProgressing).Message).To(Equal(" [31mgoing"))
}
