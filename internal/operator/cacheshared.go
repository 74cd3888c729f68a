// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"runtime"
	"sync"
	"weak"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// shared has the strings that the metadata of most objects contain. The cache has each once, and not once for each of the two dozen
// objects of an Etcd. They are fixed: what others write into their objects never adds to them.
var shared = func() map[string]string {
	all := map[string]string{}
	for _, s := range []string{
		v1alpha1.LabelManagedBy, v1alpha1.LabelPartOf, v1alpha1.LabelComponent, v1alpha1.LabelName, v1alpha1.ManagedBy, v1alpha1.ManagedByDruid,
		v1alpha1.ComponentConfigMap, v1alpha1.ComponentClientService, v1alpha1.ComponentPeerService, v1alpha1.ComponentPodDisruptionBudget,
		v1alpha1.ComponentStatefulSet, v1alpha1.ComponentMemberLease, v1alpha1.ComponentSnapshotLease, v1alpha1.ComponentServiceAccount,
		v1alpha1.ComponentRole, v1alpha1.ComponentRoleBinding,
		appsv1.StatefulSetRevisionLabel, appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel,
		v1alpha1.AnnotationAppliedChecksum, v1alpha1.AnnotationConfigChecksum, v1alpha1.AnnotationCAChecksum, v1alpha1.AnnotationSafeToEvictVolumes,
		v1alpha1.GroupVersion.String(), v1alpha1.KindEtcd, appsv1.SchemeGroupVersion.String(), "StatefulSet",
	} {
		all[s] = s
	}
	return all
}()

// share replaces strings in the labels and annotations of an object by equal ones that all objects have in common.
func share(o metav1.Object) {
	o.SetLabels(withShared(o.GetLabels()))
	o.SetAnnotations(withShared(o.GetAnnotations()))
}

// withShared returns another map: one that objects have in common is only read.
func withShared(texts map[string]string) map[string]string {
	if texts == nil {
		return nil
	}
	all := make(map[string]string, len(texts))
	for key, value := range texts {
		all[cmp.Or(shared[key], key)] = cmp.Or(shared[value], value)
	}
	return all
}

// owners are the owners that cached objects have, each once for all objects that have this one alone: an Etcd owns some twenty. They go with
// the last object.
type owners struct {
	mu    sync.Mutex
	known map[types.UID]weak.Pointer[[1]metav1.OwnerReference]
}

// after has what a transform keeps of an object share its owner.
func (o *owners) after(transform toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		kept, err := transform(object)
		if of, ok := kept.(metav1.Object); ok && err == nil && len(of.GetOwnerReferences()) == 1 {
			of.SetOwnerReferences(o.share(of.GetOwnerReferences()[0])[:])
		}
		return kept, err
	}
}

// share returns an owner as the others have it. It is only read.
func (o *owners) share(owner metav1.OwnerReference) *[1]metav1.OwnerReference {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.known[owner.UID].Value(); known != nil && equality.Semantic.DeepEqual(known[0], owner) {
		return known
	}
	owner.APIVersion, owner.Kind = cmp.Or(shared[owner.APIVersion], owner.APIVersion), cmp.Or(shared[owner.Kind], owner.Kind)
	one := &[1]metav1.OwnerReference{owner}
	if o.known == nil {
		o.known = map[types.UID]weak.Pointer[[1]metav1.OwnerReference]{}
	}
	o.known[owner.UID] = weak.Make(one)
	runtime.AddCleanup(one, o.forget, owner.UID)
	return one
}

// forget forgets an owner that no object has any more.
func (o *owners) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.known[uid]; ok && known.Value() == nil {
		delete(o.known, uid)
	}
}
