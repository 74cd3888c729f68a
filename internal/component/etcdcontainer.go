// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// etcdContainer runs etcd as its authors publish it.
//
// It has no liveness probe. etcd ends by itself when it cannot go on; a member that merely stands still, in
// a disk stall say, loses its leadership by itself, and restarting it would add a replay of its log to its
// trouble, behind the back of a rollout that counts on it. It has no startup probe either, which would only
// hold back a liveness probe: until the readiness probe passes nothing counts on the member, however long it
// replays its log or catches up.
func etcdContainer(in Input) (*corev1ac.ContainerApplyConfiguration, error) {
	resources := corev1ac.ResourceRequirements()
	if err := convert(etcdResources(in.Etcd), resources); err != nil {
		return nil, err
	}
	return container(v1alpha1.ContainerEtcd, etcdImage(in)).
		WithCommand("etcd", "--config-file="+member.ConfigFile).
		WithPorts(
			containerPort(clientPortName, clientPort(in.Etcd)),
			containerPort(peerPortName, peerPort(in.Etcd)),
			containerPort(metricsPortName, metricsPort(in.Etcd))).
		WithReadinessProbe(readinessProbe()).
		WithResources(resources).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(configVolume).WithMountPath(member.ConfigDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(claimName(in.Etcd)).WithMountPath(member.VolumeDir)).
		WithVolumeMounts(mounts(etcdCertificates(in))...), nil
}

// readinessProbe asks for a linearizable read: a member that passes participates in the quorum. The values
// are those of kubeadm's etcd, but for a shorter timeout.
func readinessProbe() *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/readyz").WithPort(intstr.FromString(metricsPortName))).
		WithPeriodSeconds(1).
		WithTimeoutSeconds(5).
		WithFailureThreshold(3)
}

// etcdResources are requests that carry a small control plane, and no limits: a throttled member misses
// heartbeats, and one that is killed for its memory is killed at its worst moment.
func etcdResources(etcd *v1alpha1.Etcd) corev1.ResourceRequirements {
	if etcd.Spec.Etcd.Resources != nil {
		return *etcd.Spec.Etcd.Resources
	}
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("500m"),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}
