// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAStolenTokenGrantsNothing(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	const name = "druid.gardener.cloud:etcd:main"
	rule := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"main-0", "a-main-1", "main-full-snap"}, Verbs: []string{"get", "patch"}}
	role := func() *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: owned(h.etcd, name), Rules: []rbacv1.PolicyRule{*rule.DeepCopy()}}
	}
	const onlyLeases = "get and patch the Leases of their Etcd, by name"
	creates(h, role, map[string]string{
		"secrets": onlyLeases, "all leases": onlyLeases, "leases of another": onlyLeases, "another name": "named after their Etcd", "no owner": "only roles that an Etcd controls",
	}, map[string]func(*rbacv1.Role){
		"secrets": func(r *rbacv1.Role) {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
		},
		"all leases":        func(r *rbacv1.Role) { r.Rules[0].ResourceNames = nil },
		"leases of another": func(r *rbacv1.Role) { r.Rules[0].ResourceNames = []string{"kube-scheduler"} },
		"another name":      func(r *rbacv1.Role) { r.Name = "x" },
		"no owner":          func(r *rbacv1.Role) { r.OwnerReferences = nil },
		"an Etcd whose name is an expression": func(r *rbacv1.Role) {
			r.Name, r.OwnerReferences[0].Name, r.Rules[0].ResourceNames = "druid.gardener.cloud:etcd:a$|.*|b", "a$|.*|b", []string{"kube-scheduler"}
		},
	})
	binding := func() *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: owned(h.etcd, name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: "main"}},
		}
	}
	h.Expect(h.client.Create(t.Context(), role())).To(Succeed())
	// The API server lets a Role be bound by who has its rights, as soon as it knows it.
	const onlyTheAccount = "bind the Role of their Etcd to the ServiceAccount of the Etcd"
	creates(h, binding, map[string]string{"everybody": onlyTheAccount, "another account": onlyTheAccount, "another namespace": onlyTheAccount}, map[string]func(*rbacv1.RoleBinding){
		"everybody": func(b *rbacv1.RoleBinding) {
			b.Subjects[0] = rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}
		},
		"another account":   func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "default" },
		"another namespace": func(b *rbacv1.RoleBinding) { b.Subjects[0].Namespace = "default" },
	})
}

func TestAStolenTokenWritesNoObjectOfAnother(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	lease := func() *coordinationv1.Lease { return &coordinationv1.Lease{ObjectMeta: owned(h.etcd, "a-main-0")} }
	creates(h, lease, map[string]string{
		"another name": "named after their Etcd", "no owner": "only leases that an Etcd controls", "an Etcd whose name is an expression": "only leases that an Etcd controls",
	}, map[string]func(*coordinationv1.Lease){
		"an Etcd whose name is an expression": func(l *coordinationv1.Lease) {
			l.Name, l.OwnerReferences[0].Name = "kube-scheduler", "a$|^kube-scheduler$|^b"
		},
		"another name": func(l *coordinationv1.Lease) { l.Name = "kube-scheduler" },
		"no owner":     func(l *coordinationv1.Lease) { l.OwnerReferences = nil },
	})
	// Only the Lease of a member is deleted, and only one that an Etcd controls.
	node := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "kube-scheduler"}}
	h.Expect(testEnv.Client.Create(t.Context(), node)).To(Succeed())
	h.refused(h.client.Delete(t.Context(), node, client.DryRunAll), "only leases that an Etcd controls", "a Lease of another")
	gone := lease()
	h.Expect(testEnv.Client.Create(t.Context(), gone)).To(Succeed())
	h.Expect(h.client.Delete(t.Context(), gone)).To(Succeed())

	service := func() *corev1.Service {
		return &corev1.Service{ObjectMeta: owned(h.etcd, "main-client"), Spec: corev1.ServiceSpec{Selector: map[string]string{v1alpha1.LabelPartOf: "main"}, Ports: []corev1.ServicePort{{Port: 2379}}}}
	}
	creates(h, service, map[string]string{
		"another name": "named after their Etcd", "other pods": "that select the members of their Etcd", "external IPs": "no external IPs", "a load balancer": "no external IPs",
	}, map[string]func(*corev1.Service){
		"another name":    func(s *corev1.Service) { s.Name = "x" },
		"other pods":      func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} },
		"external IPs":    func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"10.0.0.1"} },
		"a load balancer": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer },
	})
	for _, name := range []string{"main-config", "main-config-etcd-foreman"} {
		h.Expect(h.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: owned(h.etcd, name)}, client.DryRunAll)).To(Succeed())
	}
	h.refused(h.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: owned(h.etcd, "coredns")}), "named after their Etcd", "a ConfigMap")

	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "main-config"}}
	h.Expect(testEnv.Client.Create(t.Context(), theirs)).To(Succeed())
	taken := &corev1.ConfigMap{ObjectMeta: owned(h.etcd, "main-config")}
	h.refused(h.client.Patch(t.Context(), taken, client.MergeFrom(theirs), client.DryRunAll), "that the Etcd controls already", "a ConfigMap of another")

	etcd := h.etcd.DeepCopy()
	etcd.Spec.Etcd.Image = ptr.To("evil:v3.6.0")
	h.refused(h.client.Patch(t.Context(), etcd, client.MergeFrom(h.etcd), client.DryRunAll), "does not change the spec of etcds", "an Etcd")
	etcd = h.etcd.DeepCopy()
	etcd.Annotations = map[string]string{"a": "b"}
	h.Expect(h.client.Patch(t.Context(), etcd, client.MergeFrom(h.etcd), client.DryRunAll)).To(Succeed())

	election := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd-foreman-system", Name: "etcd-foreman"}}
	h.Expect(h.client.Create(t.Context(), election, client.DryRunAll)).To(Succeed())
	ledger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd-foreman-system", Name: v1alpha1.FleetConfigMap}}
	h.Expect(h.client.Create(t.Context(), ledger.DeepCopy(), client.DryRunAll)).To(Succeed())
	ledger.Namespace = h.namespace
	h.refused(h.client.Create(t.Context(), ledger, client.DryRunAll), "only configmaps that an Etcd controls", "a ledger in another namespace")
	election.Name = "another"
	h.refused(h.client.Create(t.Context(), election, client.DryRunAll), "only leases that an Etcd controls", "another Lease of its namespace")
}

