// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// transformed is what the cache keeps of an object.
func transformed[T client.Object](t testing.TB, object T) T {
	t.Helper()
	options, err := CacheOptions()
	if err != nil {
		t.Fatal(err)
	}
	for of, by := range options.ByObject {
		if _, ok := of.(T); ok {
			if by.Transform == nil {
				by = cache.ByObject{Transform: options.DefaultTransform}
			}
			kept, err := by.Transform(object)
			if err != nil {
				t.Fatal(err)
			}
			return kept.(T)
		}
	}
	t.Fatalf("%T is not cached", object)
	return object
}

func metaOf(name string, controller string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "1", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "m"}}
	if controller != "" {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: controller, Name: "m", UID: "e", Controller: ptr.To(true)}}
	}
	return m
}

// Of what only has the labels of an Etcd's objects, or is too large for one, the cache keeps whose it is.
func TestTheCacheKeepsWhatAnEtcdNeeds(t *testing.T) {
	g := NewWithT(t)
	config := func(name, controller string, bytes int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metaOf(name, controller), Data: map[string]string{"k": strings.Repeat("x", bytes)}}
	}
	for _, name := range []string{"m-config", (&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "m"}}).ConfigMapName(v1alpha1.ManagedByDruid)} {
		g.Expect(transformed(t, config(name, "Etcd", 10))).To(Equal(config(name, "Etcd", 10)))
	}
	for name, c := range map[string]*corev1.ConfigMap{
		"no controller": config("m-config", "", 10), "another controller": config("m-config", "EtcdOperatorTask", 10),
		"another name": config("m-other", "Etcd", 10), "too large": config("m-config", "Etcd", maxObject),
	} {
		want := c.DeepCopy()
		want.Data = nil
		c.Annotations, c.Labels["long"] = map[string]string{"long": "story"}, "story"
		g.Expect(transformed(t, c)).To(Equal(want), name)
	}

	lease := &coordinationv1.Lease{ObjectMeta: metaOf("any", "Etcd"), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}
	g.Expect(transformed(t, lease.DeepCopy()).Spec).To(Equal(lease.Spec))
	lease.Spec.HolderIdentity = ptr.To(strings.Repeat("x", maxLease))
	g.Expect(transformed(t, lease.DeepCopy()).Spec).To(BeZero())

	// What others have annotated at length is cut, and neither the Lease nor the error of a snapshot is lost.
	lease.Spec.HolderIdentity = ptr.To("x")
	lease.Annotations = map[string]string{v1alpha1.AnnotationBackupError: strings.Repeat("ä", 20<<10), "long": strings.Repeat("x", 20<<10), "short": "x"}
	kept := transformed(t, lease.DeepCopy())
	g.Expect(kept.Spec).To(Equal(lease.Spec))
	g.Expect(kept.Annotations).To(HaveLen(1))
	g.Expect(kept.Annotations[v1alpha1.AnnotationBackupError]).To(And(HavePrefix("ää"), HaveLen(maxValue)))
	g.Expect(kept.Size()).To(BeNumerically("<", maxLease))
	lease.OwnerReferences = nil
	g.Expect(transformed(t, lease.DeepCopy()).Annotations).To(BeEmpty(), "no Etcd needs it")

	pod := &corev1.Pod{ObjectMeta: metaOf("m-0", "")}
	pod.Annotations = map[string]string{"long": strings.Repeat("x", maxPodAnnotation+1), "short": "x"}
	g.Expect(transformed(t, pod).Annotations).To(Equal(map[string]string{"short": "x"}))
}

// Every object of an Etcd is kept whole.
func TestTheCacheKeepsEveryObjectOfAnEtcd(t *testing.T) {
	for _, manager := range []string{"", v1alpha1.ManagedByDruid} {
		for _, key := range component.Keys(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, 3, manager) {
			m := metaOf(key.Name, "Etcd")
			NewWithT(t).Expect(needed(key.Kind.Kind, &m)).To(BeTrue(), "%v", key)
		}
	}
}

// The heap that a thousand ConfigMaps of 1 MB with the operator's label take.
func BenchmarkLabelledConfigMaps(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make([]*corev1.ConfigMap, 1000)
		for i := range kept {
			kept[i] = transformed(b, &corev1.ConfigMap{ObjectMeta: metaOf(fmt.Sprint("c-", i), "Etcd"), Data: map[string]string{"k": strings.Repeat("x", 1<<20)}})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "heap-bytes")
		runtime.KeepAlive(kept)
	}
}
