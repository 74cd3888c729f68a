// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumes,verbs=get;list;watch

// CacheOptions returns what the operator caches: the objects of Etcds, including those of etcd-druid, and of tasks, nodes and
// volumes what decisions need; in the given namespaces, or in all if there are none. Nodes, volumes and claims are not selected by
// label: a claim may be older than its Etcd.
func CacheOptions(namespaces ...string) (cache.Options, error) {
	managed, err := labels.NewRequirement(v1alpha1.LabelManagedBy, selection.In, []string{v1alpha1.ManagedBy, v1alpha1.ManagedByDruid})
	if err != nil {
		return cache.Options{}, fmt.Errorf("building a label selector: %w", err)
	}
	ours := func(transform toolscache.TransformFunc) cache.ByObject {
		return cache.ByObject{Label: labels.NewSelector().Add(*managed), Transform: transform}
	}
	// One for each kind: a tenant who fills that of the claims does not fill that of the pods.
	pods, sets, claims, volumes := &pool{}, &pool{}, &pool{}, &pool{}
	// What has the name of its Etcd in it is common to those of the same name in many namespaces.
	named := &pool{}
	options := cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:                   ours(keep(pods.pods(trimmedPod))),
		&appsv1.StatefulSet{}:           ours(keep(sets.sets(keptSet))),
		&corev1.ConfigMap{}:             ours(bounded[corev1.ConfigMap]("ConfigMap", maxObject)),
		&corev1.Service{}:               ours(bounded[corev1.Service]("Service", maxObject)),
		&corev1.ServiceAccount{}:        ours(bounded[corev1.ServiceAccount]("ServiceAccount", maxObject)),
		&rbacv1.Role{}:                  ours(bounded[rbacv1.Role]("Role", maxObject)),
		&rbacv1.RoleBinding{}:           ours(bounded[rbacv1.RoleBinding]("RoleBinding", maxObject)),
		&policyv1.PodDisruptionBudget{}: ours(bounded[policyv1.PodDisruptionBudget]("PodDisruptionBudget", maxObject)),
		&coordinationv1.Lease{}:         ours(keep(keptLease)),
		&v1alpha1.Etcd{}:                {Transform: keep(trimmedEtcd)},
		&v1alpha1.EtcdOperatorTask{}:    {Transform: keep(trimmedTask)},
		&corev1.Node{}:                  {Transform: keep(trimmedNode)},
		&corev1.Namespace{}:             {Transform: keep(trimmedNamespace)},
		&corev1.PersistentVolume{}:      {Transform: keep(volumes.volumes(trimmedVolume))},
		&corev1.PersistentVolumeClaim{}: {Transform: keep(claims.claims(trimmedClaim))},
	}}
	owners := &owners{}
	for object, by := range options.ByObject {
		by.Transform = owners.after(named.named(by.Transform))
		options.ByObject[object] = by
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options, nil
}

// keep makes a cache transform from a function that returns the part of an object to keep.
func keep[T client.Object](trim func(T) T) toolscache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(T)
		if !ok {
			// It is the tombstone of a deleted object.
			return object, nil
		}
		kept := trim(o)
		kept.SetManagedFields(nil)
		share(kept)
		return kept, nil
	}
}

// trimmedPod drops what a pod has from its template, which is most of it, and unused status.
func trimmedPod(p *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: corev1.PodStatus{
		Phase: p.Status.Phase, Reason: cut(p.Status.Reason, maxValue), Message: cut(p.Status.Message, maxValue), PodIP: p.Status.PodIP, Conditions: trimmedConditions(p.Status.Conditions),
		InitContainerStatuses: boundedContainers(p.Status.InitContainerStatuses), ContainerStatuses: boundedContainers(p.Status.ContainerStatuses),
	}}
	kept.Labels, kept.Annotations = boundedLabels(p.Labels), boundedAnnotations(p.Annotations)
	kept.Finalizers, kept.OwnerReferences = few(p.Finalizers), boundedOwners(p.OwnerReferences)
	for _, c := range p.Spec.Containers {
		switch c.Name {
		case v1alpha1.ContainerEtcd:
			etcd := corev1.Container{Name: c.Name, Image: cut(c.Image, maxValue), Ports: few(c.Ports)}
			if c.ReadinessProbe != nil {
				etcd.ReadinessProbe = probed
			}
			kept.Spec.Containers = append(kept.Spec.Containers, etcd)
		case v1alpha1.ContainerBackupRestore:
			kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Image: cut(c.Image, maxValue)})
		}
	}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			kept.Spec.Volumes = append(kept.Spec.Volumes, v)
		case observe.IsServerTLSVolume(v.Name):
			// The name shows how to reach a member of etcd-druid.
			kept.Spec.Volumes = append(kept.Spec.Volumes, corev1.Volume{Name: v.Name})
		}
	}
	// The StatefulSet controller puts claims first.
	kept.Spec.Volumes = few(kept.Spec.Volumes)
	return kept
}

