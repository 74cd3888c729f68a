// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
)

// Names of the volumes of a member's pod, in addition to the claim's.
const (
	sharedVolume = "shared-config"
	configVolume = "member-config"
	accessVolume = "api-access"
)

// nonroot is the user and group of distroless images. The upstream image of etcd names no user of its own.
const nonroot = 65532

// terminationGracePeriod, in seconds, gives a leader time to hand over leadership and close its database.
const terminationGracePeriod = 30

func podTemplate(in Input) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	etcd := in.Etcd
	config, err := sharedConfig(in)
	if err != nil {
		return nil, err
	}
	container, err := etcdContainer(in)
	if err != nil {
		return nil, err
	}
	backups, err := backupAccess(in.Etcd)
	if err != nil {
		return nil, err
	}
	agent, err := agentContainer(in, backups)
	if err != nil {
		return nil, err
	}
	spec := podSpec(in).WithInitContainers(prepareContainer(in, backups)).WithContainers(container, agent).WithVolumes(backups.volumes()...)
	if class := ptr.Deref(etcd.Spec.PriorityClassName, ""); class != "" {
		spec.WithPriorityClassName(class)
	}
	if err := schedule(spec, in); err != nil {
		return nil, err
	}
	return corev1ac.PodTemplateSpec().
		WithLabels(over(etcd.Spec.Labels, in.podLabels())).
		WithAnnotations(over(confined(etcd.Spec.Annotations), map[string]string{
			v1alpha1.AnnotationConfigChecksum: checksum(config + clientURLs(etcd)),
			// The volume holds what the init container renders; losing it costs nothing.
			v1alpha1.AnnotationSafeToEvictVolumes: configVolume,
		})).
		WithAnnotations(tlsAnnotations(in)).
		WithSpec(spec), nil
}

// confined leaves out annotations that switch off AppArmor for a container: the Pod Security Standard restricted forbids it.
func confined(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	maps.DeleteFunc(kept, func(key, profile string) bool {
		return strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && profile == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	})
	return kept
}

// podSpec returns the spec of a member's pod without its containers, and without the volumes for stores and keys.
func podSpec(in Input) *corev1ac.PodSpecApplyConfiguration {
	return corev1ac.PodSpec().
		WithVolumes(
			corev1ac.Volume().WithName(sharedVolume).WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(in.Etcd.ConfigMapName(in.Manager))),
			corev1ac.Volume().WithName(configVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
			access()).
		WithVolumes(certificateVolumes(in)...).
		WithServiceAccountName(in.Etcd.Name).
		WithTerminationGracePeriodSeconds(terminationGracePeriod).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(nonroot).WithRunAsGroup(nonroot).
			WithFSGroup(nonroot).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault)))
}

// schedule applies the user's constraints; without any, members prefer nodes without another member.
func schedule(spec *corev1ac.PodSpecApplyConfiguration, in Input) error {
	constraints := in.Etcd.Spec.SchedulingConstraints
	if constraints.Affinity == nil && len(constraints.TopologySpreadConstraints) == 0 {
		spec.WithAffinity(corev1ac.Affinity().WithPodAntiAffinity(corev1ac.PodAntiAffinity().
			WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.WeightedPodAffinityTerm().
				WithWeight(100).
				WithPodAffinityTerm(corev1ac.PodAffinityTerm().
					WithTopologyKey(corev1.LabelHostname).
					WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(MemberSelector(in.Etcd.Name, in.podsManagedBy())))))))
		return nil
	}
	return convert(struct {
		Affinity                  *corev1.Affinity                  `json:"affinity,omitempty"`
		TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	}{constraints.Affinity, constraints.TopologySpreadConstraints}, spec)
}

// prepareContainer decides whether and how the member starts, and renders its configuration. It writes to the volume only to
// replace or restore the member.
func prepareContainer(in Input, backups backupAccesses) *corev1ac.ContainerApplyConfiguration {
	c := container(v1alpha1.InitContainerPrepare, agentImage(in)).
		WithCommand("/etcd-agent", "prepare").
		WithCommand(memberName(in.Etcd)...).
		WithEnv(podField(member.NameVariable, "metadata.name")).
		WithResources(corev1ac.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		})).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(sharedVolume).WithMountPath(member.SharedDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(configVolume).WithMountPath(member.ConfigDir),
			corev1ac.VolumeMount().WithName(in.Etcd.ClaimTemplateName()).WithMountPath(member.VolumeDir)).
		WithVolumeMounts(mounts(agentCertificates(in))...)
	store, keys := backups.store, backups.keys
	if store != nil {
		c.WithCommand(store.Args...).WithVolumeMounts(store.Mounts()...)
	}
	if keys != nil {
		c.WithCommand(keys.Args...).WithVolumeMounts(keys.Mount)
	}
	if store != nil {
		// A restore compares the store with the leases, which record the newest snapshots.
		c.WithCommand(snapshotLeases(in.Etcd)...).
			WithEnv(podField(member.NamespaceVariable, "metadata.namespace")).
			WithVolumeMounts(corev1ac.VolumeMount().WithName(accessVolume).WithMountPath(accessDir).WithReadOnly(true))
	}
	if encryption := backups.encryption; encryption != nil {
		c.WithCommand(encryption.Args...).WithVolumeMounts(encryption.Mounts()...)
	}
	return c
}

// memberName returns the flag with the name of the member if that differs from the name of the pod. The kubelet expands the
// variable.
func memberName(etcd *v1alpha1.Etcd) []string {
	const pod = "$(" + member.NameVariable + ")"
	if name := etcd.MemberName(pod); name != pod {
		return []string{"--name=" + name}
	}
	return nil
}

// container returns what all containers of a member's pod have in common.
func container(name, image string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
}

// convert converts an API value into the apply configuration with the same JSON.
func convert(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("converting a %T: %w", from, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("converting a %T: %w", from, err)
	}
	return nil
}

// backupAccesses is how the pods of an Etcd use its store, and the keys of its snapshots; nil for what the spec does not have.
type backupAccesses struct{ store, keys, encryption *storeaccess.Access }

func (b backupAccesses) volumes() (all []*corev1ac.VolumeApplyConfiguration) {
	for _, access := range []*storeaccess.Access{b.store, b.keys, b.encryption} {
		if access != nil && access.Volume != nil {
			all = append(all, access.Volume)
		}
	}
	return all
}

func backupAccess(etcd *v1alpha1.Etcd) (b backupAccesses, err error) {
	if store := etcd.BackupStore(); store != nil {
		access, err := storeaccess.Of(*store, etcd.Namespace, storeaccess.Main)
		if err != nil {
			return b, fmt.Errorf("spec.backup: %w", err)
		}
		b.store = &access
	}
	if b.keys, err = storeaccess.SigningKeys(etcd, storeaccess.Main); err != nil {
		return b, err
	}
	b.encryption, err = storeaccess.Encryption(etcd)
	return b, err
}
