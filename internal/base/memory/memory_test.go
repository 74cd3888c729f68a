// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A new Etcd of the same name has its own value: a permission for something destructive is not inherited.
func TestValueIsOfOneEtcd(t *testing.T) {
	g := NewWithT(t)
	var m PerEtcd[int]
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "first"}}
	successor := etcd.DeepCopy()
	successor.UID = "second"
	g.Expect(m.Of(etcd)).To(BeZero())
	m.Set(etcd, 1)
	g.Expect(m.Of(etcd)).To(Equal(1))
	g.Expect(m.Of(successor)).To(BeZero())
	m.Set(successor, 2)
	g.Expect(m.Of(etcd)).To(BeZero())
	m.Forget(client.ObjectKeyFromObject(etcd))
	g.Expect(m.Of(successor)).To(BeZero())
}

func TestValuesOfTasks(t *testing.T) {
	g := NewWithT(t)
	var m PerTask[int]
	m.Forget("a")
	add := func(n int) func(*int) { return func(value *int) { *value += n } }
	g.Expect(m.Of("a")).To(BeZero())
	g.Expect(m.Change("a", add(1))).To(Equal(1))
	g.Expect(m.Change("a", add(2))).To(Equal(3))
	g.Expect(m.Change("b", add(5))).To(Equal(5))
	m.Forget("a")
	g.Expect(m.Of("a")).To(BeZero())
	g.Expect(m.Of("b")).To(Equal(5))
}
