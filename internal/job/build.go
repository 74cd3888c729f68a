// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package job builds the Jobs in which the agent works for a task or for an Etcd, and judges their state. It knows no task
// types.
package job

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

const (
	// containerName of the agent in a Job.
	containerName = "agent"
	// nonroot is the user and group of distroless images.
	nonroot = 65532
	// backoffLimit is how many pods are retried: what the agent does is idempotent.
	backoffLimit = 2
	// maxNameLength leaves room for the suffix of the Job's pods.
	maxNameLength = 50
	// claimVolume is the volume of a member.
	claimVolume = "member"
	// workVolume and workDir are where the agent keeps a database while it works on it.
	workVolume = "work"
	workDir    = "/var/etcd/work"
)

// Owner is the object that a Job works for, and is garbage collected with.
type Owner struct {
	Object metav1.Object
	Kind   schema.GroupVersionKind
	// Etcd is the name of the Etcd; of an EtcdCopyBackupsTask, which has none, it is its own name.
	Etcd string
}

// OfTask returns the Owner of a Job that works for a task.
func OfTask(t *v1alpha1.EtcdOperatorTask) Owner {
	return Owner{t, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdOperatorTask), t.Spec.OwnerEtcdReference.Name}
}

// OfEtcd returns the Owner of a Job that works for an Etcd.
func OfEtcd(e *v1alpha1.Etcd) Owner {
	return Owner{e, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd), e.Name}
}

// OfCopyBackupsTask returns the Owner of a Job that works for an EtcdCopyBackupsTask.
func OfCopyBackupsTask(t *v1alpha1.EtcdCopyBackupsTask) Owner {
	return Owner{t, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdCopyBackupsTask), t.Name}
}

// Spec is the input of Build.
type Spec struct {
	Owner Owner
	// Name of the Job; by default Name of the owner.
	Name string
	// Subject distinguishes successive Jobs of one name and owner; empty if there are none.
	Subject string
	// Component is the value of the label of that name.
	Component string
	// PodLabels are further labels of the pods, which do not replace those of Build.
	PodLabels map[string]string
	Image     string
	// Args of the agent, starting with the verb. Build adds the flags of the Stores.
	Args   []string
	Stores []storeaccess.Access
	// Env has variables for the agent, which an earlier version of it ignores; it would not start with an unknown flag.
	Env []corev1.EnvVar
	// Claim is the name of a PersistentVolumeClaim that the agent may read in the folder ClaimDir; empty for none.
	Claim, ClaimDir string
	// WorkDir gives the agent a folder to write to, and the flag --work-dir.
	WorkDir bool
	// WorkLimit is how much the agent may write there before its pod is evicted; 0 for no limit. See the function of that name.
	WorkLimit resource.Quantity
	// Timeout after which the Job is stopped; 0 for none.
	Timeout time.Duration
	// Database is the Etcd whose database the agent opens; nil if it only streams objects.
	Database *v1alpha1.Etcd
	// Resources of the agent, as far as they differ from the defaults: see resources.
	Resources *corev1.ResourceRequirements
}

// Name returns the name of the Job of an owner: stable, and unique to the owner.
func Name(owner metav1.Object) string {
	// A DNS label starts and ends with a letter or a digit.
	name := strings.TrimRight(fmt.Sprintf("%.*s", maxNameLength, owner.GetName()), ".-")
	return fmt.Sprintf("%s-%s", name, ownership.Suffix(owner.GetUID()))
}

// Build makes a Job. It is pure.
func Build(s Spec) (*batchv1.Job, error) {
	container := corev1.Container{
		Name: containerName, Image: s.Image, Command: []string{"/etcd-agent"}, Args: s.Args,
		// The agent writes its result to its termination message.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources:                s.resources(),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	container.Env = append([]corev1.EnvVar{softMemoryLimit(container.Resources)}, s.Env...)
	var volumes []corev1.Volume
	for _, store := range s.Stores {
		volume, mount, err := plain(store)
		if err != nil {
			return nil, err
		}
		container.Args = append(container.Args, store.Args...)
		if store.Volume != nil {
			container.VolumeMounts = append(container.VolumeMounts, mount)
			volumes = append(volumes, volume)
		}
	}
	if s.Claim != "" {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: claimVolume, MountPath: s.ClaimDir, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: claimVolume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: s.Claim}}})
	}
	if s.WorkDir {
		var limit *resource.Quantity
		if !s.WorkLimit.IsZero() {
			limit = &s.WorkLimit
		}
		container.Args = append(container.Args, "--work-dir="+workDir)
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: workVolume, MountPath: workDir})
		volumes = append(volumes, corev1.Volume{Name: workVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}}})
	}
	object := s.objectMeta()
	return &batchv1.Job{
		ObjectMeta: object,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(int32(backoffLimit)), ActiveDeadlineSeconds: s.deadline(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: s.podLabels(object.Labels), Annotations: map[string]string{v1alpha1.AnnotationSafeToEvict: "false"}},
				Spec:       podSpec(container, volumes),
			},
		},
	}, nil
}

func podSpec(container corev1.Container, volumes []corev1.Volume) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container}, Volumes: volumes,
		AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(nonroot)), RunAsGroup: ptr.To(int64(nonroot)), FSGroup: ptr.To(int64(nonroot)),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

func (s Spec) deadline() *int64 {
	if s.Timeout == 0 {
		return nil
	}
	return ptr.To(int64(s.Timeout.Seconds()))
}

// podLabels returns the labels of the pod: those of the spec and of the Job, and those that permit traffic to its stores.
func (s Spec) podLabels(of map[string]string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.PodLabels)
	maps.Copy(labels, of)
	if len(s.Stores) > 0 {
		for _, network := range []string{v1alpha1.LabelNetworkDNS, v1alpha1.LabelNetworkPublic, v1alpha1.LabelNetworkPrivate} {
			labels[network] = v1alpha1.NetworkAllowed
		}
	}
	return labels
}

func (s Spec) objectMeta() metav1.ObjectMeta {
	o := metav1.ObjectMeta{
		Namespace: s.Owner.Object.GetNamespace(), Name: cmp.Or(s.Name, Name(s.Owner.Object)),
		Labels: map[string]string{
			v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: s.Owner.Etcd, v1alpha1.LabelComponent: s.Component,
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.Owner.Object, s.Owner.Kind)},
	}
	if s.Subject != "" {
		o.Annotations = map[string]string{v1alpha1.AnnotationJobSubject: s.Subject}
	}
	return o
}

// plain converts the volume and the mount of a store from apply configurations.
func plain(store storeaccess.Access) (volume corev1.Volume, mount corev1.VolumeMount, err error) {
	if store.Volume == nil {
		return volume, mount, nil
	}
	for _, convert := range []struct{ from, into any }{{store.Volume, &volume}, {store.Mount, &mount}} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(convert.from)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, convert.into)
		}
		if err != nil {
			return volume, mount, fmt.Errorf("converting a %T: %w", convert.from, err)
		}
	}
	return volume, mount, nil
}
