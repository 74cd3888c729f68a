// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// stuck changes the template while a member is unhealthy, and waits until only its pod was replaced: both strategies
// replace it first, and neither continues before it is healthy.
func (w *world) stuck(before []types.UID) (replaced types.UID) {
	w.T.Helper()
	w.Kubelet.Set(pod(2), env.NotReady)
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Ready).To(HaveValue(BeFalse())) }).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.Etcd.SnapshotCount = ptr.To(ptr.Deref(e.Spec.Etcd.SnapshotCount, 5000) + 1)
	})
	w.Eventually(func(g Gomega) {
		now := w.PodUIDs(g, 3)
		g.Expect(now[2]).NotTo(Equal(before[2]))
		g.Expect(now[:2]).To(Equal(before[:2]))
		replaced = now[2]
	}).Should(Succeed())
	return replaced
}

// DEP-07, "Transitioning Between Strategies": in both directions in the middle of a rollout. Every pod is replaced exactly
// once.
func TestGateSwitchedInMidRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.startAll()
	w.eventuallyWell()
	first := w.PodUIDs(w, 3)
	replaced := w.stuck(first)
	on.stop()

	off := w.startAll(composition.GateOff)
	w.Eventually(off.begun.count).Should(BeNumerically(">", 0))
	w.nudge(off)
	w.Expect(w.strategy()).To(Satisfy(onDelete), "a member is missing")
	w.Kubelet.Set(pod(2), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
	second := w.eventuallyReplaced(first, replaced)
	off.stop()

	off = w.startAll(composition.GateOff)
	replaced = w.stuck(second)
	off.stop()

	w.startAll()
	w.Eventually(w.strategy).Should(Satisfy(onDelete), "at once: it stops the StatefulSet controller")
	w.Kubelet.Set(pod(2), env.Ready)
	w.eventuallyReplaced(second, replaced)

	w.Eventually(func(g Gomega) {
		set := w.StatefulSet(g)
		g.Expect(set.Status.CurrentRevision == set.Status.UpdateRevision).To(Equal(testEnv.PromotesUnderOnDelete(t)))
	}).Should(Succeed())
	w.Expect(w.Status(w).Conditions.IsTrue(v1alpha1.ConditionAllMembersUpdated)).To(BeTrue(), "it is computed from the pods, whatever the revision")
}

// eventuallyReplaced waits until every pod has the newest template, each replaced once. The last one was replaced before:
// it keeps its UID.
func (w *world) eventuallyReplaced(before []types.UID, last types.UID) (now []types.UID) {
	w.T.Helper()
	w.eventuallyWell()
	w.Expect(w.Status(w).UpdatedReplicas).To(Equal(int32(3)))
	now = w.PodUIDs(w, 3)
	w.Expect(now[2]).To(Equal(last), "it was replaced twice")
	w.Expect(now[:2]).NotTo(ContainElement(before[0]))
	w.Expect(now[:2]).NotTo(ContainElement(before[1]))
	return now
}
