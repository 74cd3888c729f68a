// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Secrets that cannot be used are compared often, but read and checked again only when one has changed.
func TestWhatDoesNotChangeIsNotCheckedAgain(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e", Generation: 1}}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{TLS: &v1alpha1.BackupTLS{TLSCASecretRef: v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: "ca"}}}}
	etcd.Spec.Backup.TLS.ServerTLSSecretRef.Name = "server"
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"ca.crt": []byte("x"), "tls.crt": []byte("x"), "tls.key": []byte("x")}}
	}
	api := apitest.API(etcd, secret("ca"), secret("server"))
	whole, compared := 0, 0
	counted := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				whole++
			} else {
				compared++
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	m := &Mover{Access: state.Access{Client: counted, API: counted, Clock: clock}}
	check := func(says string) {
		t.Helper()
		_, err := m.checkSecrets(t.Context(), etcd)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
	check("has no CA certificates")
	g.Expect(whole).To(Equal(2))
	for range 20 {
		clock.SetTime(clock.Now().Add(recheckBrokenSecrets))
		check("has no CA certificates")
	}
	g.Expect(whole).To(Equal(2), "read while nothing changed")
	compared = 0
	clock.SetTime(clock.Now().Add(recheckBrokenSecrets - 1))
	check("has no CA certificates")
	g.Expect(compared).To(BeZero(), "compared just now")
	clock.SetTime(clock.Now().Add(1))
	check("has no CA certificates")
	g.Expect(compared).NotTo(BeZero())

	g.Expect(api.Delete(t.Context(), secret("server"))).To(Succeed())
	clock.SetTime(clock.Now().Add(recheckBrokenSecrets))
	check("Secret server does not exist")
	whole = 0
	g.Expect(api.Create(t.Context(), secret("server"))).To(Succeed())
	clock.SetTime(clock.Now().Add(recheckBrokenSecrets))
	check("has no CA certificates")
	g.Expect(whole).To(Equal(2))

	clock.SetTime(clock.Now().Add(recheckSecrets))
	check("has no CA certificates")
	g.Expect(whole).To(Equal(4), "the time may have made a certificate valid")
}
