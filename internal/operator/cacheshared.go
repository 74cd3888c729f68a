// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// share replaces strings in the metadata of an object by equal ones that all objects have in common.
func share(o metav1.Object) {
	for _, texts := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for key, value := range texts {
			texts[cmp.Or(shared[key], key)] = cmp.Or(shared[value], value)
		}
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].APIVersion = cmp.Or(shared[owners[i].APIVersion], owners[i].APIVersion)
		owners[i].Kind = cmp.Or(shared[owners[i].Kind], owners[i].Kind)
	}
}
