// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// secretsIn has the Secrets of an Etcd with client TLS, and counts reads.
type secretsIn struct {
	client.Client
	reads int
	// hangs: a request ends with its context.
	hangs bool
}

func (s *secretsIn) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	s.reads++
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Client.Get(ctx, key, into, options...)
}

func newSecrets(t *testing.T) *secretsIn {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &secretsIn{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
}

func (s *secretsIn) put(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: data}
	if err := client.IgnoreNotFound(s.Delete(t.Context(), secret.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func (s *secretsIn) putPair(t *testing.T, name string, p Pair) {
	s.put(t, name, map[string][]byte{"tls.crt": p.Certificate, "tls.key": p.Key})
}

func withTLS() *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}, Spec: v1alpha1.EtcdSpec{Replicas: 2}}
	etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{
		TLSCASecretRef:     v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: "ca"}},
		ServerTLSSecretRef: v1alpha1.SecretReference{Name: "server"},
		ClientTLSSecretRef: v1alpha1.SecretReference{Name: "client", Namespace: "ns"},
	}
	return etcd
}

func TestRead(t *testing.T) {
	g := NewWithT(t)
	ca, s, etcd := newCA(t), newSecrets(t), withTLS()
	read := func() error {
		_, err := Read(t.Context(), s, etcd)
		return err
	}
	g.Expect(read()).To(MatchError("Secret ca does not exist"))
	s.put(t, "ca", map[string][]byte{"bundle.crt": ca.PEM})
	g.Expect(read()).To(MatchError("Secret ca has no key ca.crt"))
	etcd.Spec.Etcd.ClientURLTLS.TLSCASecretRef.DataKey = ptrTo("bundle.crt")
	s.putPair(t, "server", issue(t, ca, "server", hosts))
	s.put(t, "client", map[string][]byte{"tls.crt": []byte("x")})
	g.Expect(read()).To(MatchError("Secret client has no key tls.key"))
	s.putPair(t, "client", issue(t, ca, "client", nil))
	g.Expect(read()).To(Succeed())
	etcd.Spec.Etcd.ClientURLTLS.ServerTLSSecretRef.Namespace = "kube-system"
	g.Expect(read()).To(MatchError(ContainSubstring("only Secrets in the namespace of the Etcd are used")))
}

func ptrTo(s string) *string { return &s }

// Private keys of Etcds that are not asked any more are forgotten, and those of ten thousand are not looked through at each request.
func TestCredentialsThatAreNotUsedAreDropped(t *testing.T) {
	g, now := NewWithT(t), clocktesting.NewFakePassiveClock(time.Now())
	c := &Credentials{Clock: now}
	use := func(name string) { c.of(client.ObjectKey{Namespace: "ns", Name: name}) }
	forward := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }
	use("gone")
	forward(trustFor + time.Second)
	use("used")
	g.Expect(c.etcds).To(HaveLen(2))
	swept := c.swept
	forward(time.Second)
	use("used")
	g.Expect(c.swept).To(Equal(swept))
	forward(trustFor + time.Second)
	use("used")
	g.Expect(c.etcds).To(HaveLen(1))
}

// An API server that hangs on Secrets keeps no member from being asked with what was read before, and is not asked again at once.
func TestCredentialsOutlastAHangingAPIServer(t *testing.T) {
	g := NewWithT(t)
	ca, s, etcd := newCA(t), newSecrets(t), withTLS()
	s.put(t, "ca", map[string][]byte{"ca.crt": ca.PEM})
	s.putPair(t, "client", issue(t, ca, "client", nil, certs.ClientOnly))
	now := clocktesting.NewFakePassiveClock(time.Now())
	c := &Credentials{Reader: s, Clock: now}
	ask := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		t.Cleanup(cancel)
		config, err := c.TLS(ctx, etcd, "m-0", "https://10.0.0.1:2379")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config).NotTo(BeNil())
		return ctx
	}
	ask()
	s.hangs = true
	now.SetTime(now.Now().Add(trustFor + time.Second))
	reads := s.reads
	g.Expect(ask().Err()).NotTo(HaveOccurred(), "there is time left for the member")
	g.Expect(s.reads).To(Equal(reads + 1))
	c.Doubt(client.ObjectKeyFromObject(etcd))
	ask()
	g.Expect(s.reads).To(Equal(reads+1), "it is not asked again at once")
	s.hangs = false
	now.SetTime(now.Now().Add(doubtFor))
	ask()
	g.Expect(s.reads).To(Equal(reads+3), "both Secrets are read")
}

func TestCredentialsFollowTheirSecrets(t *testing.T) {
	g := NewWithT(t)
	ca, s, etcd := newCA(t), newSecrets(t), withTLS()
	s.put(t, "ca", map[string][]byte{"ca.crt": ca.PEM})
	s.putPair(t, "client", issue(t, ca, "client", nil, certs.ClientOnly))
	now := clocktesting.NewFakePassiveClock(time.Now())
	c := &Credentials{Reader: s, Clock: now}
	forward := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }

	plain, err := c.TLS(t.Context(), etcd, "m-0", "http://10.0.0.1:2379")
	g.Expect(plain, err).To(BeNil())
	first, err := c.TLS(t.Context(), etcd, "m-0", "https://10.0.0.1:2379")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.ServerName).To(Equal("m-0.m-peer.ns.svc"))
	again := func() any {
		config, err := c.TLS(t.Context(), etcd, "m-0", "https://10.0.0.1:2379")
		g.Expect(err).NotTo(HaveOccurred())
		return config
	}
	g.Expect(again()).To(BeIdenticalTo(first))
	g.Expect(s.reads).To(Equal(2), "Secrets are not read each time")
	foreign, err := c.TLS(t.Context(), etcd, "", "https://elsewhere:2379")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(foreign.ServerName).To(BeEmpty())

	forward(trustFor + time.Second)
	g.Expect(again()).To(BeIdenticalTo(first), "connections outlast a read without changes")

	s.putPair(t, "client", issue(t, ca, "client", nil, certs.ClientOnly))
	g.Expect(again()).To(BeIdenticalTo(first))
	c.Doubt(client.ObjectKeyFromObject(etcd))
	g.Expect(again()).To(BeIdenticalTo(first), "the Secrets were just read")
	forward(doubtFor + time.Second)
	c.Doubt(client.ObjectKeyFromObject(etcd))
	second := again()
	g.Expect(second).NotTo(BeIdenticalTo(first))

	s.put(t, "client", map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x")})
	forward(trustFor + time.Second)
	g.Expect(again()).To(BeIdenticalTo(second), "invalid credentials do not replace valid ones")
}
