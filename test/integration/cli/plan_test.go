// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// members creates a StatefulSet with three ready pods, and leases that name the first as the leader.
func (p *person) members() *appsv1.StatefulSet {
	p.T.Helper()
	testEnv.StartKubelet(p.T, p.Namespace)
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main", v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: "main", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.Etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(3)), PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: "localhost/etcd:v3.6.8", ReadinessProbe: &corev1.Probe{
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(9095)}},
				}}}},
			},
		},
	}
	p.Expect(testEnv.Client.Create(p.T.Context(), set)).To(Succeed())
	for i, role := range []string{"Leader", "Member", "Member"} {
		p.Expect(testEnv.Client.Create(p.T.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: fmt.Sprintf("main-%d", i),
				Labels: map[string]string{v1alpha1.LabelPartOf: "main", v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease},
				// As the operator makes them: another's say nothing.
				OwnerReferences: set.OwnerReferences,
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("1a:7f:" + role), RenewTime: &metav1.MicroTime{Time: time.Now()}},
		})).To(Succeed())
	}
	p.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(p.T.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status.ReadyReplicas).To(Equal(int32(3)))
	}).Should(Succeed())
	return set
}

// There is no node for a port-forward, and no operator: roles come from leases, and the leader goes last.
func TestPlanFromLeases(t *testing.T) {
	p := newPerson(t)
	set := p.members()
	got := p.run("plan", "main")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(ContainSubstring("Roles come from leases"), ContainSubstring("Nothing to do: every pod is at revision "+set.Status.UpdateRevision)))

	before := set.Status.UpdateRevision
	patch := client.MergeFrom(set.DeepCopy())
	set.Spec.Template.Annotations = map[string]string{"change": "1"}
	p.Expect(testEnv.Client.Patch(t.Context(), set, patch)).To(Succeed())
	p.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status.UpdateRevision).NotTo(Equal(before))
	}).Should(Succeed())
	p.Expect(p.run("plan", "main").out).To(And(MatchRegexp(`1 +PatchMetadata +main-2 `), Not(ContainSubstring("DeletePod"))), "pods are updated in place by default")
	got = p.run("plan", "main", "--pod-update-policy=Recreate")
	p.Expect(got.out).To(MatchRegexp(`(?s)1 +DeletePod +main-2 +Participating +Follower +2 of 3 serve.*2 +DeletePod +main-1 +Participating +Follower .*3 +DeletePod +main-0 +Participating +Leader `))
	p.Expect(got.out).To(ContainSubstring("No task does this now"))

	task := p.make("a", v1alpha1.TaskStateInProgress)
	p.Expect(p.run("plan", "main").out).To(ContainSubstring("Task a does this: InProgress."))
	p.operate(task, v1alpha1.TaskStateSucceeded, "done")
	p.Expect(p.run("plan", "main", "--restart").out).To(ContainSubstring("Restart of Etcd"))
	p.Expect(p.Tasks(p)).To(HaveLen(1), "a plan creates no task")
	pods := &corev1.PodList{}
	p.Expect(testEnv.Client.List(t.Context(), pods, client.InNamespace(p.Namespace))).To(Succeed())
	for _, pod := range pods.Items {
		p.Expect(pod.Labels[appsv1.StatefulSetRevisionLabel]).To(Equal(before), "a plan deletes no pod")
	}
}

// A user who may read a namespace but no nodes gets a plan that says what it leaves out.
func TestPlanWithFewPermissions(t *testing.T) {
	p := newPerson(t)
	p.members()
	p.allow("viewer", "get", "list", "watch")
	p.allowRules("viewer-of-pods", "viewer", []string{"", "apps", "coordination.k8s.io"}, "get", "list", "watch")
	p.kubeconfig = p.impersonating("viewer")
	var got outcome
	p.Eventually(func() int { got = p.run("plan", "main"); return got.code }).Should(BeZero())
	p.Expect(got.out).To(And(ContainSubstring("Nodes and volumes could not be read"), ContainSubstring("Roles come from leases"), ContainSubstring("forbidden")))
}

func TestPlanWithoutStatefulSet(t *testing.T) {
	p := newPerson(t)
	got := p.run("plan", "main")
	p.Expect(got.code).To(Equal(1))
	p.Expect(got.err).To(MatchRegexp(`^error: [^\n]*the Etcd has no StatefulSet\n$`))
}
