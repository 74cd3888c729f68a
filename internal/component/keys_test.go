// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The keys are those of the objects, in their order.
func TestKeys(t *testing.T) {
	for name, in := range map[string]Input{"one": input(1), "asleep": input(0), "everything": everything(), "with backups": withBackup()} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects, err := Objects(in)
			g.Expect(err).NotTo(HaveOccurred())
			var want []Key
			for _, object := range objects {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
				g.Expect(err).NotTo(HaveOccurred())
				o := &unstructured.Unstructured{Object: content}
				want = append(want, Key{o.GroupVersionKind(), o.GetName()})
			}
			g.Expect(Keys(in.Etcd, in.Replicas)).To(Equal(want))
		})
	}
}

// A claim that the StatefulSet controller makes has the labels of the selector: by them it is the Etcd's own.
func TestSelectorIsTheLabelsOfClaims(t *testing.T) {
	g := NewWithT(t)
	g.Expect(statefulSetSelector("etcd-main")).To(Equal(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "etcd-main"}))
}
