// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Objects keep their values, and equal values are shared.
func TestSharedResources(t *testing.T) {
	g := NewWithT(t)
	list := func(storage string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(storage), corev1.ResourceCPU: resource.MustParse("1")}
	}
	claim := func(storage string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list(storage)}},
			Status: corev1.PersistentVolumeClaimStatus{Capacity: list(storage)},
		}
	}
	set := func() *appsv1.StatefulSet {
		containers := []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: list("1Gi"), Limits: list("2Gi")}}, {Name: "b"}}
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
			Template:             corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers, InitContainers: containers[:1]}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim("1Gi")},
		}}
	}
	same := func(a, b corev1.ResourceList) bool {
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	lists := &resourceLists{}
	first, second, other := lists.claim(claim("1Gi")), lists.claim(claim("1Gi")), lists.claim(claim("2Gi"))
	g.Expect(first).To(Equal(trimmedClaim(claim("1Gi"))))
	g.Expect(other).To(Equal(trimmedClaim(claim("2Gi"))))
	g.Expect(same(first.Spec.Resources.Requests, second.Status.Capacity)).To(BeTrue())
	g.Expect(same(first.Spec.Resources.Requests, other.Spec.Resources.Requests)).To(BeFalse())

	slim := lists.statefulSet(set())
	g.Expect(slim).To(Equal(set()))
	g.Expect(same(slim.Spec.Template.Spec.Containers[0].Resources.Requests, first.Spec.Resources.Requests)).To(BeTrue())
	g.Expect(same(slim.Spec.Template.Spec.Containers[0].Resources.Limits, other.Spec.Resources.Requests)).To(BeTrue())
	g.Expect(same(slim.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests, first.Spec.Resources.Requests)).To(BeTrue())
}
