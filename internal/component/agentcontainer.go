// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// accessDir is where client-go looks for the credentials of a pod.
const accessDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenLifetime is that of the token that the kubelet mounts where a pod does not say otherwise.
const tokenLifetime = 3607

// agentContainer looks after the member. It has no probes: a pod is ready when its member participates, and an
// agent that ends is started again.
func agentContainer(in Input) *corev1ac.ContainerApplyConfiguration {
	command := []string{"/etcd-agent", "serve", fmt.Sprintf("--listen=:%d", backupPort(in.Etcd))}
	if d := in.Etcd.Spec.Etcd.HeartbeatDuration; d != nil {
		command = append(command, "--heartbeat="+d.Duration.String())
	}
	return container(v1alpha1.ContainerBackupRestore, in.Images.EtcdAgent).
		WithCommand(command...).
		WithEnv(podField(member.NameVariable, "metadata.name"), podField(member.NamespaceVariable, "metadata.namespace")).
		WithPorts(containerPort(backupPortName, backupPort(in.Etcd))).
		WithResources(corev1ac.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		})).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(sharedVolume).WithMountPath(member.SharedDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(claimName(in.Etcd)).WithMountPath(member.VolumeDir),
			corev1ac.VolumeMount().WithName(accessVolume).WithMountPath(accessDir).WithReadOnly(true)).
		WithVolumeMounts(mounts(agentCertificates(in))...)
}

func podField(variable, field string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(variable).WithValueFrom(corev1ac.EnvVarSource().
		WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(field)))
}

// access is what the kubelet mounts into every container of a pod that does not say otherwise. etcd has no use
// for it, and so it does not get it.
func access() *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(accessVolume).WithProjected(corev1ac.ProjectedVolumeSource().WithSources(
		corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
			WithPath(corev1.ServiceAccountTokenKey).WithExpirationSeconds(tokenLifetime)),
		corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().WithName("kube-root-ca.crt").
			WithItems(corev1ac.KeyToPath().WithKey(corev1.ServiceAccountRootCAKey).WithPath(corev1.ServiceAccountRootCAKey)))))
}

// backupPort is the agent's.
func backupPort(_ *v1alpha1.Etcd) int32 { return 8080 }
