// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	quorumaware "github.com/etcd-foreman/etcd-foreman/tasks/rollout"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// heldBy waits until a guard holds the newest rollout because of a pod.
func (c *cluster) heldBy(guard v1alpha1.GuardName, pod string) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).NotTo(BeEmpty())
		r := all[len(all)-1].Status.Rollout
		g.Expect(r).NotTo(BeNil())
		g.Expect(r.HeldBy).NotTo(BeNil())
		g.Expect(r.HeldBy.Guard).To(Equal(guard))
		g.Expect(r.HeldBy.Pod).To(Equal(pod))
	}).Should(Succeed())
}

// Without a leader, a member that crashed goes at once, but not one that may be running again: its node is lost. Once the node is back,
// what its kubelet reports is true.
func TestRolloutDoesNotBelieveLostNodes(t *testing.T) {
	c := newCluster(t, 3)
	for i := range 3 {
		c.kubelet.Set(c.pod(i), env.Crashing)
	}
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
		g.Expect(c.set.Status.ReadyReplicas).To(BeZero())
	}).Should(Succeed())
	c.start(tasks.Registry{v1alpha1.QuorumAwareRollout: {Handler: &quorumaware.Handler{
		Client: testEnv.Client, Live: testEnv.Client, Clock: clock.RealClock{}, Dialer: c.fake,
		Observer: observe.New(c.fake, clock.RealClock{}, observe.WithSurroundings(testEnv.Client)),
	}}})
	c.change("1")
	c.heldBy(v1alpha1.GuardQuorumLossConfirmed, c.pod(2))
	c.Expect(c.rollouts(c)[0].Status.Rollout.Pods).To(BeEmpty())
	c.readyNode()
	for i := range 3 {
		c.kubelet.Set(c.pod(i), env.Ready)
	}
	c.Expect(c.finalRollout(1).Status.Rollout.Pods).NotTo(BeEmpty())
}

// readyNode makes the node that pods are bound to, and has it be ready.
func (c *cluster) readyNode() {
	c.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: env.Node}}
	c.create(node)
	c.t.Cleanup(func() {
		if err := testEnv.Client.Delete(context.Background(), node); err != nil {
			c.t.Logf("deleting node %s: %v", node.Name, err)
		}
	})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	c.Expect(testEnv.Client.Status().Update(c.t.Context(), node)).To(Succeed())
}

// The node that the simulated kubelet binds pods to does not exist at first; then it is there and ready; and then
// somebody evicts a pod.
func TestRolloutLooksAtNodes(t *testing.T) {
	c := newCluster(t, 3)
	c.start(tasks.Registry{v1alpha1.QuorumAwareRollout: {Handler: &quorumaware.Handler{
		Client: testEnv.Client, Live: testEnv.Client, Clock: clock.RealClock{}, Dialer: c.fake,
		Observer: observe.New(c.fake, clock.RealClock{}, observe.WithSurroundings(testEnv.Client)),
	}}})
	c.change("1")
	c.heldBy(v1alpha1.GuardNodesStable, c.pod(0))

	evicted := &corev1.Pod{}
	c.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: c.pod(1)}, evicted)).To(Succeed())
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), // one that is stale is reset
	})
	c.Expect(testEnv.Client.Status().Update(t.Context(), evicted)).To(Succeed())
	c.readyNode()
	c.heldBy(v1alpha1.GuardNodesStable, c.pod(1))
	c.Expect(c.rollouts(c)[0].Status.Rollout.Pods).To(BeEmpty())

	c.Expect(testEnv.Client.Delete(t.Context(), evicted)).To(Succeed())
	done := c.finalRollout(1)
	c.Expect(done.Status.Rollout.Pods).To(HaveLen(2), "the one that was evicted came back at the newest template")
}
