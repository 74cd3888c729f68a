// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/etcd-foreman/etcd-foreman/test/kstatus"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Etcd is judged right by tools that follow kstatus.
func TestEtcdsByTheRulesOfKstatus(t *testing.T) {
	outdated := func() *cluster.Snapshot {
		s := clustertest.Healthy(3)
		s.Ordinals[2].Pod.Revision = "old"
		return s
	}
	stalledTask := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "main-rollout"}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout}}
	stalledTask.Status.State = v1alpha1.TaskStateInProgress
	stalledTask.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStalled, Message: "no progress for 10m"}}
	endedTask := *stalledTask.DeepCopy()
	endedTask.Status.State = v1alpha1.TaskStateFailed
	otherTask := *stalledTask.DeepCopy()
	otherTask.Spec.Type = v1alpha1.CopyBackups

	for name, c := range map[string]struct {
		change  func(*v1alpha1.Etcd, *Input)
		want    kstatus.Status
		reason  string
		message string
	}{
		"nothing to do": {func(*v1alpha1.Etcd, *Input) {}, kstatus.Current, v1alpha1.ReasonUpToDate, ""},
		"a newer spec":  {func(e *v1alpha1.Etcd, o *Input) { e.Generation++; o.Settled = false }, kstatus.InProgress, v1alpha1.ReasonSpecPending, "generation"},
		"a suspended spec": {func(e *v1alpha1.Etcd, o *Input) {
			e.Generation++
			o.Settled = false
			e.Annotations = map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
		}, kstatus.InProgress, v1alpha1.ReasonSpecPending, "generation"},
		"a rollout is pending": {func(_ *v1alpha1.Etcd, o *Input) { o.Snapshot = outdated() }, kstatus.InProgress, v1alpha1.ReasonRolloutPending, "2 of 3 pods"},
		"a rollout is stalled": {func(_ *v1alpha1.Etcd, o *Input) {
			o.Snapshot = outdated()
			o.Tasks = []v1alpha1.EtcdOperatorTask{stalledTask}
		}, kstatus.Failed, v1alpha1.ReasonRolloutPending, "Task main-rollout: no progress for 10m"},
		"a rollout was stalled": {func(_ *v1alpha1.Etcd, o *Input) { o.Tasks = []v1alpha1.EtcdOperatorTask{endedTask} }, kstatus.Current, v1alpha1.ReasonUpToDate, ""},
		"another task stalls":   {func(_ *v1alpha1.Etcd, o *Input) { o.Tasks = []v1alpha1.EtcdOperatorTask{otherTask} }, kstatus.Current, v1alpha1.ReasonUpToDate, ""},
		"a member is down": {func(_ *v1alpha1.Etcd, o *Input) {
			o.Snapshot.Ordinals[0].Class = v1alpha1.ClassDead
		}, kstatus.InProgress, v1alpha1.ReasonNotAllMembersReady, "is Dead"},
		"a stage keeps failing": {func(_ *v1alpha1.Etcd, o *Input) {
			o.Failures = []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("the quota is exhausted")}}
		}, kstatus.Failed, v1alpha1.ReasonReconcileFailed, "the quota is exhausted."},
		"scale-in is refused": {func(_ *v1alpha1.Etcd, o *Input) {
			o.Size = &scale.Size{Reason: v1alpha1.ReasonSingleMemberNotAllowed, Why: "one member tolerates no failure"}
		}, kstatus.Failed, v1alpha1.ReasonSingleMemberNotAllowed, "One member tolerates no failure"},
		"the quorum is lost": {func(_ *v1alpha1.Etcd, o *Input) {
			for i := range 2 {
				clustertest.Away(o.Snapshot, i, v1alpha1.ClassDead, "OOMKilled")
			}
			o.LostFor = confirmLoss
		}, kstatus.InProgress, v1alpha1.ReasonNotAllMembersReady, "OOMKilled"},
		"hibernated": {func(e *v1alpha1.Etcd, o *Input) {
			e.Spec.Replicas = 0
			o.Snapshot = clustertest.Healthy(0)
		}, kstatus.InProgress, v1alpha1.ReasonUpToDate, "The Etcd has no replicas."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := served()
			o := observed(etcd, clustertest.Healthy(3), later)
			c.change(etcd, &o)
			etcd.Status = Next(o)
			got, message, err := kstatus.Compute(etcd)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want), message)
			g.Expect(message).To(ContainSubstring(c.message))
			upToDate := etcd.Status.Conditions.Find(v1alpha1.ConditionUpToDate)
			g.Expect(upToDate.Reason).To(Equal(c.reason), upToDate.Message)
			golden.Check(t, "kstatus-"+strings.ReplaceAll(name, " ", "-")+".json", encoded(t, etcd))
			g.Expect(upToDate.Status == metav1.ConditionTrue).To(Equal(c.reason == v1alpha1.ReasonUpToDate))
			g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReconciling)).To(Equal(c.reason != v1alpha1.ReasonUpToDate), "Stalled does not end Reconciling")
			for _, absent := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling} {
				g.Expect(etcd.Status.Conditions.IsFalse(absent)).To(BeFalse(), "%s is absent when all is well", absent)
			}
		})
	}
}

