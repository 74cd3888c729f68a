//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managed switches on managed TLS with certificates that are renewed after a minute. The writer and helpers use the Secret for
// applications, as it is when they connect.
func managed(c *cluster, e *v1alpha1.Etcd) {
	e.Spec.ManagedTLS = &v1alpha1.ManagedTLS{
		Duration: &metav1.Duration{Duration: time.Hour}, RenewBefore: &metav1.Duration{Duration: 59 * time.Minute},
	}
	clientSecret := e.ClientSecret()
	c.tls = func(pod *corev1.Pod) *tls.Config {
		secret := &corev1.Secret{}
		c.Expect(kube.Get(context.Background(), client.ObjectKey{Namespace: c.namespace, Name: clientSecret}, secret)).To(Succeed())
		of, err := measure.TLSFrom(secret)
		c.Expect(err).NotTo(HaveOccurred())
		return of(pod)
	}
}

// shownBy returns the certificate that a member presents to clients.
func (c *cluster) shownBy(g Gomega, i int) *x509.Certificate {
	certificate, err := x509.ParseCertificate(c.shown(g, i, 2379))
	g.Expect(err).NotTo(HaveOccurred())
	return certificate
}

// One field is enough for TLS. Certificates are renewed without a restart.
func TestManagedTLS(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, managed)
	c.tlsReady(v1alpha1.ReasonTLSInUse)
	c.Expect(c.peerURLs(c)).To(HaveEach(HavePrefix("https://")))
	uids := c.uidsAt(c.statefulSet(c).Status.UpdateRevision)
	before := c.shown(c, 0, 2379)
	c.Eventually(func(g Gomega) { g.Expect(bytes.Equal(c.shown(g, 0, 2379), before)).To(BeFalse()) }).Should(Succeed())
	c.ready()
	c.stillThere(uids)
	c.Expect(c.rollouts(c)).To(BeEmpty())
	c.neverTookTheQuorum()
	c.writesSurvive()
}

// The CAs of a cluster under writes are renewed: a rollout, and then certificates of the new CA.
func TestManagedTLSRenewsItsCA(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, managed)
	c.tlsReady(v1alpha1.ReasonTLSInUse)
	first := c.shownBy(c, 0).Issuer.CommonName
	c.patch(func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationOperation, v1alpha1.OperationRenewCA)
	})
	done := c.untilSucceeded()
	c.eachReplacedOnce(done)
	c.Expect(c.shownBy(c, 0).Issuer.CommonName).To(Equal(first), "the new CA signs nothing yet")
	// Do not wait for clients that have to be restarted.
	for _, connection := range v1alpha1.TLSConnections() {
		secret := &corev1.Secret{}
		c.Expect(kube.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: c.etcd(c).CAKeySecret(connection)}, secret)).To(Succeed())
		before := client.MergeFrom(secret.DeepCopy())
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationNextCASignsFrom, time.Now().UTC().Format(time.RFC3339))
		c.Expect(kube.Patch(t.Context(), secret, before)).To(Succeed())
	}
	c.Eventually(func(g Gomega) {
		for i := range 3 {
			g.Expect(c.shownBy(g, i).Issuer.CommonName).NotTo(Equal(first), "member %d", i)
		}
	}).WithTimeout(10 * time.Minute).Should(Succeed())
	c.ready()
	c.tlsReady(v1alpha1.ReasonTLSInUse)
	c.Expect(c.rollouts(c)).To(HaveLen(1))
	c.neverTookTheQuorum()
	c.writesSurvive()
}
