// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/admission"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The policy changes the same StatefulSets as the webhook, in the same way.
func TestPolicyHasTheRulesOfTheWebhook(t *testing.T) {
	c := newCluster(t)
	if err := testEnv.Install(t.Context(), "executor/policy/policy.yaml"); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		t.Skip("this API server has no MutatingAdmissionPolicy v1")
	} else {
		c.Expect(err).NotTo(HaveOccurred())
	}
	t.Cleanup(func() { c.removePolicy() })
	create := func(change func(*appsv1.StatefulSet)) (applies bool, got *appsv1.StatefulSet) {
		set := &appsv1.StatefulSet{}
		c.druid.Build(set, "1")
		change(set)
		applies = admission.Applies(set, nil)
		c.Expect(c.druid.Client.Create(t.Context(), set, client.DryRunAll)).To(Succeed())
		return applies, set
	}
	asIs := func(*appsv1.StatefulSet) {}
	c.Eventually(func(g Gomega) {
		_, set := create(asIs)
		marked(g, set)
	}).Should(Succeed())
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"as etcd-druid writes it": asIs,
		"annotated":               func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"a": "b"} },
		"a single member":         func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To(int32(1)) },
		"hibernated":              func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To(int32(0)) },
		"of another manager":      func(s *appsv1.StatefulSet) { s.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy },
		"another component":       func(s *appsv1.StatefulSet) { s.Labels[v1alpha1.LabelComponent] = "other" },
		"of nobody":               func(s *appsv1.StatefulSet) { s.OwnerReferences = nil },
		"not controlled":          func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Controller = nil },
		"of another kind":         func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Kind = "Other" },
		"OnDelete of its own":     func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType },
	} {
		applies, set := create(change)
		_, has := set.Annotations[v1alpha1.AnnotationRolloutBy]
		c.Expect(has).To(Equal(applies), name)
		if applies {
			marked(c, set)
		}
	}

	// Updates: what is there before counts too.
	c.reconcile("1")
	marked(c, c.StatefulSet(c))
	generation := c.StatefulSet(c).Generation
	c.reconcile("1")
	c.Expect(c.StatefulSet(c).Generation).To(Equal(generation), "a reconciliation without a change changes nothing")

	// Neither without the label of the namespace, nor without the switch.
	c.label("other")
	c.Eventually(func(g Gomega) {
		c.reconcile("1")
		g.Expect(c.StatefulSet(g).Annotations).To(BeEmpty())
		g.Expect(c.StatefulSet(g).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	}).Should(Succeed())
	c.label(v1alpha1.ManagedBy)
	c.Eventually(func(g Gomega) {
		c.reconcile("1")
		marked(g, c.StatefulSet(g))
	}).Should(Succeed())
	c.Expect(testEnv.Client.Delete(context.Background(), c.theSwitch())).To(Succeed())
	c.Eventually(func(g Gomega) {
		c.reconcile("1")
		g.Expect(c.StatefulSet(g).Annotations).To(BeEmpty())
		g.Expect(c.StatefulSet(g).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	}).Should(Succeed())
}
