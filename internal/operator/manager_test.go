// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// The cache holds only objects of the watched namespaces, and of those only objects of an Etcd.
func TestContentsOfTheCache(t *testing.T) {
	g := NewWithT(t)
	all, err := CacheOptions()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.DefaultNamespaces).To(BeNil(), "all namespaces")
	some, err := CacheOptions("a", "b")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(some.DefaultNamespaces).To(And(HaveLen(2), HaveKey("a"), HaveKey("b")))
	for object, by := range some.ByObject {
		g.Expect(by.Namespaces).To(BeNil(), "%T is restricted to the namespaces", object)
		switch object.(type) {
		case *corev1.Namespace, *corev1.Node, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim, *v1alpha1.Etcd, *v1alpha1.EtcdOperatorTask:
			g.Expect(by.Transform).NotTo(BeNil(), "%T is trimmed", object)
		default:
			g.Expect(by.Label).NotTo(BeNil(), "%T is selected by its labels", object)
		}
	}
}
