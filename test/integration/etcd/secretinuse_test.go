// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Secret that an Etcd names stays until the Etcd names another one, or is deleted. Other Secrets, and those of that name in other
// namespaces, can be deleted.
func TestSecretsInUseStay(t *testing.T) {
	t.Parallel()
	g := machine.Gomega(t)
	namespace, elsewhere := testEnv.Namespace(t), testEnv.Namespace(t)
	secrets := map[string]*corev1.Secret{}
	for _, name := range []string{"store", "keys", "ca", "trust", "server", "client", "peers", "api", "identities", "free"} {
		secrets[name] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	secrets["elsewhere"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "store"}}
	for _, s := range secrets {
		g.Expect(testEnv.Client.Create(t.Context(), s)).To(Succeed())
	}
	of := func(name string) v1alpha1.SecretReference { return v1alpha1.SecretReference{Name: name} }
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{"example.com/wait"}}, Spec: v1alpha1.EtcdSpec{
		Replicas: 1,
		Etcd: v1alpha1.EtcdConfig{
			ClientURLTLS: &v1alpha1.ClientURLTLS{TLSCASecretRef: caRef("ca"), ServerTLSSecretRef: of("server"), ClientTLSSecretRef: of("client")},
			PeerURLTLS:   &v1alpha1.PeerURLTLS{TLSCASecretRef: caRef("ca"), ServerTLSSecretRef: of("peers")},
		},
		Backup: &v1alpha1.BackupSpec{
			TLS:        &v1alpha1.BackupTLS{TLSCASecretRef: caRef("trust"), ServerTLSSecretRef: of("api")},
			Store:      &v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", SecretRef: &v1alpha1.SecretReference{Name: "store"}},
			Signing:    &v1alpha1.SigningSpec{SecretRef: of("keys")},
			Encryption: &v1alpha1.EncryptionSpec{IdentitySecretRef: ptr.To(of("identities"))},
		},
	}}
	g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
	other := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "another"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	g.Expect(testEnv.Client.Create(t.Context(), other)).To(Succeed())

	remove := func(name string) error { return testEnv.Client.Delete(t.Context(), secrets[name], client.DryRunAll) }
	for _, name := range []string{"store", "keys", "ca", "trust", "server", "client", "peers", "api", "identities"} {
		g.Eventually(func() error { return remove(name) }).Should(MatchError(ContainSubstring("Secret "+name+" is in use by Etcd etcd-main")), name)
	}
	g.Expect(remove("free")).To(Succeed())
	g.Expect(remove("elsewhere")).To(Succeed())
	g.Expect(testEnv.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(namespace))).To(Satisfy(apierrors.IsForbidden), "nor all at once")

	etcd.Spec.Backup.Store.SecretRef.Name = "another"
	g.Expect(testEnv.Client.Update(t.Context(), etcd)).To(Succeed())
	g.Eventually(func() error { return remove("store") }).Should(Or(Succeed(), Satisfy(apierrors.IsNotFound)))
	g.Expect(remove("keys")).NotTo(Succeed())
	g.Expect(testEnv.Client.Delete(t.Context(), etcd)).To(Succeed())
	g.Eventually(func() error { return remove("keys") }).Should(Or(Succeed(), Satisfy(apierrors.IsNotFound)), "the Etcd is being deleted")
	g.Expect(client.IgnoreNotFound(testEnv.Client.Patch(t.Context(), etcd, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())

	// A namespace takes everything with it. Its own controller, which removes the Secrets, is not running here.
	put := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "mounted"}}
	g.Expect(testEnv.Client.Create(t.Context(), put)).To(Succeed())
	etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1,
		Backup: &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", SecretRef: &v1alpha1.SecretReference{Name: "mounted"}}}}}
	g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
	g.Eventually(func() error { return testEnv.Client.Delete(t.Context(), put, client.DryRunAll) }).Should(Satisfy(apierrors.IsForbidden))
	g.Expect(testEnv.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}})).To(Succeed())
	g.Eventually(func() error { return testEnv.Client.Delete(t.Context(), put) }).Should(Or(Succeed(), Satisfy(apierrors.IsNotFound)))
}
