// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What templates and claims of most Etcds have in common is in the cache once, and each object says what it said before.
func TestPooledParts(t *testing.T) {
	options, err := CacheOptions()
	if err != nil {
		t.Fatal(err)
	}
	objects := objectsOfAnEtcd(t)
	kept := map[string][2]any{}
	for of, by := range options.ByObject {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", of), "*v1.")
		if len(objects[kind]) == 0 {
			continue
		}
		both := [2]any{}
		for i := range both {
			o := kinds[kind]()
			if err := json.Unmarshal(objects[kind][0], o); err != nil {
				t.Fatal(err)
			}
			if both[i], err = by.Transform(o); err != nil {
				t.Fatal(err)
			}
		}
		kept[kind] = both
	}
	g := NewWithT(t)
	want := &appsv1.StatefulSet{}
	g.Expect(json.Unmarshal(objects["StatefulSet"][0], want)).To(Succeed())
	want.ManagedFields = nil
	sets := [2]*appsv1.StatefulSet{kept["StatefulSet"][0].(*appsv1.StatefulSet), kept["StatefulSet"][1].(*appsv1.StatefulSet)}
	for _, set := range sets {
		g.Expect(set).To(Equal(want))
	}
	same := func(a, b *corev1.PodSpec) {
		t.Helper()
		g.Expect(a.SecurityContext == b.SecurityContext).To(BeTrue())
		for i := range a.Containers {
			x, y := &a.Containers[i], &b.Containers[i]
			g.Expect(x.SecurityContext == y.SecurityContext && x.ReadinessProbe == y.ReadinessProbe).To(BeTrue())
			g.Expect(len(x.Ports) == 0 || &x.Ports[0] == &y.Ports[0]).To(BeTrue())
		}
	}
	same(&sets[0].Spec.Template.Spec, &sets[1].Spec.Template.Spec)
	same(&kept["Pod"][0].(*corev1.Pod).Spec, &kept["Pod"][1].(*corev1.Pod).Spec)
	g.Expect(&kept["Pod"][0].(*corev1.Pod).Spec.Containers[0] == &kept["Pod"][1].(*corev1.Pod).Spec.Containers[0]).To(BeTrue())
	claims := [2]*corev1.PersistentVolumeClaim{kept["PersistentVolumeClaim"][0].(*corev1.PersistentVolumeClaim), kept["PersistentVolumeClaim"][1].(*corev1.PersistentVolumeClaim)}
	g.Expect(claims[0]).To(Equal(claims[1]))
	g.Expect(&claims[0].Spec.AccessModes[0] == &claims[1].Spec.AccessModes[0]).To(BeTrue())
}

// What an Etcd has in common with those of the same name in other namespaces is in the cache once. Each object says what it would say by
// itself, and what is there already is left as it is, also when it comes again.
func TestNamedParts(t *testing.T) {
	transforms := func() func(kind string, data []byte) client.Object {
		options, err := CacheOptions()
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]toolscache.TransformFunc{}
		for of, with := range options.ByObject {
			by[reflect.TypeOf(of).Elem().Name()] = with.Transform
		}
		return func(kind string, data []byte) client.Object {
			o := kinds[kind]()
			if err := json.Unmarshal(data, o); err != nil {
				t.Fatal(err)
			}
			kept, err := by[kind](o)
			if err != nil {
				t.Fatal(err)
			}
			return kept.(client.Object)
		}
	}
	g, keep := NewWithT(t), transforms()
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	for kind, all := range objectsOfAnEtcd(t) {
		for _, data := range all {
			first := keep(kind, data)
			before := first.DeepCopyObject()
			for i := range 3 {
				other := elsewhere(data, i)
				kept := keep(kind, other)
				g.Expect(kept).To(Equal(transforms()(kind, other)), "it says what it says where nothing is in the pools")
				shared := kind != "Pod" && kind != "Etcd" && kind != "PersistentVolume"
				g.Expect(same(kept.GetLabels(), first.GetLabels())).To(Equal(shared || len(kept.GetLabels()) == 0), kind)
			}
			g.Expect(first).To(Equal(before))
		}
	}
	sets := objectsOfAnEtcd(t)["StatefulSet"][0]
	a, b := keep("StatefulSet", sets).(*appsv1.StatefulSet).Spec, keep("StatefulSet", elsewhere(sets, 1)).(*appsv1.StatefulSet).Spec
	g.Expect(a.Selector == b.Selector && a.Template.Spec.Affinity == b.Template.Spec.Affinity && same(a.Template.Labels, b.Template.Labels)).To(BeTrue())
	g.Expect(&a.Template.Spec.Volumes[0] == &b.Template.Spec.Volumes[0]).To(BeTrue())
	g.Expect(&a.Template.Spec.Containers[0].VolumeMounts[0] == &b.Template.Spec.Containers[0].VolumeMounts[0]).To(BeTrue())
	g.Expect(a.Template.Annotations).NotTo(Equal(b.Template.Annotations), "these are two Etcds")
}

