// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// etcdContainer runs etcd, with its upstream image.
//
// It has no liveness probe: etcd exits on its own if it cannot continue. A member that merely stalls, on a slow disk for
// example, loses its leadership by itself; a restart would add a replay of its log, unnoticed by a rollout that counts on
// it. Without a liveness probe there is no need for a startup probe: until the readiness probe passes, nothing counts on
// the member.
func etcdContainer(in Input) (*corev1ac.ContainerApplyConfiguration, error) {
	resources := corev1ac.ResourceRequirements()
	if err := convert(etcdResources(in.Etcd), resources); err != nil {
		return nil, err
	}
	return container(v1alpha1.ContainerEtcd, in.Etcd.EtcdImage(in.Images.Etcd)).
		WithCommand("etcd", "--config-file="+member.ConfigFile).
		WithPorts(
			containerPort(clientPortName, in.Etcd.ClientPort()),
			containerPort(peerPortName, peerPort(in.Etcd)),
			containerPort(metricsPortName, metricsPort(in.Etcd))).
		WithReadinessProbe(readinessProbe()).
		WithResources(resources).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(configVolume).WithMountPath(member.ConfigDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(in.Etcd.ClaimTemplateName()).WithMountPath(member.VolumeDir)).
		WithVolumeMounts(mounts(etcdCertificates(in))...), nil
}

// readinessProbe requires a linearizable read: a member that passes participates in the quorum. The values are those of
// kubeadm's etcd, except for a shorter timeout.
func readinessProbe() *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/readyz").WithPort(intstr.FromString(metricsPortName))).
		WithPeriodSeconds(1).
		WithTimeoutSeconds(5).
		WithFailureThreshold(3)
}

// etcdResources are by default requests for a small control plane, and no limits: a throttled member misses heartbeats, and
// an OOM kill comes at the worst moment.
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
