// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// dance is a running task of a type that a newer operator has.
func dance(task *v1alpha1.EtcdOperatorTask) {
	task.Spec.Type, task.Status.Config = "Dance", "{}"
	task.Status.LastOperation = &v1alpha1.LastOperation{Name: "StopMembers", State: v1alpha1.OperationStateInProgress, Reason: "they dance"}
}

// After a rollback of the operator, a task in flight of a type that it does not know is not touched: the newer operator continues it. No
// other task starts beside it, not even a recovery, and it is said why.
func TestTaskOfANewerOperator(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running, dance)
	s.add(t, "b", pending)
	s.add(t, "c", pending, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
	before := s.get(t, "a")
	e := newEngine(t, s)
	e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor}
	e.look()
	e.Expect(s.get(t, "a")).To(Equal(before), "nothing is written")
	e.Expect(e.admitted).To(BeEmpty())
	e.Expect(e.cleaned).To(BeEmpty())
	e.Expect(e.progress("b")).To(MatchRegexp(`^Queued: number \d in line, behind a\. Of a, its type Dance is not known to this operator of version .+\. Reinstall the operator version that started it`))
	e.Expect(e.progress("c")).To(ContainSubstring("behind a. Of a, its type Dance"))
	said := e.told()
	e.Expect(said).To(HaveLen(1))
	e.Expect(said[0]).To(And(HavePrefix("Warning UnknownType its type Dance is not known"), ContainSubstring("no other task of Etcd main starts"), ContainSubstring("delete the task: nothing is cleaned up")))
	e.Expect(testutil.ToFloat64(e.Metrics.stalled)).To(Equal(1.0))

	e.pass(time.Minute)
	e.Expect(e.look()).To(And(BeNumerically(">", 0), BeNumerically("<=", unknownAgain)), "it is looked at again")
	e.Expect(e.told()).To(BeEmpty())
	e.pass(unknownAgain)
	e.look()
	e.Expect(e.told()).To(HaveLen(1), "events do not last")
	e.Expect(s.get(t, "a")).To(Equal(before))

	s.deleteA(t)
	e.look()
	e.Expect(e.told()).To(ContainElement(And(HavePrefix("Warning UnknownType task a was deleted while it was running, and nothing was cleaned up after it"), ContainSubstring("StopMembers (InProgress): they dance"))))
	e.Expect(e.admitted).To(Equal([]string{"c"}), "the others go on")
	e.look()
	e.Expect(e.told()).NotTo(ContainElement(ContainSubstring("was deleted")), "it is said once")
}

// What has begun beside it waits, but a recovery that has begun goes on: it has stopped the members.
func TestBesideATaskOfANewerOperator(t *testing.T) {
	for of, want := range map[v1alpha1.TaskType]string{v1alpha1.QuorumLossRecovery: "Running: ", v1alpha1.QuorumAwareRollout: "Preempted: ", v1alpha1.OnDemandSnapshot: "Preempted: "} {
		s := newServer(t)
		s.add(t, "b", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = of })
		s.add(t, "a", running, dance)
		before := s.get(t, "a")
		e := newEngine(t, s)
		e.Registry[of] = tasks.Type{Handler: e.actor}
		e.look()
		e.Expect(e.progress("b")).To(HavePrefix(want), string(of))
		e.Expect(s.get(t, "a")).To(Equal(before))
	}
}

// Nor is it touched if its Etcd was replaced, if it has ended, or while the cleanup after another task fails. What was never started is no
// loss: it is rejected, and expires.
func TestNothingIsWrittenToATaskOfANewerOperator(t *testing.T) {
	ended := func(task *v1alpha1.EtcdOperatorTask) {
		dance(task)
		task.Status.CompletedAt, task.Spec.TTLSecondsAfterFinished = &metav1.Time{Time: epoch}, ptr.To[int32](0)
	}
	for name, c := range map[string]struct {
		state   v1alpha1.TaskState
		change  func(*v1alpha1.EtcdOperatorTask)
		changed bool
	}{
		"its Etcd was replaced": {running, func(task *v1alpha1.EtcdOperatorTask) { dance(task); task.OwnerReferences[0].UID = "old" }, false},
		"it has ended":          {v1alpha1.TaskStateSucceeded, ended, false},
		"a cleanup fails":       {running, dance, false},
		"it was never started":  {v1alpha1.TaskStateRejected, func(task *v1alpha1.EtcdOperatorTask) { ended(task); task.Status.Config = "" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "b", running)
			e := newEngine(t, s)
			e.look()
			s.add(t, "a", c.state, c.change)
			before := s.get(t, "a")
			e.cleanUp = func() error { return errors.New("the API server is away") }
			if name == "a cleanup fails" {
				e.Expect(s.tracker.Delete(t.Context(), s.get(t, "b"))).To(Succeed())
			}
			_, _ = e.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
			if c.changed {
				e.Expect(s.get(t, "a")).To(BeNil())
				return
			}
			e.Expect(s.get(t, "a")).To(Equal(before))
		})
	}
}
