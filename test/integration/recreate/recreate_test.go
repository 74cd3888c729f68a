// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate_test

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods stuck in any state are replaced, no new pod runs beside an old one, and the claims stay.
func TestRecreateOfAClusterThatIsStuck(t *testing.T) {
	for name, state := range map[string]env.PodState{"not ready": env.NotReady, "crashing": env.Crashing} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, true)
			claims := c.Claims()
			c.Expect(claims).To(HaveLen(3))
			// The rollout gets stuck on its first pod.
			c.Kubelet.Set(pod(0), state)
			c.Kubelet.Set(pod(1), state)
			c.Kubelet.Set(pod(2), state)
			c.change()
			c.Eventually(func(g Gomega) {
				g.Expect(c.rollouts(g)).To(HaveLen(1))
				g.Expect(c.rollouts(g)[0].Status.State).To(Equal(v1alpha1.TaskStateInProgress))
			}).Should(Succeed())
			c.recreate()
			c.untilPhase(v1alpha1.RecreateReadyForCreation)
			for i := range 3 {
				c.Kubelet.Set(pod(i), env.Ready)
			}
			done := c.untilState(v1alpha1.TaskStateSucceeded)
			c.Expect(done.Status.Rollout.Phase).To(Equal(v1alpha1.RecreateComplete))
			c.Expect(done.Status.Rollout.UpdatedReplicas).To(Equal(int32(3)))
			progressing := meta.FindStatusCondition(done.Status.Conditions, v1alpha1.ConditionProgressing)
			c.Expect(progressing.Reason).To(Equal(v1alpha1.ReasonRecreateComplete))

			superseded := c.rollouts(c)
			c.Expect(superseded).To(HaveLen(1), "no further rollout was needed")
			c.Expect(superseded[0].Status.State).To(Equal(v1alpha1.TaskStateRejected))
			c.Expect(superseded[0].Status.LastErrors[len(superseded[0].Status.LastErrors)-1].Code).To(Equal(v1alpha1.ErrSuperseded))
			c.Expect(c.Claims()).To(Equal(claims))
			c.Expect(c.StatefulSet(c).Annotations).NotTo(HaveKey(v1alpha1.AnnotationHeldAtZeroBy))
			c.Eventually(func(g Gomega) {
				events := &eventsv1.EventList{}
				g.Expect(testEnv.Client.List(t.Context(), events, client.InNamespace(c.Namespace))).To(Succeed())
				var reasons []string
				for _, e := range events.Items {
					reasons = append(reasons, e.Reason)
				}
				g.Expect(reasons).To(ContainElements("RecreateStarted", "RecreateComplete"))
			}).Should(Succeed())
		})
	}
}

// heldByALostPod returns a cluster that is being recreated, with one pod stuck terminating: its node is lost.
func heldByALostPod(t *testing.T) (*cluster, *mixture) {
	c := newCluster(t, true)
	c.Kubelet.Set(pod(1), env.Lost)
	m := c.watchMixture()
	c.recreateWithChange()
	c.untilPhase(v1alpha1.RecreateWaitingTermination)
	c.Eventually(func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(testEnv.Client.List(t.Context(), pods, client.InNamespace(c.Namespace))).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
	}).Should(Succeed())
	return c, m
}

// recreateWithChange changes the template so that no rollout deletes a pod before the recreation begins.
func (c *cluster) recreateWithChange() {
	c.stop()
	c.recreate()
	set := c.StatefulSet(c)
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.Template.Annotations["changed"] = "by hand"
	c.Expect(testEnv.Client.Patch(c.T.Context(), set, before)).To(Succeed())
	c.start()
}

func TestOldAndNewNeverRunTogetherThoughTheOperatorRestarts(t *testing.T) {
	c, m := heldByALostPod(t)
	// The operator crashes halfway, and a user intervenes.
	c.stop()
	set := c.StatefulSet(c)
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.Replicas = ptr.To(int32(0))
	c.Expect(testEnv.Client.Patch(t.Context(), set, before)).To(Succeed())
	c.start()
	c.Consistently(func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(testEnv.Client.List(t.Context(), pods, client.InNamespace(c.Namespace))).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		g.Expect(*c.StatefulSet(g).Spec.Replicas).To(Equal(int32(0)))
	}).WithTimeout(3 * time.Second).Should(Succeed())
	c.Kubelet.Set(pod(1), env.Ready)
	c.untilState(v1alpha1.TaskStateSucceeded)
	worst, when := m.revisions()
	c.Expect(worst).To(Equal(1), "%v", when)
	c.Expect(*c.StatefulSet(c).Spec.Replicas).To(Equal(int32(3)))
}

func TestReplicasAreRestoredWhenTheTaskIsDeleted(t *testing.T) {
	for name, away := range map[string]bool{"while the operator runs": false, "while the operator is stopped": true} {
		t.Run(name, func(t *testing.T) {
			c, _ := heldByALostPod(t)
			etcd := &v1alpha1.Etcd{}
			c.Eventually(func(g Gomega) {
				g.Expect(testEnv.Client.Get(t.Context(), c.Key("main"), etcd)).To(Succeed())
				ready := etcd.Status.Conditions.Find(v1alpha1.ConditionReady)
				g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonHeldAtZero))
			}).Should(Succeed())
			if away {
				c.stop()
			}
			task := c.untilPhase(v1alpha1.RecreateWaitingTermination)
			c.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
			if away {
				c.start()
			}
			c.Kubelet.Set(pod(1), env.Ready)
			c.Eventually(func(g Gomega) {
				set := c.StatefulSet(g)
				g.Expect(*set.Spec.Replicas).To(Equal(int32(3)))
				g.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.AnnotationHeldAtZeroBy))
				g.Expect(set.Status.ReadyReplicas).To(Equal(int32(3)))
			}).Should(Succeed())
		})
	}
}

func TestNotUnderRollingUpdate(t *testing.T) {
	c := newCluster(t, false)
	c.Expect(c.StatefulSet(c).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	c.recreate()
	rejected := c.untilState(v1alpha1.TaskStateRejected)
	c.Expect(rejected.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrStrategy))
}

func TestNothingToDo(t *testing.T) {
	c := newCluster(t, true)
	c.recreate()
	done := c.untilState(v1alpha1.TaskStateSucceeded)
	c.Expect(meta.FindStatusCondition(done.Status.Conditions, v1alpha1.ConditionSucceeded).Message).To(ContainSubstring("nothing to do"))
}
