// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What most objects say in their metadata is in the cache once, and no object says anything else than before.
func TestSharedStrings(t *testing.T) {
	g := NewWithT(t)
	labels := map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease, v1alpha1.LabelPartOf: "main", "team": v1alpha1.ManagedBy, "a": "b"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet"}, {APIVersion: "v1", Kind: "Own"}}}}
	for key, value := range labels {
		pod.Labels[strings.Clone(key)] = strings.Clone(value)
	}
	for i := range pod.OwnerReferences {
		pod.OwnerReferences[i].Kind = strings.Clone(pod.OwnerReferences[i].Kind)
	}
	want := pod.DeepCopy()
	share(pod)
	g.Expect(pod).To(Equal(want))
	isShared := func(s string) bool { return unsafe.StringData(s) == unsafe.StringData(shared[s]) }
	for key, value := range pod.Labels {
		g.Expect(isShared(key)).To(Equal(strings.HasPrefix(key, "app.kubernetes.io/")), key)
		g.Expect(isShared(value)).To(Equal(strings.HasPrefix(value, "etcd-")), value)
	}
	g.Expect(isShared(pod.OwnerReferences[0].Kind)).To(BeTrue())
	g.Expect(isShared(pod.OwnerReferences[1].Kind)).To(BeFalse())
}
