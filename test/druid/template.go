// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Names in the pods.
const (
	// PeerService is the headless Service of the members.
	PeerService = Name + "-peer"
	// ReadyPort is where etcd-wrapper reports readiness.
	ReadyPort = 9095
	// DataFolder is where the volume of a member is mounted.
	DataFolder = "/var/etcd/data"
	// The folders of the Secrets.
	CAFolder     = "/var/etcd/ssl/ca"
	ServerFolder = "/var/etcd/ssl/server"
	ClientFolder = "/var/etcd/ssl/client"
)

func template(labels map[string]string, checksum string, clientTLS bool) corev1.PodTemplateSpec {
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"checksum/etcd-configmap": checksum}},
		Spec: corev1.PodSpec{
			HostAliases:           []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{Name + "-local"}}},
			ShareProcessNamespace: ptr.To(true),
			ServiceAccountName:    Name,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: ptr.To(int64(65532)), RunAsGroup: ptr.To(int64(65532)), FSGroup: ptr.To(int64(65532)), RunAsNonRoot: ptr.To(true),
				FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
			},
			Containers: []corev1.Container{wrapper(), backupRestore()},
			Volumes:    []corev1.Volume{configuration()},
		},
	}
	if clientTLS {
		withTLS(&pod.Spec)
	} else {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--backup-restore-tls-enabled=false")
	}
	return pod
}

// withTLS has the members, and what is beside them, serve clients with TLS.
func withTLS(pod *corev1.PodSpec) {
	ca, client := corev1.VolumeMount{Name: "etcd-ca", MountPath: CAFolder}, corev1.VolumeMount{Name: "etcd-client-tls", MountPath: ClientFolder}
	etcd, backup := &pod.Containers[0], &pod.Containers[1]
	etcd.VolumeMounts = append(etcd.VolumeMounts, ca, corev1.VolumeMount{Name: "etcd-server-tls", MountPath: ServerFolder}, client,
		corev1.VolumeMount{Name: "backup-restore-ca", MountPath: "/var/etcdbr/ssl/ca"})
	etcd.Args = append(etcd.Args, "--backup-restore-tls-enabled=true", "--backup-restore-ca-cert-bundle-path=/var/etcdbr/ssl/ca/bundle.crt",
		"--etcd-client-cert-path="+ClientFolder+"/tls.crt", "--etcd-client-key-path="+ClientFolder+"/tls.key")
	etcd.ReadinessProbe.HTTPGet.Scheme = corev1.URISchemeHTTPS
	backup.VolumeMounts = append(backup.VolumeMounts, corev1.VolumeMount{Name: "backup-restore-server-tls", MountPath: "/var/etcdbr/ssl/server"}, ca, client)
	pod.Volumes = append(pod.Volumes, secret("etcd-ca", CASecret), secret("etcd-server-tls", ServerSecret), secret("etcd-client-tls", ClientSecret),
		secret("backup-restore-ca", CASecret), secret("backup-restore-server-tls", ServerSecret), secret("backup-restore-client-tls", ClientSecret))
}

// wrapper is the container of the member. It takes up to 40 seconds until its probe finds that a member hangs.
func wrapper() corev1.Container {
	return corev1.Container{
		Name: v1alpha1.ContainerEtcd, Image: "localhost/etcd-wrapper:v0.6.2", ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{
			"start-etcd", "--backup-restore-host-port=" + Name + "-local:8080", "--etcd-server-name=" + Name + "-local",
			"--etcd-client-port=2379", "--etcd-wrapper-port=9095",
		},
		Ports: []corev1.ContainerPort{{Name: "server", ContainerPort: 2380, Protocol: corev1.ProtocolTCP}, {Name: "client", ContainerPort: 2379, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(ReadyPort), Scheme: corev1.URISchemeHTTP}},
			InitialDelaySeconds: 15, PeriodSeconds: 5, FailureThreshold: 5,
		},
		Resources:       requests(),
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)},
		VolumeMounts:    []corev1.VolumeMount{{Name: Name, MountPath: DataFolder}},
	}
}

func backupRestore() corev1.Container {
	return corev1.Container{
		Name: "backup-restore", Image: "localhost/etcdbrctl:v0.41.2", ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{"server", "--server-port=8080", "--data-dir=" + DataFolder + "/new.etcd", "--use-etcd-wrapper=true"},
		Ports:           []corev1.ContainerPort{{Name: "server", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Resources:       requests(),
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)},
		VolumeMounts:    []corev1.VolumeMount{{Name: Name, MountPath: DataFolder}, {Name: configurationVolume, MountPath: "/var/etcd/config"}},
	}
}

func requests() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")}}
}

func secret(volume, name string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: ptr.To(int32(0o640))}}}
}

// configurationVolume has etcd's configuration, which etcd-wrapper gets from etcd-backup-restore.
const configurationVolume = "etcd-config-file"

func configuration() corev1.Volume {
	return corev1.Volume{Name: configurationVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: Name + "-config"}, DefaultMode: ptr.To(int32(0o640)),
		Items: []corev1.KeyToPath{{Key: "etcd.conf.yaml", Path: "etcd.conf.yaml"}},
	}}}
}

func claim(capacity string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}},
		},
	}
}
