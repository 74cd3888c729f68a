// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate_test

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Somebody sets the strategy Recreate of Kubernetes on the StatefulSet of a cluster. The operator sets its own again
// before a change of the template can stop every member, and a RecreateRollout does on request what the strategy would.
func TestNativeStrategyIsSetBack(t *testing.T) {
	c := newCluster(t, true)
	before := c.podUIDs(name)
	c.patchSet(name, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy = native })
	c.Eventually(func(g Gomega) {
		g.Expect(c.StatefulSet(g).Spec.UpdateStrategy.Type).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
	}).Should(Succeed())
	c.Expect(c.podUIDs(name)).To(Equal(before))

	m := c.watchMixture()
	c.recreateWithChange()
	done := c.untilState(v1alpha1.TaskStateSucceeded)
	c.Expect(done.Status.Rollout.Phase).To(Equal(v1alpha1.RecreateComplete))
	worst, recent := m.revisions()
	c.Expect(worst).To(BeNumerically("<=", 1), "%v", recent)
	for pod, uid := range c.podUIDs(name) {
		c.Expect(uid).NotTo(Equal(before[pod]))
	}
	c.Expect(c.StatefulSet(c).Spec.UpdateStrategy.Type).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
}

// What docs/recreate.md says of the strategy: like the task it never runs two revisions side by side, but it leaves
// alone a pod that is stuck at the update revision, which the task replaces.
func TestNativeStrategyBesideTheTask(t *testing.T) {
	c := newCluster(t, true)
	const plain = "plain"
	labels := map[string]string{"app": plain}
	c.Expect(testEnv.Client.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: plain},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: appsv1.ParallelPodManagement, UpdateStrategy: native,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "localhost/etcd:v1"}}},
			},
		},
	})).To(Succeed())
	c.untilReady(plain)

	old, m := c.podUIDs(plain), c.watchMixtureOf(plain)
	c.patchSet(plain, func(s *appsv1.StatefulSet) { s.Spec.Template.Annotations = map[string]string{"change": "1"} })
	c.Eventually(func(g Gomega) {
		now := c.podUIDs(plain)
		g.Expect(now).To(HaveLen(3))
		for pod, uid := range now {
			g.Expect(uid).NotTo(Equal(old[pod]))
		}
	}).Should(Succeed())
	c.untilReady(plain)
	worst, recent := m.revisions()
	c.Expect(worst).To(BeNumerically("<=", 1), "%v", recent)

	// A pod of each is stuck at the newest revision.
	stuck, ours := c.podUIDs(plain), c.podUIDs(name)
	c.Kubelet.Set(plain+"-0", env.Crashing)
	c.Kubelet.Set(pod(0), env.Crashing)
	c.Eventually(func() bool { return c.Kubelet.Ready(pod(0)) }).Should(BeFalse())
	c.recreate()
	c.untilPhase(v1alpha1.RecreateReadyForCreation)
	c.Kubelet.Set(pod(0), env.Ready)
	c.untilState(v1alpha1.TaskStateSucceeded)
	c.Expect(c.podUIDs(name)[pod(0)]).NotTo(Equal(ours[pod(0)]))
	c.Expect(c.podUIDs(plain)).To(Equal(stuck))
}

// native is KEP-3541's own strategy, alpha in Kubernetes 1.37.
var native = appsv1.StatefulSetUpdateStrategy{Type: "Recreate"}

func (c *cluster) patchSet(name string, change func(*appsv1.StatefulSet)) {
	c.T.Helper()
	s := &appsv1.StatefulSet{}
	c.Expect(testEnv.Client.Get(c.T.Context(), c.Key(name), s)).To(Succeed())
	before := client.MergeFrom(s.DeepCopy())
	change(s)
	c.Expect(testEnv.Client.Patch(c.T.Context(), s, before)).To(Succeed())
}

func (c *cluster) untilReady(name string) {
	c.T.Helper()
	c.Eventually(func(g Gomega) {
		s := &appsv1.StatefulSet{}
		g.Expect(testEnv.Client.Get(c.T.Context(), c.Key(name), s)).To(Succeed())
		g.Expect(s.Status.ObservedGeneration).To(Equal(s.Generation))
		g.Expect(s.Status.ReadyReplicas).To(Equal(*s.Spec.Replicas))
	}).Should(Succeed())
}

// podUIDs returns the UIDs of the pods of a StatefulSet that are not being deleted.
func (c *cluster) podUIDs(set string) map[string]types.UID {
	c.T.Helper()
	all := &corev1.PodList{}
	c.Expect(testEnv.Client.List(c.T.Context(), all, client.InNamespace(c.Namespace))).To(Succeed())
	uids := map[string]types.UID{}
	for _, p := range all.Items {
		if owner := metav1.GetControllerOf(&p); owner != nil && owner.Name == set && p.DeletionTimestamp == nil {
			uids[p.Name] = p.UID
		}
	}
	return uids
}
