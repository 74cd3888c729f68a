// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"slices"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// EtcdForemanDown fires where no instance reports that it is active: in mode Executor, none did.
func TestEveryModeReportsThatItIsActive(t *testing.T) {
	for _, mode := range []configv1alpha1.Mode{configv1alpha1.ModeOperator, configv1alpha1.ModeExecutor} {
		o, err := New(&configv1alpha1.OperatorConfiguration{Mode: mode}, Dependencies{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(o.parts, func(p part) bool { return p.name == Metrics }) {
			t.Errorf("mode %s has no metrics of the cache", mode)
		}
	}
}

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
