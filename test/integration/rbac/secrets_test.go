// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretOf returns a Secret of managed TLS of an Etcd.
func secretOf(etcd *v1alpha1.Etcd, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: etcd.Namespace, Name: name,
		Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: v1alpha1.ComponentCertificates},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}, Type: corev1.SecretTypeOpaque}
}

// An operator that somebody has taken over can write no Secret but those of managed TLS.
func TestWhichSecretsTheOperatorMayWrite(t *testing.T) {
	g := machine.Gomega(t)
	namespace := testEnv.Namespace(t)
	operator, err := client.New(testEnv.AsOperator(), client.Options{Scheme: testEnv.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 1, ManagedTLS: &v1alpha1.ManagedTLS{}}}
	other := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
	g.Expect(testEnv.Client.Create(t.Context(), other)).To(Succeed())
	// The API server compiles policies in the background.
	g.Eventually(func() error { return operator.Create(t.Context(), secretOf(etcd, "probe"), client.DryRunAll) }).
		Should(MatchError(ContainSubstring("only Secrets of managed TLS")))

	for _, c := range v1alpha1.TLSConnections() {
		for _, name := range []string{etcd.CAKeySecret(c), etcd.CASecret(c), etcd.ServerSecret(c)} {
			g.Expect(operator.Create(t.Context(), secretOf(etcd, name))).To(Succeed(), name)
		}
	}
	for _, name := range []string{etcd.OperatorSecret(), etcd.ClientSecret()} {
		secret := secretOf(etcd, name)
		secret.Type = corev1.SecretTypeTLS
		secret.Data = map[string][]byte{"tls.crt": nil, "tls.key": nil}
		g.Expect(operator.Create(t.Context(), secret)).To(Succeed(), name)
	}
	secret := secretOf(etcd, etcd.CASecret(v1alpha1.TLSPeers))
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	secret.Data = map[string][]byte{"ca.crt": []byte("x")}
	g.Expect(operator.Update(t.Context(), secret)).To(Succeed())

	for name, change := range map[string]func(*corev1.Secret){
		"of another name":      func(s *corev1.Secret) { s.Name = "main-ca" },
		"named after another":  func(s *corev1.Secret) { s.Name = other.CASecret(v1alpha1.TLSPeers) },
		"without an owner":     func(s *corev1.Secret) { s.OwnerReferences = nil },
		"not controlled":       func(s *corev1.Secret) { s.OwnerReferences[0].Controller = nil },
		"of a Deployment":      func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "Deployment" },
		"without labels":       func(s *corev1.Secret) { s.Labels = nil },
		"of another component": func(s *corev1.Secret) { s.Labels[v1alpha1.LabelComponent] = "x" },
		"with a token": func(s *corev1.Secret) {
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
		},
		"of a registry": func(s *corev1.Secret) {
			s.Type, s.Data = corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")}
		},
	} {
		s := secretOf(etcd, other.CASecret(v1alpha1.TLSAgents))
		s.Name, s.OwnerReferences[0].Name, s.OwnerReferences[0].UID = other.CASecret(v1alpha1.TLSAgents), other.Name, other.UID
		if name == "named after another" {
			s = secretOf(etcd, "")
		}
		change(s)
		g.Expect(operator.Create(t.Context(), s, client.DryRunAll)).To(MatchError(ContainSubstring("the operator writes only Secrets")), name)
	}

	// A Secret of somebody else, whatever the operator makes of it.
	for name, change := range map[string]func(*corev1.Secret){
		"of nobody":           func(s *corev1.Secret) { s.OwnerReferences = nil },
		"of another Etcd":     func(s *corev1.Secret) { s.OwnerReferences[0].Name, s.OwnerReferences[0].UID = etcd.Name, etcd.UID },
		"of another operator": func(s *corev1.Secret) { s.Labels[v1alpha1.LabelManagedBy] = "somebody" },
	} {
		theirs := secretOf(other, other.ClientSecret())
		change(theirs)
		g.Expect(testEnv.Client.Create(t.Context(), theirs)).To(Succeed())
		ours := secretOf(other, other.ClientSecret())
		ours.UID, ours.ResourceVersion = theirs.UID, theirs.ResourceVersion
		g.Expect(operator.Update(t.Context(), ours)).To(MatchError(ContainSubstring("the operator changes only Secrets that the Etcd controls already")), name)
		g.Expect(testEnv.Client.Delete(t.Context(), theirs)).To(Succeed())
	}

	// Others are not concerned.
	g.Expect(testEnv.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "any"}})).To(Succeed())
}