// RBAC lets the operator patch and delete any pod and claim.
func TestAStolenTokenTouchesNoPodOrClaimOfAnother(t *testing.T) {
	h := newThief(t)
	awaitPolicies(h)
	ctx := context.Background()
	member := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main", v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet}
	own, others := h.pod("main-0", member), h.pod("other-0", nil)
	evil := func(of *corev1.Pod) error {
		changed := of.DeepCopy()
		changed.Spec.Containers[0].Image = "evil"
		return h.client.Patch(ctx, changed, client.MergeFrom(of), client.DryRunAll)
	}
	h.Expect(evil(own)).To(Succeed())
	h.Expect(h.client.Delete(ctx, own, client.DryRunAll)).To(Succeed())
	h.Eventually(func() error { return evil(others) }).Should(MatchError(ContainSubstring("only the pods of members")))
	h.refused(h.client.Delete(ctx, others, client.DryRunAll), "only the pods of members", "deleting a pod")
	labeled := others.DeepCopy()
	labeled.Labels = member
	h.refused(h.client.Patch(ctx, labeled, client.MergeFrom(others), client.DryRunAll), "only the pods of members", "labeling a pod")
	freed := own.DeepCopy()
	freed.Labels = map[string]string{"app": "bank"}
	h.refused(h.client.Patch(ctx, freed, client.MergeFrom(own), client.DryRunAll), "does not change whose a pod is", "labeling a member")
	owns := func(change func(*metav1.OwnerReference)) error {
		by := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: h.etcd.UID}
		change(&by)
		changed := own.DeepCopy()
		changed.OwnerReferences = append(changed.OwnerReferences, by)
		return h.client.Patch(ctx, changed, client.MergeFrom(own), client.DryRunAll)
	}
	h.Expect(owns(func(*metav1.OwnerReference) {})).To(Succeed(), "the Etcd becomes an owner before its StatefulSet goes")
	h.refused(owns(func(r *metav1.OwnerReference) { r.Name = "other" }), "does not change whose a pod is", "giving a member to another Etcd")
	h.refused(owns(func(r *metav1.OwnerReference) { r.APIVersion, r.Kind = "v1", "ConfigMap" }), "does not change whose a pod is", "giving a member away")
	h.refused(owns(func(r *metav1.OwnerReference) { own.OwnerReferences[0].Controller, r.Controller = nil, ptr.To(true) }), "does not change whose a pod is", "a second controller")
	own.OwnerReferences[0].Controller = ptr.To(true)
	left := own.DeepCopy()
	left.OwnerReferences = nil
	h.refused(h.client.Patch(ctx, left, client.MergeFrom(own), client.DryRunAll), "does not change whose a pod is", "taking a member from its StatefulSet")

	claim, theirs := h.claim("main-main-0", member), h.claim("data-postgres-0", nil)
	h.Expect(h.client.Delete(ctx, claim, client.DryRunAll)).To(Succeed())
	h.refused(h.client.Delete(ctx, theirs, client.DryRunAll), "only the claims of members", "deleting a claim")
	taken := theirs.DeepCopy()
	taken.Labels = member
	h.refused(h.client.Patch(ctx, taken, client.MergeFrom(theirs), client.DryRunAll), "only the claims of members", "labeling a claim")
}

func (h *thief) pod(name string, labels map[string]string) *corev1.Pod {
	h.t.Helper()
	p := &corev1.Pod{
		// The garbage collector would remove it: its StatefulSet does not exist.
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name, Labels: labels, Finalizers: []string{"example.com/keep"}, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "StatefulSet", Name: strings.TrimSuffix(name, "-0"), UID: "x", Controller: ptr.To(true),
		}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}, AutomountServiceAccountToken: ptr.To(false)},
	}
	h.Eventually(func() error { return client.IgnoreAlreadyExists(testEnv.Client.Create(h.t.Context(), p)) }).Should(Succeed())
	return p
}

func (h *thief) claim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	h.t.Helper()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name, Labels: labels},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	h.Expect(testEnv.Client.Create(h.t.Context(), c)).To(Succeed())
	return c
}
