// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *world) condition(g Gomega, conditionType string) *metav1.Condition {
	status := w.Status(g)
	c := status.Conditions.Find(conditionType)
	g.Expect(c).NotTo(BeNil())
	return c
}

func TestReadyFollowsTheQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	w.eventuallyWell()
	w.Kubelet.Set(pod(0), env.NotReady)
	w.Eventually(func(g Gomega) {
		c := w.condition(g, v1alpha1.ConditionAllMembersReady)
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(c.Message).To(ContainSubstring("etcd-main-0 is Unready"))
	}).Should(Succeed())
	w.Expect(w.condition(w, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonQuorate))

	w.Kubelet.Set(pod(1), env.Crashing)
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonQuorumLost))
	}).Should(Succeed())
	w.Kubelet.Set(pod(0), env.Ready)
	w.Kubelet.Set(pod(1), env.Ready)
	w.eventuallyWell()
}

// Pods are replaced one by one with a budget of eight requests per pod, of which the status of the Etcd may take about
// two.
func TestStatusOfARolloutIsCheap(t *testing.T) {
	w := newWorld(t, 3)
	o := w.start()
	w.eventuallyWell()
	w.writesNothing(o)

	began := time.Now()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = ptr.To[int64](5000) })
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		g.Expect(status.ObservedGeneration).To(Equal(w.Etcd.Generation))
		g.Expect(status.Rollout).NotTo(BeNil())
		g.Expect(status.Rollout.TargetRevision).To(Equal(w.StatefulSet(g).Status.UpdateRevision))
	}).Should(Succeed())
	for i := range 3 {
		w.Expect(testEnv.Client.Delete(t.Context(), w.pod(i))).To(Succeed())
		w.Eventually(func(g Gomega) {
			p := w.pod(i)
			w.Get(g, p.Name, p)
			g.Expect(p.Labels["controller-revision-hash"]).To(Equal(w.StatefulSet(g).Status.UpdateRevision))
			g.Expect(w.Up(i)).To(BeTrue())
		}).Should(Succeed())
	}
	w.eventuallyWell()
	status := w.Status(w)
	w.Expect(status.Rollout).To(BeNil())
	w.Expect(status.UpdatedReplicas).To(Equal(int32(3)))

	written, took := o.requests.take(), time.Since(began)
	t.Logf("written in a rollout of 3 pods in %s: %v", took, written)
	// What changes within a second is written once. On a busy machine it takes longer, and so more writes.
	w.Expect(written["PATCH etcds/status"]).To(BeNumerically("<=", 2*3+4+int(max(took-5*time.Second, 0)/time.Second)))
	w.Expect(written["PATCH configmaps"]).To(BeNumerically("<=", 2))
	w.Expect(written["PATCH statefulsets"]).To(BeNumerically("<=", 2))
}

func TestStatusNamesTheRolloutTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	w.eventuallyWell()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = ptr.To[int64](5000) })
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Rollout).NotTo(BeNil()) }).Should(Succeed())
	w.CreateTask("roll", v1alpha1.QuorumAwareRollout, "")
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Rollout.Task).To(Equal("roll")) }).Should(Succeed())
	w.Expect(testEnv.Client.Delete(t.Context(), w.pod(0))).To(Succeed())
	w.eventuallyWell()
	w.Expect(w.Status(w).Rollout).To(BeNil())
}

// The budget of a single member that surges on drains allows no eviction, and the API server takes that in place of what it allowed before.
func TestBudgetOfAMemberThatSurgesOnDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	w.eventuallyWell()
	for _, blocks := range []bool{false, true, false} {
		w.Change(func(e *v1alpha1.Etcd) {
			e.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
			if blocks {
				e.Spec.SurgePolicy = v1alpha1.SurgeSingleMemberAndDrains
			}
		})
		w.Eventually(func(g Gomega) {
			budget := &policyv1.PodDisruptionBudget{}
			w.Get(g, name, budget)
			g.Expect(budget.Spec.MaxUnavailable != nil && budget.Spec.MinAvailable == nil).To(Equal(blocks))
			g.Expect(budget.Spec.UnhealthyPodEvictionPolicy != nil).To(Equal(blocks))
		}).Should(Succeed())
	}
}

func TestStatusWhileHibernated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start()
	w.eventuallyWell()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonHibernated))
		g.Expect(w.Etcd.Status.ObservedGeneration).To(Equal(w.Etcd.Generation))
		g.Expect(w.StatefulSet(g).Status.Replicas).To(BeZero())
		budget := &policyv1.PodDisruptionBudget{}
		w.Get(g, name, budget)
		g.Expect(budget.Spec.MinAvailable.IntValue()).To(BeZero())
	}).Should(Succeed())
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(BeZero()))

	// A user scales the StatefulSet behind the operator's back.
	w.Expect(testEnv.Client.Patch(t.Context(), w.StatefulSet(w), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)))).To(Succeed())
	w.Eventually(func(g Gomega) { g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(BeZero())) }).Should(Succeed())

	o.requests.take()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.eventuallyWell()
}
