// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// serviceAccount builds the ServiceAccount of the agents. Its token is mounted only into their containers.
func serviceAccount(in Input) *corev1ac.ServiceAccountApplyConfiguration {
	name := in.Etcd.Name
	return corev1ac.ServiceAccount(name, in.Etcd.Namespace).
		WithLabels(in.labels(v1alpha1.ComponentServiceAccount, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithAutomountServiceAccountToken(false)
}

// role lets the agents renew the leases of this Etcd, by name, and nothing else. The list of names is never empty, which would
// mean all leases of the namespace.
func role(in Input) *rbacv1ac.RoleApplyConfiguration {
	name := in.Etcd.Name
	leases := []string{in.Etcd.FullSnapshotLeaseName(), in.Etcd.DeltaSnapshotLeaseName()}
	for i := range max(in.Replicas, in.Members) {
		leases = append(leases, in.Etcd.MemberName(in.Etcd.PodName(i)))
	}
	return rbacv1ac.Role(in.Etcd.RoleName(), in.Etcd.Namespace).
		WithLabels(in.labels(v1alpha1.ComponentRole, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithRules(rbacv1ac.PolicyRule().
			WithAPIGroups(coordinationv1.GroupName).
			WithResources("leases").
			WithResourceNames(leases...).
			WithVerbs("get", "patch"))
}

// roleBinding binds the Role to the ServiceAccount.
func roleBinding(in Input) *rbacv1ac.RoleBindingApplyConfiguration {
	name := in.Etcd.Name
	return rbacv1ac.RoleBinding(in.Etcd.RoleName(), in.Etcd.Namespace).
		WithLabels(in.labels(v1alpha1.ComponentRoleBinding, name)).
		WithOwnerReferences(owner(in.Etcd)).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(in.Etcd.RoleName())).
		WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(in.Etcd.Namespace).WithName(name))
}

// leases builds the leases of members and snapshots. Agents renew them, and may not create any.
func leases(in Input) []*coordinationv1ac.LeaseApplyConfiguration {
	var leases []*coordinationv1ac.LeaseApplyConfiguration
	for i := range in.Replicas {
		leases = append(leases, lease(in, in.Etcd.MemberName(in.Etcd.PodName(i)), v1alpha1.ComponentMemberLease))
	}
	if in.Etcd.HasBackupStore() {
		leases = append(leases,
			lease(in, in.Etcd.FullSnapshotLeaseName(), v1alpha1.ComponentSnapshotLease),
			lease(in, in.Etcd.DeltaSnapshotLeaseName(), v1alpha1.ComponentSnapshotLease))
	}
	return leases
}

func lease(in Input, name, component string) *coordinationv1ac.LeaseApplyConfiguration {
	return coordinationv1ac.Lease(name, in.Etcd.Namespace).
		WithLabels(in.labels(component, name)).
		WithOwnerReferences(owner(in.Etcd))
}
