// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/kstatus"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// condition returns a condition of a task, which must have it.
func condition(g Gomega, t *v1alpha1.EtcdOperatorTask, name string) metav1.Condition {
	c := meta.FindStatusCondition(t.Status.Conditions, name)
	g.Expect(c).NotTo(BeNil(), name)
	return *c
}

func TestWhatAdmissionRecords(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	task.Generation = 4
	RecordArrival(task)
	g.Expect(task.Status.ObservedGeneration).To(Equal(int64(4)))
	RecordAdmission(task, "{a: 1}", strings.Repeat("fine ", maxMessage), epoch)
	g.Expect(task.Status.Config).To(Equal("{a: 1}"))
	g.Expect(task.Status.InitiatedAt.Time).To(Equal(epoch))
	admitted := condition(g, task, v1alpha1.ConditionAdmitted)
	g.Expect(admitted).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonAdmitted), HaveField("ObservedGeneration", int64(4)), HaveField("LastTransitionTime.Time", epoch)))
	g.Expect(len(admitted.Message)).To(And(BeNumerically(">", 100), BeNumerically("<=", maxMessage)))
	reconciling := condition(g, task, v1alpha1.ConditionReconciling)
	g.Expect(reconciling).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", int64(4)), HaveField("LastTransitionTime.Time", epoch)))
}

func TestWhatAVerdictRecords(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	RecordAdmission(task, "", "", epoch)
	long := strings.Repeat("x", 2*maxMessage)
	verdict := tasks.Verdict{
		Message: "working", Rollout: &v1alpha1.RolloutStatus{UpdatedReplicas: 2}, Recovery: &v1alpha1.RecoveryStatus{Member: "m-0"}, Result: map[string]string{"a": "b"},
		LastOperation: &v1alpha1.LastOperation{Name: "Stop", Reason: long},
		Conditions:    []metav1.Condition{{Type: "Backed", Status: metav1.ConditionTrue, Reason: "Taken", Message: "there is one"}},
	}
	RecordVerdict(task, verdict, epoch.Add(time.Second))
	g.Expect(task.Status.Rollout.UpdatedReplicas).To(Equal(int32(2)))
	g.Expect(task.Status.Recovery.Member).To(Equal("m-0"))
	g.Expect(task.Status.Result).To(HaveKeyWithValue("a", "b"))
	g.Expect(task.Status.LastOperation.Name).To(Equal("Stop"))
	g.Expect(len(task.Status.LastOperation.Reason)).To(And(BeNumerically(">", 100), BeNumerically("<=", maxMessage)))
	g.Expect(verdict.LastOperation.Reason).To(Equal(long), "the handler's is its own")
	g.Expect(condition(g, task, "Backed")).To(And(HaveField("Reason", "Taken"), HaveField("Message", "there is one"), HaveField("LastTransitionTime.Time", epoch.Add(time.Second))))
	g.Expect(condition(g, task, v1alpha1.ConditionProgressing)).To(And(HaveField("Reason", v1alpha1.ReasonRunning), HaveField("Message", "working")))

	RecordVerdict(task, tasks.Verdict{}, epoch.Add(time.Minute))
	g.Expect(task.Status.Rollout).NotTo(BeNil(), "what a verdict leaves out stays")
	g.Expect(task.Status.Recovery).NotTo(BeNil())
	g.Expect(task.Status.Result).NotTo(BeEmpty())
	g.Expect(task.Status.LastOperation.Name).To(Equal("Stop"))
}

func TestWhatAnEndRecords(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	RecordEnd(task, tasks.Reject, v1alpha1.ErrHibernated, "wake it up", epoch)
	g.Expect(task.Status.InitiatedAt.Time).To(Equal(epoch))
	g.Expect(task.Status.LastErrors).To(HaveLen(1))
	g.Expect(task.Status.LastErrors[0]).To(And(HaveField("Code", v1alpha1.ErrHibernated), HaveField("Description", "wake it up"), HaveField("ObservedAt.Time", epoch)))
	for _, name := range []string{v1alpha1.ConditionAdmitted, v1alpha1.ConditionProgressing, v1alpha1.ConditionSucceeded} {
		c := condition(g, task, name)
		g.Expect(c).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonRejected), HaveField("Message", string(v1alpha1.ErrHibernated)+": wake it up")), name)
	}
	g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)).To(BeNil())
	g.Expect(meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionStalled)).To(BeTrue())
}

