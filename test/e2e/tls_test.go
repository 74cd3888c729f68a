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
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the Secrets.
const (
	caSecret     = "ca"
	serverSecret = "server"
	clientSecret = "client"
	peerSecret   = "peer"
)

// issue creates the Secrets of a cluster and configures the writer and helpers for members with TLS.
func issue(c *cluster, _ *v1alpha1.Etcd) {
	c.t.Helper()
	ca, err := certs.NewCA(c.namespace)
	c.Expect(err).NotTo(HaveOccurred())
	c.put(caSecret, map[string][]byte{"ca.crt": ca.PEM})
	c.putPair(ca, serverSecret)
	c.putPair(ca, peerSecret)
	client := c.putPair(ca, clientSecret, certs.ClientOnly)
	pair, err := tls.X509KeyPair(client.Certificate, client.Key)
	c.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	c.ca = ca
	c.tls = func(pod *corev1.Pod) *tls.Config {
		if pod.Annotations[v1alpha1.AnnotationClientTLS] != v1alpha1.TLSOn {
			return nil
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair},
			ServerName: fmt.Sprintf("%s.%s-peer.%s.svc", pod.Name, etcdName, c.namespace),
		}
	}
}

// useTLS enables client and peer TLS.
func useTLS(_ *cluster, e *v1alpha1.Etcd) {
	ca := v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: caSecret}}
	e.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{
		TLSCASecretRef:     ca,
		ServerTLSSecretRef: v1alpha1.SecretReference{Name: serverSecret},
		ClientTLSSecretRef: v1alpha1.SecretReference{Name: clientSecret},
	}
	e.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{TLSCASecretRef: ca, ServerTLSSecretRef: v1alpha1.SecretReference{Name: peerSecret}}
}

func (c *cluster) putPair(ca *certs.CA, name string, changes ...certs.Change) certs.Pair {
	c.t.Helper()
	pair, err := ca.Issue([]string{fmt.Sprintf("*.%s-peer.%s.svc", etcdName, c.namespace)}, changes...)
	c.Expect(err).NotTo(HaveOccurred())
	c.put(name, map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key})
	return pair
}

// put creates or updates a Secret.
func (c *cluster) put(name string, data map[string][]byte) {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Data: data}
	err := kube.Create(c.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = kube.Update(c.t.Context(), secret)
	}
	c.Expect(err).NotTo(HaveOccurred())
}

// tlsReady waits until the condition has a reason, and returns its message.
func (c *cluster) tlsReady(reason string) string {
	c.t.Helper()
	var condition *metav1.Condition
	c.Eventually(func(g Gomega) {
		condition = c.etcd(g).Status.Conditions.Find(v1alpha1.ConditionTLSReady)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
	}).Should(Succeed())
	return condition.Message
}

// peerURLs returns the peer URLs of the member list.
func (c *cluster) peerURLs(g Gomega) []string {
	m := c.member(g, 0)
	defer func() { _ = m.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	members, err := m.Members(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	var urls []string
	for _, member := range members {
		urls = append(urls, member.PeerURLs...)
	}
	return urls
}

// shown returns the certificate that a member presents on a port.
func (c *cluster) shown(g Gomega, i, port int) []byte {
	pod := c.pod(g, i)
	dialer := &tls.Dialer{Config: c.tls(pod)}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", pod.Status.PodIP, port))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
}

// A cluster with TLS from the start is rolled like any other, and uses a new certificate without a restart.
func TestTLSFromTheStart(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, issue, useTLS)
	c.Expect(c.tlsReady(v1alpha1.ReasonTLSInUse)).To(ContainSubstring("The first certificate to expire is that in Secret"))
	c.Expect(c.peerURLs(c)).To(HaveEach(HavePrefix("https://")))

	// A client without a certificate is refused.
	stranger := c.tls(c.pod(c, 0)).Clone()
	stranger.Certificates = nil
	withCertificates := c.tls
	c.tls = func(*corev1.Pod) *tls.Config { return stranger }
	m := c.member(c, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := m.Status(ctx)
	c.Expect(err).To(HaveOccurred())
	_ = m.Close()
	c.tls = withCertificates

	c.untilLeasesShowMembers()

	leader := c.leader()
	planned := c.planned(c.plugin(), "--restart")
	c.Expect(planned).To(HaveLen(3))
	c.Expect(planned[2]).To(Equal(podName(leader)), "the plugin reads roles over TLS")
	c.change("1")
	done := c.untilSucceeded()
	c.Expect(done.Status.Rollout.Pods).To(HaveLen(3))
	c.Expect(done.Status.Rollout.Pods[2].Name).To(Equal(podName(leader)), "roles are read over TLS")
	c.ready()

	uids := c.uidsAt(c.statefulSet(c).Status.UpdateRevision)
	before := map[int][]byte{2379: c.shown(c, 0, 2379), 2380: c.shown(c, 0, 2380)}
	c.putPair(c.ca, serverSecret)
	c.putPair(c.ca, peerSecret)
	c.putPair(c.ca, clientSecret, certs.ClientOnly)
	c.Eventually(func(g Gomega) {
		for i := range 3 {
			for port, old := range before {
				g.Expect(bytes.Equal(c.shown(g, i, port), old)).To(BeFalse(), "member %d, port %d", i, port)
			}
		}
	}).Should(Succeed())
	c.ready()
	c.stillThere(uids)
	c.Expect(c.rollouts(c)).To(HaveLen(1))
	c.neverTookTheQuorum()
	c.writesSurvive()
}

// One change of the Etcd enables client and peer TLS in a cluster under writes.
func TestTLSSwitchedOn(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, issue)
	c.Expect(c.peerURLs(c)).To(HaveEach(HavePrefix("http://")))
	from := time.Now()
	c.patch(func(e *v1alpha1.Etcd) { useTLS(c, e) })
	c.Expect(c.tlsReady(v1alpha1.ReasonCertificatesRollout)).To(ContainSubstring("First of two rollouts"))
	c.tlsReady(v1alpha1.ReasonPeerTLSRollout)
	c.tlsReady(v1alpha1.ReasonTLSInUse)
	c.ready()
	took := time.Since(from)
	c.Eventually(c.peerURLs).Should(And(HaveLen(3), HaveEach(HavePrefix("https://"))))
	tasks := c.rollouts(c)
	c.Expect(tasks).To(HaveLen(2))
	for _, task := range tasks {
		c.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
		c.eachReplacedOnce(task)
	}
	c.neverTookTheQuorum()
	report := c.writesSurvive().Between(from, time.Now())
	t.Logf("switched on in %s, longest gap %s", took, report.LongestGap)
	c.Expect(report.LongestGap).To(BeNumerically("<", gap))
}

// An invalid Secret changes nothing in a running cluster, and is reported.
func TestBrokenTLSSecret(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(1, issue, useTLS)
	revision := c.statefulSet(c).Status.UpdateRevision
	uids := c.uidsAt(revision)
	c.putPair(c.ca, serverSecret, certs.Expired)
	c.change("1")
	c.Expect(c.tlsReady(v1alpha1.ReasonSecretInvalid)).To(ContainSubstring("Secret server has a certificate that expired"))
	c.Expect(c.statefulSet(c).Status.UpdateRevision).To(Equal(revision))
	c.stillThere(uids)
	c.Expect(c.rollouts(c)).To(BeEmpty())

	c.putPair(c.ca, serverSecret)
	c.untilSucceeded()
	c.ready()
	c.tlsReady(v1alpha1.ReasonTLSInUse)
	c.writesSurvive()
}
