// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdtasks decides which tasks belong to an Etcd: how they are listed, and which belong to an earlier Etcd of the same name.
package etcdtasks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// etcdField is the field of a task that names its Etcd. The CRD makes it a selectable field, so that the same selector works
// against a cache with the Index and against the API server.
const etcdField = "spec.ownerEtcdReference.name"

// Index makes the index of tasks by their Etcd.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.EtcdOperatorTask{}, etcdField, func(o client.Object) []string {
		return []string{o.(*v1alpha1.EtcdOperatorTask).Spec.OwnerEtcdReference.Name}
	}); err != nil {
		return fmt.Errorf("indexing tasks by their Etcd: %w", err)
	}
	return nil
}

// Of selects the tasks of an Etcd, from a cache with the Index and from the API server alike.
func Of(etcd types.NamespacedName) client.ListOption {
	return &client.ListOptions{Namespace: etcd.Namespace, FieldSelector: fields.OneTermEqualSelector(etcdField, etcd.Name)}
}

// Owner is the owner reference by which a task belongs to an Etcd, and is deleted with it.
func Owner(etcd *v1alpha1.Etcd) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: etcd.Name, UID: etcd.UID}
}

// New returns a task that the operator creates for an Etcd, given a spec without the reference to the Etcd.
func New(etcd *v1alpha1.Etcd, name string, spec v1alpha1.EtcdOperatorTaskSpec) *v1alpha1.EtcdOperatorTask {
	spec.OwnerEtcdReference = v1alpha1.EtcdReference{Name: etcd.Name}
	return &v1alpha1.EtcdOperatorTask{Spec: spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: etcd.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{Owner(etcd)},
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name},
	}}
}

// maxMetadata bounds the metadata of a task that may start beside a Gate, in bytes: with more, the API server may refuse to add an annotation, by
// which its start is kept from being written. kubectl keeps the manifest in it, with a config of up to 64 KiB.
const maxMetadata = 128 << 10

// TooLarge reports whether the metadata of a task, as the API server has it, is too large for it to start beside a Gate.
func TooLarge(t *v1alpha1.EtcdOperatorTask) bool { return t.ObjectMeta.Size() > maxMetadata }

// IsOwned reports whether an Etcd is an owner of a task.
func IsOwned(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) bool {
	return slices.ContainsFunc(t.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == etcd.UID })
}

// Foreign returns why a task is for an earlier Etcd of the same name; empty if it is for the given one.
//
// The task engine makes the Etcd an owner of each of its tasks on arrival. A task without such an owner that was created before the Etcd
// was meant for an earlier Etcd, or for none. Creation timestamps have a resolution of a second: a task of the same second counts as this
// Etcd's.
func Foreign(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) string {
	owned := false
	for _, o := range t.OwnerReferences {
		if o.Name != etcd.Name || !IsEtcd(o) {
			continue
		}
		if o.UID != etcd.UID {
			return fmt.Sprintf("the task belongs to an earlier Etcd %s, with UID %s, which was deleted; the present one has UID %s", etcd.Name, o.UID, etcd.UID)
		}
		owned = true
	}
	if !owned && t.CreationTimestamp.Before(&etcd.CreationTimestamp) {
		return fmt.Sprintf("the task was created at %s, before the present Etcd %s, which was created at %s",
			timestamp(t), etcd.Name, timestamp(etcd))
	}
	return ""
}

// IsEtcd reports whether an owner is an Etcd, of any version of the API.
func IsEtcd(o metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(o.APIVersion)
	return err == nil && version.Group == v1alpha1.GroupVersion.Group && o.Kind == v1alpha1.KindEtcd
}

func timestamp(o metav1.Object) string { return o.GetCreationTimestamp().UTC().Format(time.RFC3339) }