// A task stalls when Reconciling has been there for a while: kstatus takes the first of the two. Each is gone when it ends.
func TestStalledComesFirstWhenItComesLater(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	judge := func() kstatus.Status {
		got, _, err := kstatus.Compute(task)
		g.Expect(err).NotTo(HaveOccurred())
		return got
	}
	RecordAdmission(task, "", "", epoch)
	RecordVerdict(task, tasks.Verdict{Message: "working"}, epoch.Add(time.Second))
	g.Expect(judge()).To(Equal(kstatus.InProgress))
	RecordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonStalled}, epoch.Add(time.Minute))
	g.Expect(judge()).To(Equal(kstatus.Failed))
	g.Expect(condition(g, task, v1alpha1.ConditionReconciling).LastTransitionTime.Time).To(Equal(epoch), "it has been so since then")
	g.Expect(condition(g, task, v1alpha1.ConditionStalled).LastTransitionTime.Time).To(Equal(epoch.Add(time.Minute)))
	RecordVerdict(task, tasks.Verdict{Message: "working"}, epoch.Add(time.Hour))
	g.Expect(judge()).To(Equal(kstatus.InProgress))
	g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionStalled)).To(BeNil())
	RecordEnd(task, tasks.Done, "", "", epoch.Add(time.Hour))
	g.Expect(judge()).To(Equal(kstatus.Current))
	g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReconciling)).To(BeNil())
}

// The oldest error may be the one that is seen again, and there may be as many as are kept.
func TestTheFirstErrorAgain(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	for i := range maxLastErrors {
		AddError(task, v1alpha1.ErrInternal, strings.Repeat("x", i), epoch)
	}
	g.Expect(task.Status.LastErrors).To(HaveLen(maxLastErrors))
	AddError(task, v1alpha1.ErrInternal, "", epoch.Add(time.Minute))
	g.Expect(task.Status.LastErrors).To(HaveLen(maxLastErrors))
	g.Expect(task.Status.LastErrors[0].Description).To(Equal("x"))
	g.Expect(task.Status.LastErrors[maxLastErrors-1]).To(And(HaveField("Description", ""), HaveField("ObservedAt.Time", epoch.Add(time.Minute))))
	AddError(task, v1alpha1.ErrInternal, "more", epoch)
	g.Expect(task.Status.LastErrors).To(HaveLen(maxLastErrors))
	g.Expect(task.Status.LastErrors[0].Description).To(Equal("xx"), "the oldest goes")
}

func TestTheFirstOfTwoErrorsAgain(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	AddError(task, v1alpha1.ErrInternal, "a", epoch)
	AddError(task, v1alpha1.ErrInternal, "b", epoch)
	AddError(task, v1alpha1.ErrInternal, "a", epoch.Add(time.Second))
	g.Expect(task.Status.LastErrors).To(HaveLen(2))
	g.Expect(task.Status.LastErrors[0].Description).To(Equal("a"), "not again within a minute")
	AddError(task, v1alpha1.ErrInternal, "a", epoch.Add(time.Minute))
	g.Expect(task.Status.LastErrors).To(HaveLen(2))
	g.Expect(task.Status.LastErrors[1].Description).To(Equal("a"))
}

func TestEachOfTheseIsUrgent(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EtcdOperatorTaskStatus){
		"state":      func(s *v1alpha1.EtcdOperatorTaskStatus) { s.State = v1alpha1.TaskStateInProgress },
		"generation": func(s *v1alpha1.EtcdOperatorTaskStatus) { s.ObservedGeneration++ },
	} {
		before, after := newTask("1").Status, newTask("1").Status
		change(&after)
		if !IsUrgent(&before, &after) {
			t.Errorf("%s is not urgent", name)
		}
	}
}
