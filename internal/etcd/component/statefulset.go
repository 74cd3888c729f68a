// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
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