// What others write into their objects neither adds to the pool without end, nor replaces what is in it.
func TestThePoolIsBounded(t *testing.T) {
	g, p := NewWithT(t), &pool{}
	port := func(name string) *corev1.ContainerPort { return &corev1.ContainerPort{Name: name} }
	first := pooled(p, port("first"))
	long := port(strings.Repeat("x", maxPooledValue))
	g.Expect(pooled(p, long) == long).To(BeTrue())
	g.Expect(p.values).To(HaveLen(1))
	for i := range 2 * maxPooled {
		name := fmt.Sprint(i)
		g.Expect(pooled(p, port(name))).To(Equal(port(name)))
	}
	g.Expect(p.values).To(HaveLen(maxPooled))
	g.Expect(pooled(p, port("first")) == first).To(BeTrue())
	g.Expect(pooled(p, (*corev1.ContainerPort)(nil))).To(BeNil())
	// Values of two types may be encoded in the same way.
	g.Expect(pooled(p, &metav1.ObjectMeta{})).To(Equal(&metav1.ObjectMeta{}))
}

// Who fills the pool of one kind, such as that of claims, does not fill that of another.
func TestEachKindHasItsPool(t *testing.T) {
	// Each makes an object with a part that others have if they were made with the same number, and returns where the cache has that.
	kinds := map[string]func(transform func(client.Object) any, n int) any{
		"pods": func(transform func(client.Object) any, n int) any {
			etcd := corev1.Container{Name: v1alpha1.ContainerEtcd, Ports: []corev1.ContainerPort{{ContainerPort: int32(n)}}}
			return &transform(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{etcd}}}).(*corev1.Pod).Spec.Containers[0].Ports[0]
		},
		"sets": func(transform func(client.Object) any, n int) any {
			owner := metav1.NewControllerRef(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main"}}, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))
			s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "main", OwnerReferences: []metav1.OwnerReference{*owner}}}
			s.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(n))}
			return transform(s).(*appsv1.StatefulSet).Spec.Template.Spec.SecurityContext
		},
		"claims": func(transform func(client.Object) any, n int) any {
			return transform(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "main-main-0"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(fmt.Sprint(n))}}).(*corev1.PersistentVolumeClaim).Spec.StorageClassName
		},
	}
	for full, fill := range kinds {
		options, err := CacheOptions()
		if err != nil {
			t.Fatal(err)
		}
		transform := func(o client.Object) any {
			for of, by := range options.ByObject {
				if reflect.TypeOf(of) == reflect.TypeOf(o) {
					kept, err := by.Transform(o)
					if err != nil {
						t.Fatal(err)
					}
					return kept
				}
			}
			t.Fatalf("%T is not in the cache", o)
			return nil
		}
		for n := range maxPooled {
			fill(transform, n)
		}
		for kind, in := range kinds {
			if shared := in(transform, -1) == in(transform, -1); shared == (kind == full) {
				t.Errorf("once the pool of %s is full, two %s share what they have in common: %t", full, kind, shared)
			}
		}
	}
}