// encoded returns an Etcd as the API server does. The health checks in docs/gitops.md are tested with it.
func encoded(t *testing.T, etcd *v1alpha1.Etcd) []byte {
	t.Helper()
	data, err := json.MarshalIndent(etcd, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// A reconcile that was interrupted says so, too, and Stalled stands in front of Reconciling from the first status on.
func TestInterruptedReconcileIsStalled(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	etcd.Status.ObservedGeneration = -1
	etcd.Status = Interrupted(etcd, []Failure{{Code: v1alpha1.ErrObserve, Err: errors.New("the API server times out")}}, noon)
	g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionStalled)).To(BeTrue())
	g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReconciling)).To(BeTrue())
	order := []string{}
	for _, c := range etcd.Status.Conditions {
		order = append(order, c.Type)
	}
	g.Expect(order).To(HaveExactElements(v1alpha1.ConditionReconciled, v1alpha1.ConditionUpToDate, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling))
}

// A rollout that stalls, as rollouts do, when Reconciling has been there for a while: kstatus takes the first of the two. Each is
// gone when it ends, and the time since when it has been is kept.
func TestStalledComesFirstWhenItComesLater(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	at := func(s *cluster.Snapshot, now metav1.Time, reason string) kstatus.Status {
		before := etcd.Status.DeepCopy()
		o := observed(etcd, s, now)
		o.Tasks = []v1alpha1.EtcdOperatorTask{{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout}}}
		o.Tasks[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: reason}}
		etcd.Status = Next(o)
		g.Expect(SaysMore(before, &etcd.Status)).To(BeTrue(), "it is written at once")
		got, _, err := kstatus.Compute(etcd)
		g.Expect(err).NotTo(HaveOccurred())
		return got
	}
	outdated := clustertest.Healthy(3)
	outdated.Ordinals[2].Pod.Revision = "old"
	g.Expect(at(outdated, noon, v1alpha1.ReasonRunning)).To(Equal(kstatus.InProgress))
	g.Expect(at(outdated, later, v1alpha1.ReasonStalled)).To(Equal(kstatus.Failed))
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionReconciling).LastTransitionTime).To(Equal(noon))
	g.Expect(at(outdated, later, v1alpha1.ReasonRunning)).To(Equal(kstatus.InProgress))
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionStalled)).To(BeNil())
	g.Expect(at(clustertest.Healthy(3), later, v1alpha1.ReasonRunning)).To(Equal(kstatus.Current))
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionReconciling)).To(BeNil())
}

// A status that says nothing of the members yet, such as the first after an adoption, is not up to date.
func TestWhatIsNotKnownIsNotUpToDate(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	etcd.Status.ObservedGeneration = 1
	g.Expect(upToDate(etcd, &etcd.Status)).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonNoMembersInStatus)))
}
