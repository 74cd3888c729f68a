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
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// statefulSet builds the StatefulSet of the members. It starts them in parallel, because none becomes ready before a quorum
// is running.
func statefulSet(in Input) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	template, err := podTemplate(in)
	if err != nil {
		return nil, err
	}
	name := in.Etcd.Name
	return appsv1ac.StatefulSet(name, in.Etcd.Namespace).
		WithLabels(in.labels(v1alpha1.ComponentStatefulSet, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(in.Replicas).
			WithServiceName(in.Etcd.PeerServiceName()).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(updateStrategy(in.Strategy)).
			WithPersistentVolumeClaimRetentionPolicy(retention(in.Retention)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(statefulSetSelector(name, in.podsManagedBy()))).
			WithTemplate(template).
			WithVolumeClaimTemplates(volumeClaim(in))), nil
}

// updateStrategy sets the partition explicitly: unset after a change from OnDelete, it would bring pods back at the old
// revision.
func updateStrategy(strategy appsv1.StatefulSetUpdateStrategyType) *appsv1ac.StatefulSetUpdateStrategyApplyConfiguration {
	s := appsv1ac.StatefulSetUpdateStrategy().WithType(strategy)
	if strategy == appsv1.RollingUpdateStatefulSetStrategyType {
		s.WithRollingUpdate(appsv1ac.RollingUpdateStatefulSetStrategy().WithPartition(0))
	}
	return s
}

func volumeClaim(in Input) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: in.Capacity}))
	if in.Class != "" {
		spec.WithStorageClassName(in.Class)
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
