// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"encoding/json"
	"fmt"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// jobOf returns a Job as the operator creates it.
func jobOf(etcd *v1alpha1.Etcd) *batchv1.Job {
	j, err := job.Build(job.Spec{Owner: job.OfEtcd(etcd), Component: v1alpha1.ComponentSurveyJob, Image: "agent:v1", Claim: "main-main-0", ClaimDir: "/data", WorkDir: true})
	if err != nil {
		panic(err)
	}
	return j
}

// setOf returns a StatefulSet as the operator creates it.
func setOf(etcd *v1alpha1.Etcd) *appsv1.StatefulSet {
	objects, err := component.Objects(component.Input{
		Etcd: etcd, Images: configv1alpha1.Images{Etcd: "etcd:v3.6.8", EtcdAgent: "agent:v1"}, Replicas: 3, Capacity: resource.MustParse("1Gi"),
		Retention: v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesRetained, WhenScaled: v1alpha1.VolumesRetained},
		Strategy:  appsv1.OnDeleteStatefulSetStrategyType,
	})
	if err != nil {
		panic(err)
	}
	data, err := json.Marshal(objects[len(objects)-1])
	if err != nil {
		panic(err)
	}
	set := &appsv1.StatefulSet{}
	if err := json.Unmarshal(data, set); err != nil || set.Kind != "StatefulSet" {
		panic(fmt.Sprint("the last object is no StatefulSet: ", set.Kind, err))
	}
	return set
}

func owned(etcd *v1alpha1.Etcd, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: etcd.Namespace, Name: name,
		Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}
}

// Templates that an operator would refuse to write, whatever they are in.
var (
	templates = map[string]func(*corev1.PodSpec){
		"host network":   func(p *corev1.PodSpec) { p.HostNetwork = true },
		"host processes": func(p *corev1.PodSpec) { p.HostPID = true },
		"host IPC":       func(p *corev1.PodSpec) { p.HostIPC = true },
		"a node by name": func(p *corev1.PodSpec) { p.NodeName = "control-plane" },
		"a host path":    func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, hostPath()) },
		"NFS":            func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, nfs()) },
		"root":           func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"user 0":         func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = ptr.To(int64(0)) },
		"no seccomp":     func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
		"a sysctl": func(p *corev1.PodSpec) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
		},
		"privileged": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		},
		"no context": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = nil },
		"a capability": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		},
		"all capabilities":  func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities.Drop = nil },
		"container as root": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsUser = ptr.To(int64(0)) },
		"a host port": func(p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{Name: "x", ContainerPort: 443, HostPort: 443}}
		},
		"another container": func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "x", Image: "x", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}})
		},
		"init container": func(p *corev1.PodSpec) {
			p.InitContainers = append(p.InitContainers, corev1.Container{Name: "x", Image: "x", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}})
		},
	}
	whyNoTemplate = map[string]string{
		"host network": "namespaces or devices of their node", "host processes": "namespaces or devices of their node", "host IPC": "namespaces or devices of their node",
		"a node by name": "namespaces or devices of their node", "a host path": "nothing of their node", "NFS": "nothing of their node",
		"root": "another user than root", "user 0": "another user than root", "no seccomp": "another user than root", "a sysctl": "another user than root",
		"privileged": "are not privileged", "no context": "are not privileged", "a capability": "are not privileged", "all capabilities": "are not privileged",
		"container as root": "are not privileged", "a host port": "no port of their node", "another container": "are not privileged", "init container": "are not privileged",
	}
)

func hostPath() corev1.Volume {
	return corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
}

func nfs() corev1.Volume {
	return corev1.Volume{Name: "nfs", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "a", Path: "/"}}}
}

func token() corev1.Volume {
	return corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}}
}
