// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"path"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// accessDir is where client-go expects the credentials of a pod.
const accessDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenLifetime is the kubelet's default, in seconds.
const tokenLifetime = 3607

// agentContainer runs the agent. It has no probes: a pod is ready if its member participates, and the kubelet restarts an
// agent that ends.
func agentContainer(in Input, backups backupAccesses) (*corev1ac.ContainerApplyConfiguration, error) {
	resources := corev1ac.ResourceRequirements()
	if err := convert(agentResources(in.Etcd), resources); err != nil {
		return nil, err
	}
	command := []string{"/etcd-agent", "serve", fmt.Sprintf("--listen=:%d", BackupPort(in.Etcd))}
	if d := in.Etcd.Spec.Etcd.HeartbeatDuration; d != nil {
		command = append(command, "--heartbeat="+d.Duration.String())
	}
	c := container(v1alpha1.ContainerBackupRestore, agentImage(in)).
		WithCommand(command...).
		WithCommand(memberName(in.Etcd)...).
		WithEnv(podField(member.NameVariable, "metadata.name"), podField(member.NamespaceVariable, "metadata.namespace")).
		WithEnv(corev1ac.EnvVar().WithName(member.TrustFileVariable).WithValue(path.Join(member.SharedDir, member.KeyAgentAPI))).
		WithPorts(containerPort(backupPortName, BackupPort(in.Etcd))).
		WithResources(resources).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(sharedVolume).WithMountPath(member.SharedDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(configVolume).WithMountPath(member.ConfigDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(in.Etcd.ClaimTemplateName()).WithMountPath(member.VolumeDir),
			corev1ac.VolumeMount().WithName(accessVolume).WithMountPath(accessDir).WithReadOnly(true)).
		WithVolumeMounts(mounts(agentCertificates(in))...).
		WithCommand(apiTLSArgs(in.Etcd)...).
		WithVolumeMounts(mounts(apiCertificates(in.Etcd))...)
	if store := backups.store; store != nil {
		if err := checkSchedule(in.Etcd); err != nil {
			return nil, err
		}
		c.WithCommand(store.Args...).WithCommand(snapshotArgs(in.Etcd)...).
			WithCommand(snapshotLeases(in.Etcd)...).
			WithVolumeMounts(store.Mounts()...)
	}
	for _, access := range []*storeaccess.Access{backups.keys, backups.encryption} {
		if access != nil {
			c.WithCommand(access.Args...).WithVolumeMounts(access.Mounts()...)
		}
	}
	return c, nil
}

// snapshotLeases returns the agent's flags for the leases that record the newest snapshots.
func snapshotLeases(etcd *v1alpha1.Etcd) []string {
	return []string{"--full-snapshot-lease=" + etcd.FullSnapshotLeaseName(), "--delta-snapshot-lease=" + etcd.DeltaSnapshotLeaseName()}
}

// agentResources are requests only. Snapshots are streamed.
func agentResources(etcd *v1alpha1.Etcd) corev1.ResourceRequirements {
	if b := etcd.Spec.Backup; b != nil && b.Resources != nil {
		return *b.Resources
	}
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}
}

func agentImage(in Input) string { return in.Etcd.AgentImage(in.Images.EtcdAgent) }

func podField(variable, field string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(variable).WithValueFrom(corev1ac.EnvVarSource().
		WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(field)))
}

// access is what the kubelet mounts into every container by default. etcd does not need it, so only the agents get it.
func access() *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(accessVolume).WithProjected(corev1ac.ProjectedVolumeSource().WithSources(
		corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
			WithPath(corev1.ServiceAccountTokenKey).WithExpirationSeconds(tokenLifetime)),
		corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().WithName("kube-root-ca.crt").
			WithItems(corev1ac.KeyToPath().WithKey(corev1.ServiceAccountRootCAKey).WithPath(corev1.ServiceAccountRootCAKey)))))
}

// BackupPort returns the port of the agent's HTTP API.
func BackupPort(etcd *v1alpha1.Etcd) int32 {
	if b := etcd.Spec.Backup; b != nil {
		return ptr.Deref(b.Port, defaultBackupPort)
	}
	return defaultBackupPort
}

const defaultBackupPort = 8080
