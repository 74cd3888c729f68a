// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

func volumeClaim(in Input) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: in.Capacity}))
	if class := ptr.Deref(in.Etcd.Spec.StorageClass, ""); class != "" {
		spec.WithStorageClassName(class)
	}
	claim := &corev1ac.PersistentVolumeClaimApplyConfiguration{}
	if !v1alpha1.IsAdopted(in.Manager) && in.podsManagedBy() != v1alpha1.ManagedBy {
		// The label managed-by does not say whose the claim is, and an Etcd that is created again has to know it.
		claim.WithLabels(map[string]string{v1alpha1.LabelCreatedBy: v1alpha1.ManagedBy})
	}
	return claim.WithName(in.Etcd.ClaimTemplateName()).WithSpec(spec)
}

// retention sets the policy explicitly, so that removing a part of it is noticed and reverted.
func retention(p v1alpha1.PersistentVolumeClaimRetentionPolicy) *appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicyApplyConfiguration {
	return appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
		WithWhenDeleted(appsv1.PersistentVolumeClaimRetentionPolicyType(p.WhenDeleted)).
		WithWhenScaled(appsv1.PersistentVolumeClaimRetentionPolicyType(p.WhenScaled))
}
