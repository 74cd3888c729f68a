// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds of what the cache keeps of an object, in bytes. A user who may create objects in a namespace can give them the
// operator's labels, and an owner reference to an Etcd.
const (
	// maxObject is far more than an object of an Etcd has, with the labels and annotations of others.
	maxObject = 64 << 10
	// maxLease is less: the names of member leases follow from the spec, so there may be any number that look like one.
	maxLease = 4 << 10
	// maxLabels bounds the labels of a pod. Of more, those are kept that are read.
	maxLabels = 4 << 10
	// maxMark bounds the record of an in-place update of a pod.
	maxMark = 16 << 10
	// maxMessage bounds what is kept of what a container of a member says at its end. The kubelet cuts it there, too.
	maxMessage = 4 << 10
	// maxValue bounds what is kept of an object that is not kept whole.
	maxValue = 1 << 10
	// maxNames bounds lists of finalizers, owners, ports and volumes. What belongs to an Etcd has fewer.
	maxNames = 8
)

// The labels and annotations of a pod that the operator reads through the cache.
var (
	readLabels = []string{
		v1alpha1.LabelManagedBy, v1alpha1.LabelPartOf, v1alpha1.LabelComponent, v1alpha1.LabelName, v1alpha1.LabelCreatedBy, appsv1.StatefulSetRevisionLabel,
	}
	readAnnotations = []string{
		v1alpha1.AnnotationCAChecksum, v1alpha1.AnnotationClientTLS, v1alpha1.AnnotationPeerTLS, v1alpha1.AnnotationConfigChecksum,
	}
)

// sized is an object that knows its size.
type sized[T any] interface {
	*T
	client.Object
	Size() int
}

// bounded keeps the objects that Etcds need, up to a size in bytes. Of all others it keeps whose they are.
func bounded[T any, P sized[T]](kind string, most int) toolscache.TransformFunc {
	return keep(func(o P) P {
		if o.SetManagedFields(nil); o.Size() <= most && needed(kind, o) {
			return o
		}
		identity := P(new(T))
		copyIdentity(identity, o)
		return identity
	})
}

// keptLease keeps the Lease of an Etcd: of one that others have annotated at length, only what the operator reads of it. A text is cut,
// not left out, so that an error of a snapshot stays an error.
func keptLease(l *coordinationv1.Lease) *coordinationv1.Lease {
	if l.SetManagedFields(nil); l.Size() <= maxLease && needed("Lease", l) {
		return l
	}
	identity := &coordinationv1.Lease{}
	copyIdentity(identity, l)
	if !needed("Lease", l) || l.Spec.Size() > maxValue {
		return identity
	}
	l.Spec.DeepCopyInto(&identity.Spec)
	for _, key := range []string{v1alpha1.AnnotationBackupError, v1alpha1.AnnotationBackupsCurrent, v1alpha1.AnnotationBackupOfRecovered, v1alpha1.AnnotationRestorable, v1alpha1.AnnotationUndecryptable} {
		if value, ok := l.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&identity.ObjectMeta, key, cut(value, maxValue))
		}
	}
	return identity
}

// needed reports whether an Etcd controls an object and needs one of its kind and name.
func needed(kind string, o metav1.Object) bool {
	by := metav1.GetControllerOfNoCopy(o)
	if by == nil || by.Kind != v1alpha1.KindEtcd {
		return false
	}
	gv, err := schema.ParseGroupVersion(by.APIVersion)
	return err == nil && gv.Group == v1alpha1.GroupVersion.Group && component.Needs(by.Name, kind, o.GetName())
}

// copyIdentity copies which object it is, and whose.
func copyIdentity(to, from metav1.Object) {
	to.SetNamespace(from.GetNamespace())
	to.SetName(from.GetName())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetGeneration(from.GetGeneration())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetLabels(selected(from.GetLabels(), v1alpha1.LabelManagedBy, v1alpha1.LabelPartOf, v1alpha1.LabelComponent, v1alpha1.LabelName, v1alpha1.LabelCreatedBy))
	to.SetAnnotations(selected(from.GetAnnotations(), v1alpha1.AnnotationAdoptedBy, v1alpha1.AnnotationAppliedChecksum, v1alpha1.AnnotationPeerTLS))
	if by := metav1.GetControllerOfNoCopy(from); by != nil && by.Size() <= maxValue {
		to.SetOwnerReferences([]metav1.OwnerReference{*by})
	}
}

