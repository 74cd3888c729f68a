// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func request(t *testing.T, set, before *appsv1.StatefulSet) admission.Request {
	t.Helper()
	raw := func(s *appsv1.StatefulSet) runtime.RawExtension {
		if s == nil {
			return runtime.RawExtension{}
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: raw(set), OldObject: raw(before)}}
}

// druids is a StatefulSet as etcd-druid writes it, with changes.
func druids(changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Name: "main", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "main", UID: "etcd", Controller: ptr.To(true)}},
	}}
	s.Spec.Replicas = ptr.To(int32(3))
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(0))}}
	for _, c := range changes {
		c(s)
	}
	return s
}

func replicas(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n }
}

func server() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: v1alpha1.RolloutsConfigMap}})
}

func TestWhichStatefulSetsAreChanged(t *testing.T) {
	for name, c := range map[string]struct {
		set, before *appsv1.StatefulSet
		want        bool
	}{
		"created":            {druids(), nil, true},
		"written again":      {druids(), druids(), true},
		"wakes up":           {druids(), druids(replicas(0)), true},
		"grows":              {druids(), druids(replicas(1)), true},
		"hibernates":         {druids(replicas(0)), druids(), true},
		"a single member":    {druids(replicas(1)), druids(replicas(1)), false},
		"hibernated":         {druids(replicas(0)), druids(replicas(0)), false},
		"of another manager": {druids(func(s *appsv1.StatefulSet) { s.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy }), nil, false},
		"another component":  {druids(func(s *appsv1.StatefulSet) { delete(s.Labels, v1alpha1.LabelComponent) }), nil, false},
		"without an owner":   {druids(func(s *appsv1.StatefulSet) { s.OwnerReferences = nil }), nil, false},
		"not controlled":     {druids(func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Controller = nil }), nil, false},
		"of another kind":    {druids(func(s *appsv1.StatefulSet) { s.OwnerReferences[0].APIVersion = "example.com/v1" }), nil, false},
		"OnDelete of its own": {druids(func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			response := (&Handler{Live: server().Build(), Namespace: "own", Clock: clock.RealClock{}}).Handle(t.Context(), request(t, c.set, c.before))
			g.Expect(response.Allowed).To(BeTrue())
			g.Expect(len(response.Patch) > 0).To(Equal(c.want), string(response.Patch))
		})
	}
}

// The strategy and the marker are written in one request, or neither is.
func TestStrategyAndMarkerAreOneChange(t *testing.T) {
	const strategy = `{"op":"replace","path":"/spec/updateStrategy","value":{"type":"OnDelete"}}`
	g := NewWithT(t)
	h := &Handler{Live: server().Build(), Namespace: "own", Clock: clock.RealClock{}}
	g.Expect(string(h.Handle(t.Context(), request(t, druids(), nil)).Patch)).To(Equal(
		"[" + strategy + `,{"op":"add","path":"/metadata/annotations","value":{"druid.gardener.cloud/rollout-by":"etcd-foreman"}}]`))
	annotated := druids(func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"a": "b"} })
	g.Expect(string(h.Handle(t.Context(), request(t, annotated, nil)).Patch)).To(Equal(
		"[" + strategy + `,{"op":"add","path":"/metadata/annotations/druid.gardener.cloud~1rollout-by","value":"etcd-foreman"}]`))
}

// Nothing that goes wrong here is a denial: etcd-druid works as ever.
func TestNothingIsDenied(t *testing.T) {
	failing := func(failure func() error) client.Reader {
		return server().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return failure()
			},
		}).Build()
	}
	garbage := request(t, druids(), nil)
	garbage.Object.Raw = []byte("{")
	oldGarbage := request(t, druids(), druids())
	oldGarbage.OldObject.Raw = []byte("{")
	for name, c := range map[string]struct {
		live    client.Reader
		request admission.Request
		warns   bool
	}{
		"switched off":             {fake.NewClientBuilder().Build(), request(t, druids(), nil), false},
		"the switch is unreadable": {failing(func() error { return errors.New("timeout") }), request(t, druids(), nil), true},
		"a panic":                  {failing(func() error { panic("bug") }), request(t, druids(), nil), true},
		"no StatefulSet":           {server().Build(), garbage, true},
		"no StatefulSet before":    {server().Build(), oldGarbage, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			response := (&Handler{Live: c.live, Namespace: "own", Clock: clock.RealClock{}}).Handle(t.Context(), c.request)
			g.Expect(response.Allowed).To(BeTrue())
			g.Expect(response.Patch).To(BeEmpty())
			g.Expect(len(response.Warnings) > 0).To(Equal(c.warns))
		})
	}
}
