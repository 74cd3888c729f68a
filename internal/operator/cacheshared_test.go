// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// What most objects say in their metadata is in the cache once, and no object says anything else than before.
func TestSharedStrings(t *testing.T) {
	g := NewWithT(t)
	labels := map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease, v1alpha1.LabelPartOf: "main", "team": v1alpha1.ManagedBy, "a": "b"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for key, value := range labels {
		pod.Labels[strings.Clone(key)] = strings.Clone(value)
	}
	want := pod.DeepCopy()
	share(pod)
	g.Expect(pod).To(Equal(want))
	isShared := func(s string) bool { return unsafe.StringData(s) == unsafe.StringData(shared[s]) }
	for key, value := range pod.Labels {
		g.Expect(isShared(key)).To(Equal(strings.HasPrefix(key, "app.kubernetes.io/")), key)
		g.Expect(isShared(value)).To(Equal(strings.HasPrefix(value, "etcd-")), value)
	}
}

// Objects of an Etcd have their owner in common, for as long as one of them is there; and no object has another owner than before.
func TestSharedOwners(t *testing.T) {
	g, all := NewWithT(t), &owners{}
	of := func(refs ...metav1.OwnerReference) []metav1.OwnerReference {
		t.Helper()
		for i := range refs {
			refs[i].Kind, refs[i].UID = strings.Clone(refs[i].Kind), types.UID(strings.Clone(string(refs[i].UID)))
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-0", OwnerReferences: refs}}
		want := pod.DeepCopy()
		kept, err := all.after(keep(func(p *corev1.Pod) *corev1.Pod { return p }))(pod)
		g.Expect(kept, err).To(Equal(want))
		return kept.(*corev1.Pod).OwnerReferences
	}
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "m", UID: "a", Controller: ptr.To(true)}
	first := of(set)
	g.Expect(unsafe.StringData(first[0].Kind) == unsafe.StringData(shared["StatefulSet"])).To(BeTrue())
	g.Expect(&of(set)[0] == &first[0]).To(BeTrue())
	renamed := set
	renamed.Controller = nil
	g.Expect(&of(renamed)[0] == &first[0]).To(BeFalse(), "it is not the controller")
	other := set
	other.UID = "b"
	second := of(other)
	g.Expect(&second[0] == &first[0]).To(BeFalse())
	g.Expect(of()).To(BeNil())
	g.Expect(of(set, other)).To(HaveLen(2))
	count := func() int {
		runtime.GC()
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.known)
	}
	g.Eventually(count, machine.Patience(), "10ms").Should(Equal(1), "the one that was replaced is gone with its last object")
	runtime.KeepAlive(second)
}

// An owner is shared for as long as an object has it.
func TestAnOwnerThatComesBack(t *testing.T) {
	g, all := NewWithT(t), &owners{}
	owner := metav1.OwnerReference{Kind: "StatefulSet", UID: "a"}
	all.share(owner)
	kept := all.share(metav1.OwnerReference{Kind: "StatefulSet", UID: "a", Name: "renamed"})
	for range 3 {
		runtime.GC()
		all.forget("a")
		g.Expect(all.share(*(&kept[0]).DeepCopy()) == kept).To(BeTrue())
	}
}
