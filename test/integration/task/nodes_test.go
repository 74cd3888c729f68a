// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// heldBy waits until a guard holds the newest rollout because of a pod.
func (c *cluster) heldBy(guard v1alpha1.GuardName, pod string) {
	c.T.Helper()
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
	t.Parallel()
	const lost = "lost"
	c := newCluster(t, 3, func(c *cluster) { c.Kubelet.BindTo(lost) })
	for i := range 3 {
		c.Kubelet.Set(c.Pod(i), env.Crashing)
	}
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
		g.Expect(c.set.Status.ReadyReplicas).To(BeZero())
	}).Should(Succeed())
	c.start(nil)
	c.change("1")
	c.heldBy(v1alpha1.GuardQuorumLossConfirmed, c.Pod(2))
	c.Expect(c.rollouts(c)[0].Status.Rollout.Pods).To(BeEmpty())
	c.Expect(env.EnsureNode(t.Context(), testEnv.Client, lost)).To(Succeed())
	for i := range 3 {
		c.Kubelet.Set(c.Pod(i), env.Ready)
	}
	c.Expect(c.finalRollout(1).Status.Rollout.Pods).NotTo(BeEmpty())
}

// The node of the pods does not exist at first; then it is ready; and a pod is being evicted.
func TestRolloutLooksAtNodes(t *testing.T) {
	t.Parallel()
	const absent = "absent"
	c := newCluster(t, 3, func(c *cluster) { c.Kubelet.BindTo(absent) })
	c.start(nil)
	c.change("1")
	c.heldBy(v1alpha1.GuardNodesStable, c.Pod(0))

	evicted := &corev1.Pod{}
	c.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: c.Namespace, Name: c.Pod(1)}, evicted)).To(Succeed())
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), // one that is stale is reset
	})
	c.Expect(testEnv.Client.Status().Update(t.Context(), evicted)).To(Succeed())
	c.Expect(env.EnsureNode(t.Context(), testEnv.Client, absent)).To(Succeed())
	c.heldBy(v1alpha1.GuardNodesStable, c.Pod(1))
	c.Expect(c.rollouts(c)[0].Status.Rollout.Pods).To(BeEmpty())

	c.Expect(testEnv.Client.Delete(t.Context(), evicted)).To(Succeed())
	done := c.finalRollout(1)
	c.Expect(done.Status.Rollout.Pods).To(HaveLen(2), "the one that was evicted came back at the newest template")
}

// A template that excludes the zone of the volumes replaces no pod: the next one could not be scheduled. It goes on once the zone is allowed.
func TestRolloutToAnotherZone(t *testing.T) {
	t.Parallel()
	const here, there = "zones-a", "zones-b"
	in := func(zones ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}}}},
		}}}
	}
	c := newCluster(t, 3, func(c *cluster) {
		c.Kubelet.BindTo(here)
		for _, node := range []string{here, there} {
			c.Expect(env.EnsureNode(t.Context(), testEnv.Client, node)).To(Succeed())
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, node)
			c.Expect(testEnv.Client.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		}
		for i := range 3 {
			c.zonedVolume("data-"+c.Pod(i), here)
		}
		c.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimed()}}
	})
	c.start(nil)
	allow := func(zones ...string) {
		c.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
		patch := client.MergeFrom(c.set.DeepCopy())
		c.set.Spec.Template.Spec.Affinity = in(zones...)
		c.Expect(testEnv.Client.Patch(t.Context(), c.set, patch)).To(Succeed())
	}
	allow(there)
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).NotTo(BeEmpty())
		r := all[len(all)-1].Status.Rollout
		g.Expect(r).NotTo(BeNil())
		g.Expect(r.Pods).To(BeEmpty())
		g.Expect(r.HeldBy).To(HaveValue(And(HaveField("Guard", v1alpha1.GuardVolumeReachable), HaveField("Message", ContainSubstring("excludes, such as "+here)))))
	}).Should(Succeed())
	allow(here, there)
	c.Expect(c.finalRollout(2).Status.Rollout.Pods).To(HaveLen(3))
}

func claimed() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// zonedVolume makes a claim and its volume, which can only be used in a zone.
func (c *cluster) zonedVolume(name, zone string) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace + "-" + name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: claimed().Resources.Requests, AccessModes: claimed().AccessModes,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + name}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}},
	}}
	c.Create(volume)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Spec: claimed()}
	claim.Spec.VolumeName = volume.Name
	c.Create(claim)
}
