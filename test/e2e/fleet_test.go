//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// enableFleetPolicies gives the operator the rights for them, and switches their gate on until the test ends.
func (c *cluster) enableFleetPolicies() {
	c.t.Helper()
	const gate, both = gateName + ": true", gateName + ": true\n  FleetPolicies: true"
	c.local("kubectl", "apply", "--server-side", "-f", "../../config/fleet/role.yaml")
	c.t.Cleanup(func() {
		c.configure(func(file string) string { return strings.Replace(file, both, gate, 1) })
		c.local("kubectl", "delete", "-f", "../../config/fleet/role.yaml")
	})
	c.configure(func(file string) string {
		c.Expect(file).To(ContainSubstring(gate))
		return strings.Replace(file, gate, both, 1)
	})
}

// newFleetPolicy creates a policy with one canary for the namespaces of some clusters.
func newFleetPolicy(clusters []*cluster) *v1alpha1.EtcdFleetPolicy {
	c := clusters[0]
	c.t.Helper()
	p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{"e2e/fleet": c.namespace}
	p.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(2))
	p.Spec.Soak = &metav1.Duration{Duration: 5 * time.Second}
	p.Spec.Canary = v1alpha1.FleetCanary{Count: ptr.To[int32](1), Soak: &metav1.Duration{Duration: 10 * time.Second}}
	for _, each := range clusters {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: each.namespace}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"e2e/fleet":"`+c.namespace+`"}}}`))
		c.Expect(kube.Patch(c.t.Context(), ns, patch)).To(Succeed())
	}
	c.t.Cleanup(func() { _ = client.IgnoreNotFound(kube.Delete(context.Background(), p)) })
	c.Expect(client.IgnoreNotFound(kube.Delete(c.t.Context(), p.DeepCopy()))).To(Succeed(), "left over by an interrupted run")
	c.create(p)
	c.Eventually(func(g Gomega) {
		g.Expect(kube.Get(c.t.Context(), client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		g.Expect(p.Status.Clusters).To(Equal(int32(len(clusters))))
	}).Should(Succeed())
	return p
}

// podUIDs are those of the pods of a cluster, by name.
func (c *cluster) podUIDs() map[string]types.UID {
	pods := &corev1.PodList{}
	c.Expect(kube.List(c.t.Context(), pods, client.InNamespace(c.namespace))).To(Succeed())
	all := map[string]types.UID{}
	for i := range pods.Items {
		all[pods.Items[i].Name] = pods.Items[i].UID
	}
	return all
}

// newestRollout returns the rollout of a cluster that was created last.
func (c *cluster) newestRollout(g Gomega) *v1alpha1.EtcdOperatorTask {
	all := c.rollouts(g)
	g.Expect(all).NotTo(BeEmpty())
	return &all[len(all)-1]
}

// A bad image in three clusters at once reaches one of them, and the others say why they wait. The fix begins with that one, and goes
// through all. A rollout counts as failed once it is stalled, which takes ten minutes. The test configures the operator, so it is not
// parallel to others.
func TestFleetPausesABadImage(t *testing.T) {
	clusters := []*cluster{newCluster(t, 3, "a"), newCluster(t, 3, "b"), newCluster(t, 3, "c")}
	c := clusters[0]
	c.enableFleetPolicies()
	policy := newFleetPolicy(clusters)
	read := func(g Gomega) *v1alpha1.EtcdFleetPolicyStatus {
		g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		return &policy.Status
	}
	before := map[string]map[string]types.UID{}
	for _, each := range clusters {
		before[each.namespace] = each.podUIDs()
		each.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To("localhost/etcd:missing") })
	}
	var bad v1alpha1.FleetChange
	c.Eventually(func(g Gomega) {
		s := read(g)
		g.Expect(meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused)).To(HaveField("Reason", v1alpha1.ReasonChangeFailed), "%+v", s)
		g.Expect(s.Waiting).To(Equal(int32(2)))
		bad = s.Changes[0]
	}).WithTimeout(10*time.Minute + patience).Should(Succeed())
	c.Expect(bad.Failures).To(HaveLen(1))
	var sick *cluster
	for _, each := range clusters {
		if each.namespace == bad.Failures[0].Namespace {
			sick = each
			continue
		}
		c.Expect(each.podUIDs()).To(Equal(before[each.namespace]), "it did not reach the cluster")
		each.Eventually(func(g Gomega) {
			admitted := meta.FindStatusCondition(each.newestRollout(g).Status.Conditions, v1alpha1.ConditionAdmitted)
			g.Expect(admitted).To(HaveField("Reason", v1alpha1.ReasonFleetPaused))
			g.Expect(admitted.Message).To(ContainSubstring(bad.Failures[0].Namespace))
			g.Expect(each.newestRollout(g).Status.Change).To(Equal(bad.Change))
		}).Should(Succeed())
	}
	c.Expect(sick).NotTo(BeNil())

	for _, each := range clusters {
		each.patch(func(e *v1alpha1.Etcd) {
			e.Spec.Etcd.Image = nil
			e.Spec.Annotations = map[string]string{"e2e/change": "fix"}
		})
	}
	c.Eventually(func(g Gomega) {
		var done []v1alpha1.FleetChange
		for _, change := range read(g).Changes {
			if change.Change != bad.Change && change.Done == 3 && change.Failed == 0 {
				done = append(done, change)
			}
		}
		g.Expect(done).To(HaveLen(1), "%+v", policy.Status.Changes)
	}).WithTimeout(3 * patience).Should(Succeed())
	first := sick.newestRollout(sick)
	for _, each := range clusters {
		each.ready()
		task := each.newestRollout(each)
		each.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
		if each != sick {
			each.Expect(task.Status.InitiatedAt.Time).To(BeTemporally(">=", first.Status.CompletedAt.Time), "the cluster that failed is the canary")
		}
		each.neverTookTheQuorum()
		each.writesSurvive()
	}

	// The bad change stays paused until a person resumes it as they have seen it, although the policy is not since no task asks for it.
	paused := func(g Gomega) bool {
		return slices.ContainsFunc(read(g).Changes, func(of v1alpha1.FleetChange) bool { return of.Change == bad.Change && of.Paused != "" })
	}
	c.Eventually(func(g Gomega) {
		g.Expect(paused(g)).To(BeTrue())
		g.Expect(meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionPaused)).To(BeNil())
	}).Should(Succeed())
	resumed := client.MergeFrom(policy.DeepCopy())
	metav1.SetMetaDataAnnotation(&policy.ObjectMeta, v1alpha1.AnnotationResumeChange, bad.ResumeToken)
	c.Expect(kube.Patch(t.Context(), policy, resumed)).To(Succeed())
	c.Eventually(paused).Should(BeFalse())
}
