// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// annotated gives the client Service and the pods an annotation each.
func annotated(e *v1alpha1.Etcd) {
	e.Spec.Etcd.ClientService = &v1alpha1.ClientService{Annotations: map[string]string{"example.com/a": "b"}, TrafficDistribution: ptr.To[v1alpha1.TrafficDistribution]("PreferClose")}
	e.Spec.Annotations = map[string]string{"example.com/a": "b"}
}

// plainAgain removes from the spec what annotated set, and waits until it is gone from the objects.
func (w *world) plainAgain() {
	w.T.Helper()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.ClientService, e.Spec.Annotations = nil, nil })
	w.Eventually(func(g Gomega) {
		service := &corev1.Service{}
		w.Get(g, name+"-client", service)
		g.Expect(service.Annotations).NotTo(HaveKey("example.com/a"))
		g.Expect(service.Spec.TrafficDistribution).To(BeNil())
		g.Expect(w.StatefulSet(g).Spec.Template.Annotations).NotTo(HaveKey("example.com/a"))
	}).Should(Succeed())
}

// managers returns the field managers of an object, with their operations.
func managers(o client.Object) (all []string) {
	for _, f := range o.GetManagedFields() {
		if f.Subresource == "" {
			all = append(all, string(f.Operation)+" "+f.Manager)
		}
	}
	return all
}

// Fields that are no longer rendered are removed from a created object. Fields that never were stay: those set by
// others, defaulted by the API server, or patched by the operator itself.
func TestFieldsAreRemovedFromCreatedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, annotated)
	o := w.start()
	w.eventuallyWell()
	set := w.StatefulSet(w)
	w.Expect(managers(set)).To(ConsistOf("Update etcd-foreman-create"))
	before := set.DeepCopy()
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, "team", "storage")
	set.Spec.RevisionHistoryLimit = ptr.To[int32](3)
	w.Expect(testEnv.Client.Patch(t.Context(), set, client.MergeFrom(before), client.FieldOwner("another-client"))).To(Succeed())
	// A hold or a change of strategy patches the StatefulSet like this.
	before = set.DeepCopy()
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, "druid.gardener.cloud/patched", "by the operator")
	w.Expect(testEnv.Client.Patch(t.Context(), set, client.MergeFrom(before), apply.Manager)).To(Succeed())
	service := &corev1.Service{}
	w.Get(w, name+"-client", service)

	w.plainAgain()
	now := w.StatefulSet(w)
	w.Expect(now.UID).To(Equal(set.UID))
	w.Expect(managers(now)).To(ConsistOf("Apply etcd-foreman", "Update etcd-foreman", "Update another-client"))
	w.Expect(now.Annotations).To(HaveKeyWithValue("team", "storage"))
	w.Expect(now.Annotations).To(HaveKeyWithValue("druid.gardener.cloud/patched", "by the operator"))
	w.Expect(now.Spec.RevisionHistoryLimit).To(HaveValue(Equal(int32(3))))
	delete(set.Spec.Template.Annotations, "example.com/a")
	w.Expect(apiequality.Semantic.DeepEqual(now.Spec, set.Spec)).To(BeTrue(), "defaulted fields keep their defaults")
	after := &corev1.Service{}
	w.Get(w, service.Name, after)
	w.Expect(after.Spec.ClusterIP).To(Equal(service.Spec.ClusterIP))

	w.Expect(testEnv.Client.Delete(t.Context(), w.pod(0))).To(Succeed())
	w.eventuallyWell()
	w.writesNothing(o)
}

// The operator adopts the fields that an older version applied, and removes those that are no longer rendered.
func TestFieldsAreRemovedFromAppliedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, annotated)
	w.Get(w, name, w.Etcd)
	objects, err := component.Objects(component.Input{
		Etcd: w.Etcd, Images: configv1alpha1.Images{Etcd: composition.Etcd, EtcdAgent: composition.Agent},
		Replicas: 1, Strategy: appsv1.OnDeleteStatefulSetStrategyType, Capacity: w.Etcd.Spec.Capacity(), Retention: w.Etcd.Spec.Retention(),
	})
	w.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		d, err := apply.Render(object, nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(testEnv.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(d.Unstructured), client.ForceOwnership, apply.Manager)).To(Succeed())
	}
	set := w.StatefulSet(w)
	w.start()
	w.eventuallyWell()
	w.Expect(w.StatefulSet(w).Generation).To(Equal(set.Generation), "the StatefulSet needs no change")
	w.plainAgain()
	w.Expect(w.StatefulSet(w).UID).To(Equal(set.UID))
	w.Expect(managers(w.StatefulSet(w))).To(ConsistOf("Apply etcd-foreman"))
}
