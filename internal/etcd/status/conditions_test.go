// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/volumes"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each part of a reconcile has a condition of its own, which is there with what the part has found.
func TestConditionsOfTheParts(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*Input)
		condition string
		reason    string
	}{
		"adoption": {func(o *Input) {
			o.Adoption.Condition = &metav1.Condition{Type: v1alpha1.ConditionAdopted, Status: metav1.ConditionTrue, Reason: "Adopted"}
		}, v1alpha1.ConditionAdopted, "Adopted"},
		"hibernation": {func(o *Input) {
			o.Etcd.Spec.Replicas = 0
			o.Hibernation = &hibernation.View{Condition: conditions.True(v1alpha1.ConditionHibernated, v1alpha1.ReasonHibernated, "It is.")}
		}, v1alpha1.ConditionHibernated, v1alpha1.ReasonHibernated},
		"wake-up": {func(o *Input) {
			o.Snapshot = clustertest.Healthy(0)
			o.Etcd.Status.Hibernation, o.WakeUp = &v1alpha1.Hibernation{ID: "id", ClusterID: "cafe"}, &hibernation.WakeUp{Why: "it waits"}
		}, v1alpha1.ConditionHibernated, v1alpha1.ReasonWakingUp},
		"volumes": {func(o *Input) { o.Volumes = &volumes.View{} }, v1alpha1.ConditionDataVolumesReady, v1alpha1.ReasonDataVolumesReady},
		"a foreign object beside a StatefulSet": {func(o *Input) {
			o.StatefulSet, o.OwnersChecked, o.Foreign = &appsv1.StatefulSet{}, true, []ownership.Foreign{account}
		}, v1alpha1.ConditionObjectsOwned, v1alpha1.ReasonNoController},
		"claims that were not read": {func(o *Input) { o.StatefulSet, o.OwnersChecked = &appsv1.StatefulSet{}, true }, v1alpha1.ConditionObjectsOwned, ""},
		"a task has stopped all":    {func(o *Input) { o.Snapshot.StatefulSet.HeldAtZeroBy = "task" }, v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonHeldAtZero},
		"none was started yet":      {func(o *Input) { o.Snapshot = clustertest.Healthy(0) }, v1alpha1.ConditionAllMembersUpdated, v1alpha1.ReasonWakingUp},
		"no StatefulSet of its own": {func(o *Input) {
			o.Snapshot, o.Foreign = nil, []ownership.Foreign{{Kind: "StatefulSet", Name: "ns/e", Reason: v1alpha1.ReasonNoController}}
		}, v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonNotAllMembersReady},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := observed(served(), clustertest.Healthy(3), noon)
			c.change(&o)
			next := Next(o)
			found := next.Conditions.Find(c.condition)
			if c.reason == "" {
				g.Expect(found).To(BeNil())
				return
			}
			g.Expect(found).To(HaveValue(HaveField("Reason", c.reason)))
		})
	}
}

// The condition of what an Etcd does not have is removed, and what is not known stays.
func TestConditionsOfWhatIsGone(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	for _, c := range []string{v1alpha1.ConditionAdopted, v1alpha1.ConditionTLSReady, v1alpha1.ConditionHibernated} {
		etcd.Status.Conditions.Set(metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "Then"})
	}
	has := func(replicas int32, record *v1alpha1.Hibernation, condition string) bool {
		e := etcd.DeepCopy()
		e.Spec.Replicas, e.Status.Hibernation = replicas, record
		return Next(observed(e, clustertest.Healthy(0), noon)).Conditions.Find(condition) != nil
	}
	record := &v1alpha1.Hibernation{ID: "id", ClusterID: "cafe"}
	g.Expect(has(3, nil, v1alpha1.ConditionAdopted)).To(BeFalse())
	g.Expect(has(3, nil, v1alpha1.ConditionTLSReady)).To(BeFalse())
	g.Expect(has(3, nil, v1alpha1.ConditionHibernated)).To(BeFalse())
	g.Expect(has(0, nil, v1alpha1.ConditionHibernated)).To(BeTrue(), "it may hibernate")
	g.Expect(has(3, record, v1alpha1.ConditionHibernated)).To(BeTrue(), "it wakes up")

	etcd.Status.Etcd = &v1alpha1.CrossVersionObjectReference{Name: "etcd-main"}
	g.Expect(Next(observed(etcd, nil, noon)).Etcd).To(BeNil())

	elsewhere := observed(etcd, nil, noon)
	elsewhere.Foreign = []ownership.Foreign{{Kind: "StatefulSet", Name: "ns/e", Reason: v1alpha1.ReasonManagedByAnother}}
	g.Expect(Next(elsewhere).Conditions.Find(v1alpha1.ConditionAdopted)).To(BeNil())
}

