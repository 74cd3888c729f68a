// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// With podRemoval: Evict, a PodDisruptionBudget that allows no disruption allows no restart in place either. Nothing is taken from it.
func TestRestartInPlaceAsksTheBudget(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, inPlace)
	before := c.PodUIDs(c, len(c.Members.Names))
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{}},
	}
	c.Create(budget)
	c.template(etcd("localhost/etcd:v2"))
	c.CreateTask("evict", v1alpha1.QuorumAwareRollout, "podRemoval: Evict")
	c.start(nil)
	c.heldBy(v1alpha1.GuardRemovalGranted, "main-2")
	for i := range 3 {
		c.Expect(c.read(c, i).Spec.Containers[0].Image).NotTo(Equal("localhost/etcd:v2"))
	}
	patch := client.MergeFrom(budget.DeepCopy())
	budget.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	c.Expect(testEnv.Client.Patch(t.Context(), budget, patch)).To(Succeed())
	c.finalRollout(1)
	c.updated()
	c.Expect(c.PodUIDs(c, len(c.Members.Names))).To(Equal(before))
	c.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget)).To(Succeed())
	c.Expect(budget.Status.DisruptedPods).To(BeEmpty())
}
