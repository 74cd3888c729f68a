// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The operator says which right managed TLS takes, and the right that is shipped, with its policy, is enough.
func TestManagedTLSTakesARight(t *testing.T) {
	g := machine.Gomega(t)
	namespace := testEnv.Namespace(t)
	bind(t, g, namespace)
	right := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "etcd-foreman-managed-tls"}}
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(right), right)).To(Succeed())
	g.Expect(testEnv.Client.Delete(t.Context(), right)).To(Succeed())
	shipped := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: right.Name}, RoleRef: right.RoleRef, Subjects: right.Subjects}
	put := func() error {
		return client.IgnoreAlreadyExists(testEnv.Client.Create(context.Background(), shipped.DeepCopy()))
	}
	t.Cleanup(func() { g.Expect(put()).To(Succeed()) })

	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1, ManagedTLS: &v1alpha1.ManagedTLS{}}}
	g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
	start(t, []string{namespace})
	g.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		c := etcd.Status.Conditions.Find(v1alpha1.ConditionTLSReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Message).To(And(ContainSubstring("Secret etcd-main-client-ca-key cannot be written"), ContainSubstring("apply config/admission/managed_tls_role.yaml")))
	}).Should(Succeed())

	g.Expect(put()).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(etcd), &appsv1.StatefulSet{})).To(Succeed())
		for _, c := range v1alpha1.TLSConnections() {
			secret := &corev1.Secret{}
			g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: etcd.ServerSecret(c)}, secret)).To(Succeed())
			g.Expect(metav1.IsControlledBy(secret, etcd)).To(BeTrue())
		}
	}).Should(Succeed())
	// It may also change them.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: etcd.CASecret(v1alpha1.TLSPeers)}}
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	before := secret.ResourceVersion
	g.Eventually(func() error {
		live := &v1alpha1.Etcd{}
		if err := testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(etcd), live); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, v1alpha1.AnnotationOperation, v1alpha1.OperationRenewCA)
		return testEnv.Client.Update(t.Context(), live)
	}).Should(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		g.Expect(secret.ResourceVersion).NotTo(Equal(before))
	}).Should(Succeed())
}
