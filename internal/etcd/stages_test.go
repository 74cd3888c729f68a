// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// setWith returns a StatefulSet with some replicas and a claim template of 4Gi.
func setWith(replicas int32) *appsv1.StatefulSet {
	claim := corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")}
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim}}}
}

func etcdWith(replicas int32, capacity string, policy v1alpha1.PersistentVolumeClaimRetentionPolicy) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: replicas, StorageCapacity: ptr.To(resource.MustParse(capacity)), PersistentVolumeClaimRetentionPolicy: &policy}}
}

func TestRetention(t *testing.T) {
	g := NewWithT(t)
	all := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesDeleted, WhenScaled: v1alpha1.VolumesDeleted}
	g.Expect(retention(&v1alpha1.Etcd{}, nil).WhenDeleted).To(Equal(v1alpha1.VolumesRetained))
	for name, set := range map[string]*appsv1.StatefulSet{"none yet": nil, "running": setWith(3), "hibernated": setWith(0)} {
		p := retention(etcdWith(3, "4Gi", all), set)
		g.Expect(p.WhenDeleted).To(Equal(v1alpha1.VolumesDeleted), name)
		g.Expect(p.WhenScaled).To(Equal(v1alpha1.VolumesRetained), "%s: scaling to zero must not lose data", name)
	}
	g.Expect(retention(etcdWith(3, "8Gi", all), setWith(3)).WhenDeleted).To(Equal(v1alpha1.VolumesRetained), "the StatefulSet is to be replaced")
}
