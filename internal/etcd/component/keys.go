// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key names an object of an Etcd, in its namespace.
type Key struct {
	Kind schema.GroupVersionKind
	Name string
}

// Keys returns the keys of the Objects of an Etcd with a number of members and a value of the label managed-by, in the same
// order.
func Keys(etcd *v1alpha1.Etcd, members int32, manager string) []Key {
	name := etcd.Name
	keys := []Key{
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), name},
		{rbacv1.SchemeGroupVersion.WithKind("Role"), etcd.RoleName()},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), etcd.RoleName()},
	}
	for _, lease := range leaseNames(etcd, members) {
		keys = append(keys, Key{coordinationv1.SchemeGroupVersion.WithKind("Lease"), lease})
	}
	return append(keys,
		Key{corev1.SchemeGroupVersion.WithKind("ConfigMap"), etcd.ConfigMapName(manager)},
		Key{corev1.SchemeGroupVersion.WithKind("Service"), etcd.ClientServiceName()},
		Key{corev1.SchemeGroupVersion.WithKind("Service"), etcd.PeerServiceName()},
		Key{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), name},
		StatefulSetKey(etcd))
}

// Needs reports whether an Etcd of a name needs an object of a kind and a name. The names of member leases follow from its spec, and
// are not compared.
func Needs(etcd, kind, name string) bool {
	if kind == "Lease" {
		return true
	}
	for _, manager := range []string{"", v1alpha1.ManagedByDruid} {
		for _, key := range Keys(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: etcd}}, 0, manager) {
			if key.Kind.Kind == kind && key.Name == name {
				return true
			}
		}
	}
	return false
}

// StatefulSetKey returns the key of the StatefulSet of an Etcd.
func StatefulSetKey(etcd *v1alpha1.Etcd) Key {
	return Key{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), etcd.Name}
}

// leaseNames returns the names of the leases of an Etcd with a number of members.
func leaseNames(etcd *v1alpha1.Etcd, members int32) (names []string) {
	for i := range members {
		names = append(names, etcd.MemberName(etcd.PodName(i)))
	}
	if etcd.HasBackupStore() {
		names = append(names, etcd.FullSnapshotLeaseName(), etcd.DeltaSnapshotLeaseName())
	}
	return names
}
