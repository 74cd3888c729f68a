// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestImmutableFields(t *testing.T) {
	t.Parallel()
	bare := v1alpha1.EtcdSpec{Replicas: 3}
	full := v1alpha1.EtcdSpec{
		Replicas:            3,
		StorageCapacity:     ptr.To(resource.MustParse("8Gi")),
		StorageClass:        ptr.To("fast"),
		VolumeClaimTemplate: ptr.To("data"),
		Etcd:                v1alpha1.EtcdConfig{ServerPort: ptr.To[int32](2380)},
	}
	for _, tc := range []struct {
		name   string
		spec   v1alpha1.EtcdSpec
		change func(*v1alpha1.EtcdSpec)
		want   string // empty: the change is accepted
	}{
		{"capacity set to the default", bare, func(s *v1alpha1.EtcdSpec) { s.StorageCapacity = ptr.To(resource.MustParse("16384Mi")) }, ""},
		{"capacity less than the default", bare, func(s *v1alpha1.EtcdSpec) { s.StorageCapacity = ptr.To(resource.MustParse("8Gi")) }, "storageCapacity cannot shrink"},
		{"capacity shrunk", full, func(s *v1alpha1.EtcdSpec) { s.StorageCapacity = ptr.To(resource.MustParse("8191Mi")) }, "storageCapacity cannot shrink"},
		{"capacity grown", full, func(s *v1alpha1.EtcdSpec) { s.StorageCapacity = ptr.To(resource.MustParse("9Gi")) }, ""},
		{"capacity unset with a larger default", full, func(s *v1alpha1.EtcdSpec) { s.StorageCapacity = nil }, ""},
		{"class removed", full, func(s *v1alpha1.EtcdSpec) { s.StorageClass = nil }, "storageClass cannot be removed"},
		{"class emptied", full, func(s *v1alpha1.EtcdSpec) { s.StorageClass = ptr.To("") }, "storageClass cannot be removed"},
		{"class changed", full, func(s *v1alpha1.EtcdSpec) { s.StorageClass = ptr.To("faster") }, ""},
		{"class added", bare, func(s *v1alpha1.EtcdSpec) { s.StorageClass = ptr.To("fast") }, ""},
		{"claim renamed", full, func(s *v1alpha1.EtcdSpec) { s.VolumeClaimTemplate = ptr.To("other") }, "volumeClaimTemplate cannot be changed"},
		{"peer port added", bare, func(s *v1alpha1.EtcdSpec) { s.Etcd.ServerPort = ptr.To[int32](2381) }, "etcd.serverPort cannot be changed"},
		{"peer port set to the default", bare, func(s *v1alpha1.EtcdSpec) { s.Etcd.ServerPort = ptr.To[int32](2380) }, ""},
		{"peer port changed", full, func(s *v1alpha1.EtcdSpec) { s.Etcd.ServerPort = ptr.To[int32](2381) }, "etcd.serverPort cannot be changed"},
		{"fewer members", bare, func(s *v1alpha1.EtcdSpec) { s.Replicas = 1 }, ""},
		{"more members", bare, func(s *v1alpha1.EtcdSpec) { s.Replicas = 5 }, ""},
		{"hibernated", full, func(s *v1alpha1.EtcdSpec) { s.Replicas = 0 }, ""},
		{"quota", full, func(s *v1alpha1.EtcdSpec) { s.Etcd.Quota = ptr.To(resource.MustParse("2Gi")) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: testEnv.Namespace(t), Name: name}, Spec: *tc.spec.DeepCopy()}
			g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
			tc.change(&etcd.Spec)
			err := testEnv.Client.Update(t.Context(), etcd)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := testEnv.Namespace(t)
	for name, want := range map[string]string{
		"etcd-main": "",
		"1etcd":     "begins with a letter",
		"etcd.main": "lower-case letters, digits and dashes",
		"a-name-of-forty-six-characters-is-one-too-long": "at most 45 characters",
	} {
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
		err := testEnv.Client.Create(t.Context(), etcd, client.DryRunAll)
		if want == "" {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(want)))
		}
	}
}

func TestTasksStayInTheirNamespace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := testEnv.Namespace(t)
	for reference, allowed := range map[string]bool{"": true, namespace: true, "kube-system": false} {
		task := &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "roll"},
			Spec: v1alpha1.EtcdOperatorTaskSpec{
				Type: v1alpha1.QuorumAwareRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: name, Namespace: reference},
			},
		}
		err := testEnv.Client.Create(t.Context(), task, client.DryRunAll)
		if allowed {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(ContainSubstring("create the task in the namespace of its Etcd")))
		}
	}
}