// selected returns some of the labels or annotations of an object.
func selected(all map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok && len(value) <= maxValue {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// boundedLabels returns the labels of a pod, by any of which a StatefulSet may select, and of too many only those that are read.
func boundedLabels(all map[string]string) map[string]string {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	if size <= maxLabels {
		return all
	}
	return selected(all, readLabels...)
}

// boundedAnnotations returns the annotations of a pod that are read.
func boundedAnnotations(all map[string]string) map[string]string {
	kept := selected(all, readAnnotations...)
	if mark, ok := all[v1alpha1.AnnotationInPlaceUpdate]; ok && len(mark) <= maxMark {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[v1alpha1.AnnotationInPlaceUpdate] = mark
	}
	return kept
}

// boundedContainers keeps the containers that the operator knows, wherever they are, and the first of the others. One that is not ready
// keeps its pod from being ready, so one of these stays.
func boundedContainers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	others, unready := 0, false
	for _, c := range all {
		most := maxMessage
		if c.Name != v1alpha1.ContainerEtcd && c.Name != v1alpha1.ContainerBackupRestore && c.Name != v1alpha1.InitContainerPrepare {
			if others++; others > maxNames && (c.Ready || unready) {
				continue
			}
			most, unready = maxValue/4, unready || !c.Ready
		}
		kept = append(kept, corev1.ContainerStatus{Name: c.Name, State: boundedState(c.State, most), LastTerminationState: boundedState(c.LastTerminationState, most), Ready: c.Ready})
	}
	return kept
}

// boundedState cuts what the kubelet says of a container.
func boundedState(s corev1.ContainerState, most int) corev1.ContainerState {
	if s.Waiting != nil && len(s.Waiting.Message) > most {
		waiting := *s.Waiting
		waiting.Message, s.Waiting = cut(waiting.Message, most), &waiting
	}
	if s.Terminated != nil && len(s.Terminated.Message) > most {
		ended := *s.Terminated
		ended.Message, s.Terminated = cut(ended.Message, most), &ended
	}
	return s
}

// cut returns the beginning of a long text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// few returns a list, and of a long one the beginning.
func few[T any](all []T) []T {
	if len(all) <= maxNames {
		return all
	}
	return slices.Clone(all[:maxNames])
}

// boundedOwners returns the owners of an object, and of many the first. That of a member has at most its StatefulSet and its pod.
func boundedOwners(all []metav1.OwnerReference) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, owner := range few(all) {
		if owner.Size() > maxValue {
			// It is no StatefulSet of a member, whose name is short.
			owner = metav1.OwnerReference{Kind: "an owner with a long name", UID: owner.UID}
		}
		kept = append(kept, owner)
	}
	return kept
}

// ownersOfTask returns the owners of a task, and a few of many: first those called like its Etcd, the last one before others: the operator adds
// the Etcd at the end.
func ownersOfTask(all []metav1.OwnerReference, etcd string) []metav1.OwnerReference {
	isLong := func(o metav1.OwnerReference) bool { return o.Size() > maxValue }
	if len(all) <= maxNames && !slices.ContainsFunc(all, isLong) {
		return all
	}
	kept := slices.DeleteFunc(slices.Clone(all), isLong)
	isIt := func(o metav1.OwnerReference) bool { return o.Kind == v1alpha1.KindEtcd && o.Name == etcd }
	its := slices.DeleteFunc(slices.Clone(kept), func(o metav1.OwnerReference) bool { return !isIt(o) })
	slices.Reverse(its)
	return few(append(its, slices.DeleteFunc(kept, isIt)...))
}

// keptSet keeps the StatefulSet of an Etcd, and of others whose they are: the API server bounds its size, and there is one for each
// Etcd.
func keptSet(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	if needed("StatefulSet", set) {
		return set
	}
	identity := &appsv1.StatefulSet{}
	copyIdentity(identity, set)
	return identity
}