// What is not known leaves a condition as it was, and adds none.
func TestConditionsOfWhatIsNotKnown(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	blurred := clustertest.Healthy(3)
	blurred.StatefulSet.Observed, blurred.Cluster.LeaderKnown = false, false
	blurred.Ordinals[1].Pod.Revision = "old"
	etcd.Status.Rollout = &v1alpha1.CurrentRollout{TargetRevision: "before"}
	o := observed(etcd, blurred, later)
	o.LostFor = confirmLoss - time.Millisecond
	next := Next(o)
	g.Expect(next.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue())
	g.Expect(next.Conditions.IsTrue(v1alpha1.ConditionAllMembersUpdated)).To(BeTrue())
	g.Expect(next.Conditions.Find("")).To(BeNil())

	etcd.Status.Conditions.Remove(v1alpha1.ConditionAllMembersUpdated)
	next = Next(o)
	g.Expect(next.Conditions.Find(v1alpha1.ConditionAllMembersUpdated)).To(HaveValue(HaveField("Message", "2 of 3 pods are at the newest template.")))
	g.Expect(next.Rollout).To(HaveValue(HaveField("TargetRevision", "before")))

	clustertest.Away(blurred, 2, v1alpha1.ClassMissing, "")
	blurred.StatefulSet.Observed = true
	g.Expect(Next(o).Conditions.Find(v1alpha1.ConditionAllMembersUpdated)).To(HaveValue(HaveField("Message", "1 of 3 pods are at the newest template.")))
}

// Errors are in one order, at most ten, as plain text, and each has the time at which it was first seen.
func TestErrorsThatAreReported(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	said := func(change func(*Input), now metav1.Time) []v1alpha1.LastError {
		o := observed(etcd, clustertest.Healthy(3), now)
		change(&o)
		next := Next(o)
		etcd.Status = next
		return next.LastErrors
	}
	g.Expect(said(func(o *Input) { o.Refused = errors.New("not here") }, noon)).To(ConsistOf(And(HaveField("Code", v1alpha1.ErrNotAllowed), HaveField("Description", "not here"))))
	g.Expect(said(func(o *Input) { o.TLS = &tls.Plan{Problem: errors.New("no CA")} }, noon)).To(ConsistOf(HaveField("Description", "no CA")))
	g.Expect(said(func(o *Input) { o.TLS = &tls.Plan{Managed: managedtls.Result{Problem: errors.New("no issuer")}} }, noon)).To(ConsistOf(HaveField("Description", "no issuer")))

	fail := func(texts ...string) func(*Input) {
		return func(o *Input) {
			for _, text := range texts {
				o.Failures = append(o.Failures, Failure{Code: v1alpha1.ErrApply, Err: errors.New(text)})
			}
		}
	}
	g.Expect(said(fail("b", "a\x1b"), noon)).To(HaveExactElements(HaveField("Description", "a "), HaveField("Description", "b")))
	g.Expect(said(fail("b", "c"), later)).To(HaveExactElements(HaveField("ObservedAt", noon), HaveField("ObservedAt", later)))
	g.Expect(said(fail(strings.Split("a b c d e f g h i j k", " ")...), later)).To(HaveLen(maxErrors))

	long := Failure{Code: v1alpha1.ErrApply, Err: errors.New(strings.Repeat("x", conditions.MaxMessage+1))}
	g.Expect(long.In(said(func(o *Input) { o.Failures = []Failure{long} }, later))).To(BeTrue())
	g.Expect(long.In([]v1alpha1.LastError{{Code: v1alpha1.ErrApply, Description: "b"}})).To(BeFalse())
}

// A reconcile that was interrupted and has not failed changes nothing, and an operation that says something else has another time.
func TestInterruptedWithoutAFailure(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status.Conditions.Remove(v1alpha1.ConditionReconciled)
	g.Expect(Interrupted(etcd, nil, later)).To(Equal(etcd.Status))

	for _, text := range []string{"one", "another"} {
		etcd.Status = Interrupted(etcd, []Failure{{Code: v1alpha1.ErrApply, Err: errors.New(text)}}, noon)
	}
	next := Interrupted(etcd, []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("a third")}}, later)
	g.Expect(next.LastOperation.LastUpdateTime).To(Equal(later))
	etcd.Status = next
	g.Expect(Interrupted(etcd, []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("a third")}}, noon).LastOperation.LastUpdateTime).To(Equal(later))
}

// Only members that run have deltas taken, and only with a period is a backup stale.
func TestStale(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	period := component.DeltaSnapshotPeriod(etcd)
	g.Expect(period).NotTo(BeZero())
	for s, want := range map[*cluster.Snapshot]time.Duration{nil: 0, clustertest.Healthy(0): 0, clustertest.Healthy(3): period} {
		g.Expect(stalePeriod(observed(etcd, s, noon))).To(Equal(want))
	}
	full := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationBackupsCurrent: noon.Add(-time.Hour).Format(time.RFC3339)}}}
	g.Expect(stale(full, time.Minute, noon.Time)).To(BeTrue())
	g.Expect(stale(full, 0, noon.Time)).To(BeFalse())

	s := clustertest.Healthy(3)
	clustertest.Away(s, 1, v1alpha1.ClassMissing, "")
	g.Expect(unreachable(s)).To(BeEmpty(), "it has no pod")
}
