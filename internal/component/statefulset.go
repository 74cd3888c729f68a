// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
)

// StatefulSet holds the members. All of them start at the same time: none can become ready before a quorum
// of them is there.
func StatefulSet(in Input) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	template, err := podTemplate(in)
	if err != nil {
		return nil, err
	}
	name := in.Etcd.Name
	return appsv1ac.StatefulSet(name, in.Etcd.Namespace).
		WithLabels(labels(name, v1alpha1.ComponentStatefulSet, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(in.Replicas).
			WithServiceName(PeerServiceName(name)).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(updateStrategy(in.Strategy)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(statefulSetSelector(name))).
			WithTemplate(template).
			WithVolumeClaimTemplates(volumeClaim(in.Etcd))), nil
}

// updateStrategy spells the partition out: left to its default it would be unset after a change from
// OnDelete, and a pod that is on its way would come back at the old revision.
func updateStrategy(strategy appsv1.StatefulSetUpdateStrategyType) *appsv1ac.StatefulSetUpdateStrategyApplyConfiguration {
	s := appsv1ac.StatefulSetUpdateStrategy().WithType(strategy)
	if strategy == appsv1.RollingUpdateStatefulSetStrategyType {
		s.WithRollingUpdate(appsv1ac.RollingUpdateStatefulSetStrategy().WithPartition(0))
	}
	return s
}

func volumeClaim(etcd *v1alpha1.Etcd) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceStorage: ptr.Deref(etcd.Spec.StorageCapacity, resource.MustParse("16Gi")),
		}))
	if class := ptr.Deref(etcd.Spec.StorageClass, ""); class != "" {
		spec.WithStorageClassName(class)
	}
	claim := &corev1ac.PersistentVolumeClaimApplyConfiguration{}
	return claim.WithName(claimName(etcd)).WithSpec(spec)
}

func claimName(etcd *v1alpha1.Etcd) string {
	return cmp.Or(ptr.Deref(etcd.Spec.VolumeClaimTemplate, ""), etcd.Name)
}
