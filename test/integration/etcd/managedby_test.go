// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var managedByDruid = composition.Configured(func(c *configv1alpha1.OperatorConfiguration) { c.ManagedByLabel = v1alpha1.ManagedByDruid })

// A landscape that selects pods and claims by the label of etcd-druid finds those of new Etcds. The objects stay the operator's own,
// and a pod keeps its label whatever the configuration says later, also when its StatefulSet is created again.
func TestLabelOfPodsAndClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start(managedByDruid)
	w.eventuallyWell()
	labeled := func(g Gomega) map[types.UID]bool {
		pods, claims, uids := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, map[types.UID]bool{}
		of := []client.ListOption{client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: name}}
		g.Expect(testEnv.Client.List(t.Context(), pods, of...)).To(Succeed())
		g.Expect(testEnv.Client.List(t.Context(), claims, of...)).To(Succeed())
		g.Expect(claims.Items).To(HaveLen(3))
		for i := range claims.Items {
			g.Expect(ownership.OfClaim(w.Etcd, &claims.Items[i])).To(BeNil(), "an Etcd that is created again finds its own")
		}
		for _, p := range pods.Items {
			uids[p.UID] = true
		}
		return uids
	}
	before := labeled(w)
	w.Expect(before).To(HaveLen(3))
	w.Expect(w.StatefulSet(w).Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedBy))
	service := &corev1.Service{}
	w.Get(w, name+"-client", service)
	w.Expect(service.Spec.Selector).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedByDruid))
	w.Expect(w.Status(w).Selector).To(ContainSubstring(v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedByDruid))

	o.stop()
	o = w.start()
	w.nudge(o)
	w.eventuallyWell()
	w.Expect(labeled(w)).To(Equal(before), "no pod was replaced")
	set := w.StatefulSet(w)
	w.Expect(testEnv.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func(g Gomega) {
		next := w.StatefulSet(g)
		g.Expect(next.UID).NotTo(Equal(set.UID))
		g.Expect(next.Status.Replicas).To(BeEquivalentTo(3))
	}).Should(Succeed())
	w.eventuallyWell()
	w.Expect(labeled(w)).To(Equal(before), "the next StatefulSet adopts them")
}
