// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kindOf is the kind of a typed object.
func kindOf(object client.Object) string {
	parts := strings.Split(fmt.Sprintf("%T", object), ".")
	return parts[len(parts)-1]
}

// bind gives the operator its rights in a namespace.
func bind(t *testing.T, g Gomega, namespace string) {
	t.Helper()
	g.Expect(testEnv.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operator},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "etcd-foreman-system", Name: operator}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: operator},
	})).To(Succeed())
}

// With its own rights, with a cache of what has its labels, and with an API server that lets nobody set an owner reference
// who may not delete the object, the operator tells the same of objects of somebody else as without all that, and makes
// what is its own.
func TestForeignObjects(t *testing.T) {
	g := machine.Gomega(t)
	var watched []string
	foreign := map[string]client.Object{}
	for _, object := range env.Foreigners(name) {
		if strings.HasSuffix(object.GetName(), "-snap") {
			continue // an Etcd without backups needs no leases of snapshots
		}
		namespace := testEnv.Namespace(t)
		object.SetNamespace(namespace)
		g.Expect(testEnv.Client.Create(t.Context(), object)).To(Succeed())
		watched, foreign[namespace] = append(watched, namespace), object
	}
	free := testEnv.Namespace(t)
	watched = append(watched, free)
	for _, namespace := range watched {
		bind(t, g, namespace)
		g.Expect(testEnv.Client.Create(t.Context(), &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1}})).To(Succeed())
	}
	start(t, watched)
	for namespace, object := range foreign {
		g.Eventually(func(g Gomega) {
			etcd := &v1alpha1.Etcd{}
			g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, etcd)).To(Succeed())
			c := etcd.Status.Conditions.Find(v1alpha1.ConditionObjectsOwned)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(c.Message).To(ContainSubstring("%s %s/%s ", kindOf(object), namespace, object.GetName()))
		}).Should(Succeed())
		now := object.DeepCopyObject().(client.Object)
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(object), now)).To(Succeed())
		g.Expect(now.GetResourceVersion()).To(Equal(object.GetResourceVersion()), kindOf(object))
		g.Expect(ours(t.Context(), g, namespace)).To(BeZero(), kindOf(object))
	}

	// A field that is rendered no longer goes from what was created.
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: free, Name: name + "-client"}
	g.Eventually(func() error { return testEnv.Client.Get(t.Context(), key, service) }).Should(Succeed())
	for _, annotations := range []map[string]string{{"example.com/a": "b"}, nil} {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"etcd":{"clientService":null}}}`))
		if annotations != nil {
			patch = client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"etcd":{"clientService":{"annotations":{"example.com/a":"b"}}}}}`))
		}
		g.Expect(testEnv.Client.Patch(t.Context(), &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: free, Name: name}}, patch)).To(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(testEnv.Client.Get(t.Context(), key, service)).To(Succeed())
			g.Expect(service.Annotations["example.com/a"]).To(Equal(annotations["example.com/a"]))
		}).Should(Succeed())
	}
}

// ours is how many objects of a namespace have the operator's labels.
func ours(ctx context.Context, g Gomega, namespace string) (n int) {
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&coordinationv1.LeaseList{}, &policyv1.PodDisruptionBudgetList{},
	} {
		g.Expect(testEnv.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})).To(Succeed())
		n += meta.LenList(list)
	}
	return n
}
