// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The first apply to a StatefulSet that was adopted takes over the fields of those who have written its template, and of no others.
func TestManagersBefore(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const update = metav1.ManagedFieldsOperationUpdate
	fields := []metav1.ManagedFieldsEntry{
		entry("etcd-druid", update, "", `{"f:metadata":{},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{}}}}`),
		entry("kubectl-edit", update, "", `{"f:spec":{"f:template":{"f:metadata":{}}}}`),
		entry("kubectl-annotate", update, "", `{"f:metadata":{"f:annotations":{}}}`),
		entry("kube-controller-manager", update, "status", `{"f:status":{},"f:spec":{"f:template":{}}}`),
		entry("other", metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:template":{}}}`),
		{Manager: "empty", Operation: update},
	}
	adopted := map[string]string{v1alpha1.AnnotationAdoptedBy: "uid"}
	applied := map[string]string{v1alpha1.AnnotationAdoptedBy: "uid", v1alpha1.AnnotationAppliedChecksum: "1"}
	g := NewWithT(t)
	managers := func(annotations map[string]string) []string {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Annotations: annotations, ManagedFields: fields}}
		return managersBefore(set).UnsortedList()
	}
	g.Expect(managers(adopted)).To(ConsistOf(string(creator), "etcd-druid", "kubectl-edit"))
	g.Expect(managers(applied)).To(ConsistOf(string(creator)), "it was applied before")
	g.Expect(managers(nil)).To(ConsistOf(string(creator)), "it was not adopted")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: adopted, ManagedFields: fields}}
	g.Expect(managersBefore(service).UnsortedList()).To(ConsistOf(string(creator)))
}
