// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evil has the Etcd name an image that the operator's configuration does not allow.
func evil(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To("evil.io/etcd:v1") }

func allowing(images ...string) composition.Change {
	return composition.Configured(func(c *configv1alpha1.OperatorConfiguration) { c.Images.Allowed = images })
}

// An Etcd with an image that is not allowed gets no objects.
func TestImageThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, evil)
	w.start(allowing("quay.io/etcd/etcd"))
	w.Eventually(func(g Gomega) {
		w.refused(g)
		g.Expect(w.Status(g).LastOperation.State).To(Equal(v1alpha1.OperationError))
	}).Should(Succeed())
	w.Consistently(func(g Gomega) { g.Expect(w.versions(g)).To(BeEmpty()) }, time.Second).Should(Succeed())

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To("quay.io/etcd/etcd:v3.6.8") })
	w.untilReady()
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).LastErrors).To(BeEmpty()) }).Should(Succeed())
}

// The Secrets of an Etcd that was never allowed cost nothing: nothing is said of them, since they are not read.
func TestSecretsOfWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, evil, clientTLS)
	o := w.start(allowing("quay.io/etcd/etcd"))
	w.Eventually(w.refused).Should(Succeed())
	w.nudge(o)
	w.Expect(w.Status(w).Conditions.Find(v1alpha1.ConditionTLSReady)).To(BeNil())

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To("quay.io/etcd/etcd:v3.6.8") })
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionTLSReady).Status).To(Equal(metav1.ConditionFalse))
	}).Should(Succeed())
}

// A running cluster stays as it is when an image is set that is not allowed, also in what else would change.
func TestChangeToAnImageThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start(allowing("quay.io/etcd/etcd"))
	w.eventuallyWell()
	w.writesNothing(o) // what follows the status is written too
	before := w.versions(w)
	w.Expect(before).NotTo(BeEmpty())
	w.Change(func(e *v1alpha1.Etcd) {
		evil(e)
		e.Spec.Replicas = 3
		e.Spec.Labels = map[string]string{"changed": "yes"}
	})
	w.Eventually(w.refused).Should(Succeed())
	w.nudge(o)
	w.Expect(w.versions(w)).To(Equal(before))
	w.Expect(w.condition(w, v1alpha1.ConditionAllMembersReady).Status).To(Equal(metav1.ConditionTrue))
	w.Kubelet.Set(pod(0), env.NotReady)
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionAllMembersReady).Status).To(Equal(metav1.ConditionFalse), "its members are still observed")
		w.refused(g)
	}).Should(Succeed())
}

// refused: the status says which image, and what to do.
func (w *world) refused(g Gomega) {
	all := w.Status(g).LastErrors
	g.Expect(all).To(HaveLen(1))
	g.Expect(all[0].Code).To(Equal(v1alpha1.ErrNotAllowed))
	g.Expect(all[0].Description).To(And(ContainSubstring(`spec.etcd.image "evil.io/etcd:v1"`), ContainSubstring("use one of quay.io/etcd/etcd")))
}

func (w *world) untilReady() {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		ready := w.Status(g).Ready
		g.Expect(ready).NotTo(BeNil())
		g.Expect(*ready).To(BeTrue())
	}).Should(Succeed())
}

// versions are the generations, or versions, of the objects that the Etcd owns, but for what agents and controllers write.
func (w *world) versions(g Gomega) map[string]string {
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &policyv1.PodDisruptionBudgetList{}, &coordinationv1.LeaseList{},
	} {
		g.Expect(testEnv.Client.List(w.T.Context(), list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})).To(Succeed())
		g.Expect(meta.EachListItem(list, func(object runtime.Object) error {
			o := object.(client.Object)
			version := o.GetResourceVersion()
			if o.GetGeneration() > 0 {
				version = fmt.Sprint("generation ", o.GetGeneration())
			}
			found[fmt.Sprintf("%T %s", o, o.GetName())] = version
			return nil
		})).To(Succeed())
	}
	return found
}
