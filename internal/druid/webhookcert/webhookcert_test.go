// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const host = "etcd-foreman-webhook.own.svc"

// world is a Secret and a configuration, with replicas that share them.
type world struct {
	*WithT
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakeClock
}

func newWorld(t *testing.T, data map[string][]byte) *world {
	return &world{WithT: NewWithT(t), t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), client: fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "ca"}, Data: data},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "webhook"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}}},
	).Build()}
}

// replica writes nothing but the Secret.
func (w *world) replica() *Keeper {
	limited := interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if _, ok := o.(*corev1.Secret); !ok {
				w.t.Errorf("the operator writes %T %s", o, o.GetName())
			}
			return c.Update(ctx, o, options...)
		},
	})
	return &Keeper{Client: limited, Secret: client.ObjectKey{Namespace: "own", Name: "ca"}, Configuration: "webhook", Host: host, Clock: w.clock}
}

// trusted reports whether the API server trusts a replica now.
func (w *world) trusted(k *Keeper) bool {
	w.t.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	w.Expect(w.client.Get(w.t.Context(), client.ObjectKey{Name: "webhook"}, configuration)).To(Succeed())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	served, err := k.GetCertificate(nil)
	if err != nil {
		return false
	}
	_, err = served.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: w.clock.Now()})
	return err == nil
}

// sync has a replica look, and the publisher and the replica again if the CA is not published.
func (w *world) sync(k *Keeper) {
	w.t.Helper()
	if err := k.sync(w.t.Context()); err == nil {
		return
	}
	p := &Publisher{Client: w.client, Secret: k.Secret, Configuration: k.Configuration, Clock: w.clock}
	w.Expect(p.sync(w.t.Context())).To(Succeed())
	w.Expect(k.sync(w.t.Context())).To(Succeed())
}

func TestReplicasShareACA(t *testing.T) {
	w := newWorld(t, nil)
	first, second := w.replica(), w.replica()
	w.Expect(first.Ready(nil)).NotTo(Succeed())
	w.Expect(w.trusted(first)).To(BeFalse())
	w.sync(first)
	w.sync(second)
	w.sync(first)
	for _, k := range []*Keeper{first, second} {
		w.Expect(k.Ready(nil)).To(Succeed())
		w.Expect(w.trusted(k)).To(BeTrue())
	}
}

// Over ten years of renewals, with a replica that is always the last to look, there is no moment in which a replica is not
// trusted.
func TestRotationWithoutAGap(t *testing.T) {
	w := newWorld(t, nil)
	first, second := w.replica(), w.replica()
	w.sync(first)
	w.sync(second)
	leaves, authorities := map[string]bool{}, map[string]bool{}
	for range 10 * 365 / 10 {
		w.clock.Step(10 * 24 * time.Hour)
		w.sync(first)
		w.Expect(w.trusted(first)).To(BeTrue(), "first at %s", w.clock.Now())
		w.Expect(w.trusted(second)).To(BeTrue(), "second at %s", w.clock.Now())
		w.sync(second)
		w.Expect(w.trusted(first)).To(BeTrue(), "first at %s", w.clock.Now())
		w.Expect(w.trusted(second)).To(BeTrue(), "second at %s", w.clock.Now())
		leaves[string(first.leaf.certificate.Certificate[0])], authorities[string(first.leaf.by)] = true, true
	}
	w.Expect(len(leaves)).To(BeNumerically(">", 50))
	w.Expect(len(authorities)).To(BeNumerically(">", 2))
}

// A configuration that was applied again has no CA until the next look.
func TestConfigurationIsFilledAgain(t *testing.T) {
	w := newWorld(t, nil)
	k := w.replica()
	w.sync(k)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	w.Expect(w.client.Get(t.Context(), client.ObjectKey{Name: "webhook"}, configuration)).To(Succeed())
	configuration.Webhooks[0].ClientConfig.CABundle = nil
	w.Expect(w.client.Update(t.Context(), configuration)).To(Succeed())
	w.Expect(w.trusted(k)).To(BeFalse())
	w.sync(k)
	w.Expect(w.trusted(k)).To(BeTrue())
}

func TestCAThatCannotBeUsedIsReplaced(t *testing.T) {
	w := newWorld(t, map[string][]byte{keyCA: []byte("x"), keyCAKey: []byte("y")})
	k := w.replica()
	w.sync(k)
	w.Expect(w.trusted(k)).To(BeTrue())
}

// Earlier versions wrote the key as SEC 1. Their CA goes on: a new one would not be trusted before the next look.
func TestCAOfAnEarlierVersionIsKept(t *testing.T) {
	w := newWorld(t, nil)
	first := w.replica()
	w.sync(first)
	secret := &corev1.Secret{}
	w.Expect(w.client.Get(t.Context(), first.Secret, secret)).To(Succeed())
	pair, err := tls.X509KeyPair(secret.Data[keyCA], secret.Data[keyCAKey])
	w.Expect(err).NotTo(HaveOccurred())
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	w.Expect(err).NotTo(HaveOccurred())
	ca := secret.Data[keyCA]
	secret.Data[keyCAKey] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	w.Expect(w.client.Update(t.Context(), secret)).To(Succeed())
	second := w.replica()
	w.sync(second)
	w.Expect(w.trusted(second)).To(BeTrue())
	w.Expect(string(second.leaf.by)).To(Equal(string(ca)))
}

// A Secret of this name with other keys is foreign.
func TestForeignSecretIsNotOverwritten(t *testing.T) {
	w := newWorld(t, map[string][]byte{"password": []byte("x")})
	k := w.replica()
	w.Expect(k.sync(t.Context())).To(MatchError(ContainSubstring("is not the operator's")))
	secret := &corev1.Secret{}
	w.Expect(w.client.Get(t.Context(), k.Secret, secret)).To(Succeed())
	w.Expect(secret.Data).To(HaveLen(1))
	w.Expect(k.Ready(nil)).To(MatchError(ContainSubstring("is not the operator's")))
}

// A replica whose certificate has expired is not ready: the API server does not trust it.
func TestAnExpiredCertificate(t *testing.T) {
	w := newWorld(t, nil)
	k := w.replica()
	w.sync(k)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "ca"}}
	w.Expect(w.client.Delete(t.Context(), secret)).To(Succeed())
	w.clock.Step(10 * 365 * 24 * time.Hour)
	w.Expect(k.sync(t.Context())).NotTo(Succeed())
	w.Expect(k.Ready(nil)).To(MatchError(And(ContainSubstring("has expired"), ContainSubstring("reading the CA"))))
}

// The publisher writes nothing but the CA, and publishes none that the operator has not made.
func TestThePublisherWritesOnlyTheCA(t *testing.T) {
	w := newWorld(t, nil)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "webhook"}}
	w.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
	before := configuration.DeepCopy()
	p := &Publisher{Client: w.client, Secret: client.ObjectKey{Namespace: "own", Name: "ca"}, Configuration: "webhook", Clock: w.clock}
	w.Expect(p.sync(t.Context())).To(MatchError(ContainSubstring("the operator has not made the CA")))
	w.sync(w.replica())
	w.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
	w.Expect(configuration.Webhooks[0].ClientConfig.CABundle).NotTo(BeEmpty())
	configuration.Webhooks[0].ClientConfig.CABundle, configuration.ResourceVersion = nil, before.ResourceVersion
	w.Expect(configuration).To(Equal(before))
}