// probed stands for any readiness probe of a container.
var probed = &corev1.Probe{}

// trimmedConditions keeps the conditions that package observe reads.
func trimmedConditions(all []corev1.PodCondition) []corev1.PodCondition {
	kept := slices.DeleteFunc(slices.Clone(all), func(c corev1.PodCondition) bool {
		return c.Type != corev1.PodReady && c.Type != corev1.PodScheduled && c.Type != corev1.DisruptionTarget
	})
	if len(kept) == 0 {
		return nil
	}
	// A copy of the right size.
	kept = slices.Clone(kept)
	for i := range kept {
		kept[i].Message = cut(kept[i].Message, maxValue)
	}
	return kept
}

func trimmedMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Annotations = nil
	return m
}

func trimmedNode(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: trimmedMeta(n.ObjectMeta), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			// The heartbeat is not used.
			kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return kept
}

// trimmedNamespace keeps the labels, by which a policy of the fleet selects.
func trimmedNamespace(n *corev1.Namespace) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: trimmedMeta(n.ObjectMeta)}
}

func trimmedVolume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	kept := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: v.Name, UID: v.UID, ResourceVersion: v.ResourceVersion},
		Spec:       corev1.PersistentVolumeSpec{NodeAffinity: v.Spec.NodeAffinity},
	}
	if c := v.Spec.ClaimRef; c != nil {
		kept.Spec.ClaimRef = &corev1.ObjectReference{UID: c.UID}
	}
	return kept
}

// trimmedClaim keeps whose a claim is, and its volume. All claims are cached, also those of pods that have nothing to do with an Etcd: of one
// without an ordinal at the end of its name, which no member can have as its data, that is all.
func trimmedClaim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	kept := &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: c.Spec.VolumeName}, Status: corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase},
	}
	copyIdentity(kept, c)
	kept.Annotations = selected(c.Annotations, v1alpha1.AnnotationAdoptedBy, v1alpha1.AnnotationTemporary)
	if !ofAnOrdinal.MatchString(c.Name) {
		return kept
	}
	kept.OwnerReferences = boundedOwners(c.OwnerReferences)
	kept.Spec.StorageClassName, kept.Spec.VolumeMode = c.Spec.StorageClassName, c.Spec.VolumeMode
	kept.Spec.AccessModes = few(c.Spec.AccessModes)
	if c.Spec.DataSource != nil || c.Spec.DataSourceRef != nil {
		kept.Spec.DataSource = sourced
	}
	if asked, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		kept.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: asked}
	}
	kept.Status = c.Status
	if equality.Semantic.DeepEqual(kept.Spec.Resources.Requests, kept.Status.Capacity) {
		// Most volumes are as large as they were requested. A map of one entry takes more than half a kilobyte.
		kept.Status.Capacity = kept.Spec.Resources.Requests
	}
	return kept
}

// ofAnOrdinal matches the names that a StatefulSet gives to claims.
var ofAnOrdinal = regexp.MustCompile(`-[0-9]+$`)

// sourced stands for any other volume or snapshot from which a claim gets its content.
var sourced = &corev1.TypedLocalObjectReference{}

// trimmedEtcd leaves out what kubectl keeps in it of the manifest, which is as large as the spec and is for kubectl alone, and the room that
// the decoder left for more conditions. The operator only patches Etcds.
func trimmedEtcd(e *v1alpha1.Etcd) *v1alpha1.Etcd {
	kept := *e
	if _, applied := e.Annotations[corev1.LastAppliedConfigAnnotation]; applied {
		kept.Annotations = maps.Clone(e.Annotations)
		delete(kept.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	kept.Status.Conditions, kept.Status.Members = slices.Clone(e.Status.Conditions), slices.Clone(e.Status.Members)
	return &kept
}

// trimmedTask leaves out the configs of a task that has ended, which are not read again, and the metadata that its creator alone reads: there may be
// more than a megabyte of it in each. Of a type that only a newer operator knows, the config in the status says that it was started.
func trimmedTask(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	kept := *t
	kept.Labels, kept.Annotations = boundedLabels(t.Labels), selected(t.Annotations, v1alpha1.AnnotationBypassFleet)
	kept.Finalizers, kept.OwnerReferences = few(t.Finalizers), ownersOfTask(t.OwnerReferences, t.Spec.OwnerEtcdReference.Name)
	if t.Status.State.IsFinal() {
		kept.Spec.Config = ""
		if t.Spec.Type.Known() {
			kept.Status.Config = ""
		}
	}
	return &kept
}
