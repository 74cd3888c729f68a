// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
)

// podDisruptionBudget keeps evictions from costing quorum. It does not protect a single member, whose node could then never
// be drained, unless another one takes over from it on a drain: then it protects both of them. A pod that is not ready can be evicted
// nevertheless, since members do not change without it.
func podDisruptionBudget(in Input) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	minAvailable := 0
	if in.Replicas > 1 {
		minAvailable = quorum.Size(int(in.Replicas))
	}
	spec := policyv1ac.PodDisruptionBudgetSpec().
		WithMinAvailable(intstr.FromInt(minAvailable)).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(MemberSelector(in.Etcd.Name, in.podsManagedBy())))
	if in.Etcd.SurgesOnDrain() {
		spec.MinAvailable = nil
		spec.WithMaxUnavailable(intstr.FromInt(0)).WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow)
	}
	if _, ok := in.Etcd.Annotations[v1alpha1.AnnotationAllowUnhealthyPodEviction]; ok {
		spec.WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow)
	}
	name := in.Etcd.Name
	return policyv1ac.PodDisruptionBudget(name, in.Etcd.Namespace).
		WithLabels(in.labels(v1alpha1.ComponentPodDisruptionBudget, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithSpec(spec)
}
