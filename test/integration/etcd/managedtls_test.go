// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func managed(e *v1alpha1.Etcd) { e.Spec.ManagedTLS = &v1alpha1.ManagedTLS{} }

// shiftedClock is ahead of the clock by what a test has added.
type shiftedClock struct{ ahead atomic.Int64 }

func (c *shiftedClock) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c *shiftedClock) add(d time.Duration)             { c.ahead.Add(int64(d)) }
func (c *shiftedClock) set(to time.Time)                { c.ahead.Store(int64(time.Until(to))) }

// overTLS has the members serve clients and peers over TLS from the start.
func (w *world) overTLS() {
	for i := range w.Members.Endpoints {
		w.Members.Endpoints[i] = fmt.Sprintf("https://%s:2379", env.PodIP(i))
	}
	w.Members.ListWith("https")
}

func (w *world) secret(g Gomega, name string) *corev1.Secret {
	secret := &corev1.Secret{}
	w.Get(g, name, secret)
	return secret
}

// issuer returns who has signed the certificate in a Secret.
func (w *world) issuer(g Gomega, secret string) string {
	block, _ := pem.Decode(w.secret(g, secret).Data["tls.crt"])
	g.Expect(block).NotTo(BeNil())
	c, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	return c.Issuer.CommonName
}

// trusted returns how many CAs a bundle has.
func (w *world) trusted(g Gomega, connection v1alpha1.TLSConnection) int {
	n := 0
	for rest := w.secret(g, w.Etcd.CASecret(connection)).Data["ca.crt"]; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return n
		}
	}
}

func (w *world) checksum() string {
	return w.StatefulSet(w).Spec.Template.Annotations[v1alpha1.AnnotationCAChecksum]
}

// events returns the reasons of the events of the Etcd.
func (w *world) events(g Gomega) (reasons []string) {
	list := &eventsv1.EventList{}
	g.Expect(testEnv.Client.List(context.Background(), list, client.InNamespace(w.Namespace))).To(Succeed())
	for _, e := range list.Items {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

// settle lets the time pass that a change takes to reach all pods. The operator looks often enough.
func (w *world) settle(o *operator, clock *shiftedClock) {
	w.T.Helper()
	for range 4 {
		clock.add(110 * time.Second)
		w.nudge(o)
	}
}

// A whole life: a new cluster, certificates that are renewed without a restart, and CAs that are renewed by two rollouts.
func TestManagedTLS(t *testing.T) {
	t.Parallel()
	w, clock := newWorld(t, 3, managed), &shiftedClock{}
	w.overTLS()
	o := w.start(at(clock))
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
	w.Expect(w.templateStation(w)).To(Equal(v1alpha1.TLSOn))
	w.Eventually(w.events).Should(ContainElements(v1alpha1.ReasonCACreated, v1alpha1.ReasonCertificateIssued))
	for _, volume := range w.StatefulSet(w).Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			w.Expect(volume.Secret.SecretName).NotTo(HaveSuffix("-ca-key"), "no pod has the key of a CA")
		}
	}
	all := []string{"-server-tls", "-operator-tls", "-client-tls", "-peer-tls", "-agent-tls", "-client-ca-key", "-client-ca", "-peer-ca-key", "-peer-ca", "-agent-ca-key", "-agent-ca"}
	before := map[string]string{}
	for _, suffix := range all {
		secret := w.secret(w, name+suffix)
		w.Expect(metav1.IsControlledBy(secret, w.Etcd)).To(BeTrue())
		before[suffix] = secret.ResourceVersion
	}
	w.Expect(w.secret(w, name+"-client-tls").Data).To(And(HaveKey("ca.crt"), HaveKey("tls.crt"), HaveKey("tls.key")))
	w.writesNothing(o, "nothing is written while nothing is due")

	revision := w.StatefulSet(w).Status.UpdateRevision
	clock.add(61 * 24 * time.Hour)
	w.nudge(o)
	for _, suffix := range all {
		changed := suffix[len(suffix)-4:] == "-tls"
		w.Expect(w.secret(w, name+suffix).ResourceVersion != before[suffix]).To(Equal(changed), suffix)
	}
	w.nudge(o)
	w.Expect(w.StatefulSet(w).Status.UpdateRevision).To(Equal(revision), "nothing is restarted")
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))

	// The renewal of the CAs begins.
	first := w.issuer(w, name+"-server-tls")
	checksum := w.checksum()
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationRenewCA))
	w.Eventually(func(g Gomega) {
		w.Get(g, name, w.Etcd)
		g.Expect(w.Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationOperation))
	}).Should(Succeed())
	for _, c := range v1alpha1.TLSConnections() {
		w.Expect(w.trusted(w, c)).To(Equal(2), string(c))
	}
	w.Eventually(w.checksum).ShouldNot(Equal(checksum))
	w.Eventually(w.tlsMessage).Should(ContainSubstring("signs nothing until every member trusts it"))
	clock.add(7 * 24 * time.Hour)
	w.settle(o, clock)
	both, issuer := w.checksum(), w.issuer(w, name+"-server-tls")
	w.Expect(issuer).To(Equal(first), "members that are not replaced do not trust the new CA")

	// One of three is left out: nothing happens.
	w.replaceOutdated()
	w.eventuallyWell()
	w.Kubelet.Set(pod(1), env.NotReady)
	w.settle(o, clock)
	issuer = w.issuer(w, name+"-server-tls")
	w.Expect(issuer).To(Equal(first))
	w.Kubelet.Set(pod(1), env.Ready)
	w.eventuallyWell()
	clock.add(110 * time.Second)
	w.nudge(o)
	clock.add(10 * time.Minute)
	w.nudge(o)
	issuer = w.issuer(w, name+"-server-tls")
	w.Expect(issuer).To(Equal(first), "a gap in which nobody looked does not count")
	w.settle(o, clock)
	w.Eventually(func(g Gomega) {
		for _, suffix := range []string{"-server-tls", "-operator-tls", "-client-tls"} {
			issuer := w.issuer(g, name+suffix)
			g.Expect(issuer).NotTo(Equal(first), suffix)
		}
	}).Should(Succeed())
	for _, c := range v1alpha1.TLSConnections() {
		w.Expect(w.trusted(w, c)).To(Equal(2), string(c))
	}
	w.Expect(w.checksum()).To(Equal(both))
	w.Eventually(w.tlsMessage).Should(ContainSubstring("the previous CA is trusted until"))

	// The last certificate of the old CA expires.
	clock.add(82 * 24 * time.Hour)
	w.settle(o, clock)
	w.Expect(w.trusted(w, v1alpha1.TLSClients)).To(Equal(2))
	clock.add(2 * 24 * time.Hour)
	w.settle(o, clock)
	w.Eventually(func(g Gomega) {
		for _, c := range v1alpha1.TLSConnections() {
			g.Expect(w.trusted(g, c)).To(Equal(1), string(c))
		}
	}).Should(Succeed())
	w.Eventually(w.checksum).ShouldNot(Equal(both))
	w.replaceOutdated()
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
	w.Expect(w.secret(w, name+"-client-tls").Data["ca.crt"]).To(Equal(w.secret(w, name+"-client-ca").Data["ca.crt"]))
	w.Eventually(w.events).Should(ContainElements(v1alpha1.ReasonCARenewalStarted, v1alpha1.ReasonCARenewed, v1alpha1.ReasonCARetired))
}

func (w *world) tlsMessage(g Gomega) string {
	c := w.Status(g).Conditions.Find(v1alpha1.ConditionTLSReady)
	g.Expect(c).NotTo(BeNil())
	return c.Message
}

// Managed TLS is switched on in a running cluster as TLS with Secrets of the user is.
func TestManagedTLSIsSwitchedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	w.eventuallyWell()
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.ManagedTLS = &v1alpha1.ManagedTLS{Connections: []v1alpha1.TLSConnection{v1alpha1.TLSPeers}}
	})
	w.Eventually(w.templateStation).Should(Equal(v1alpha1.TLSPrepared))
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonCertificatesRollout))
	w.replaceOutdated()
	w.Eventually(w.templateStation).Should(Equal(v1alpha1.TLSOn))
	w.replaceOutdated()
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
	w.Expect(testEnv.Client.Patch(t.Context(), w.Etcd, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"managedTLS":null}}`)))).
		To(MatchError(ContainSubstring("managedTLS cannot be removed")))
	w.Expect(testEnv.Client.Patch(t.Context(), w.Etcd, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"managedTLS":{"connections":["Clients"]}}}`)))).
		To(MatchError(ContainSubstring("managedTLS cannot be removed")))

	w.Expect(testEnv.Client.Delete(t.Context(), w.Etcd)).To(Succeed())
	for _, secret := range []string{"-peer-ca-key", "-peer-ca", "-peer-tls"} {
		w.Eventually(func() bool {
			return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), w.Key(name+secret), &corev1.Secret{}))
		}).Should(BeTrue(), "Secret %s goes with the Etcd", secret)
	}
}

// A Secret of a name that the Etcd needs is left as it is, and reported.
func TestManagedTLSLeavesForeignSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, managed)
	w.overTLS()
	foreign := map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")}
	w.put(name+"-server-tls", foreign)
	o := w.start()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonSecretInvalid))
	w.Eventually(w.tlsMessage).Should(ContainSubstring("has no controller"))
	w.Eventually(w.events).Should(ContainElement(v1alpha1.ReasonSecretInvalid))
	w.Eventually(func(g Gomega) {
		c := w.Status(g).Conditions.Find(v1alpha1.ConditionObjectsOwned)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(c.Message).To(ContainSubstring("Secret " + w.Namespace + "/" + name + "-server-tls"))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(w.secret(w, name+"-server-tls").Data).To(Equal(foreign))
	err := testEnv.Client.Get(t.Context(), w.Key(name+"-client-ca-key"), &corev1.Secret{})
	w.Expect(client.IgnoreNotFound(err)).To(Succeed())
	w.Expect(err).To(HaveOccurred(), "none of the connection is written")

	w.Expect(testEnv.Client.Delete(t.Context(), w.secret(w, name+"-server-tls"))).To(Succeed())
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
}

// A CA that was lost is not replaced by itself.
func TestManagedTLSWithALostCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, managed)
	w.overTLS()
	o := w.start()
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
	lost := w.secret(w, name+"-peer-ca-key")
	w.Expect(testEnv.Client.Delete(t.Context(), lost)).To(Succeed())
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile))
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonCertificatesNotRenewed))
	w.Eventually(w.tlsMessage).Should(ContainSubstring("Secret " + name + "-peer-ca-key does not exist"))
	w.nudge(o)
	w.Expect(testEnv.Client.Get(t.Context(), w.Key(lost.Name), &corev1.Secret{})).NotTo(Succeed())
	w.Expect(w.Status(w).Ready).To(HaveValue(BeTrue()))

	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationRenewCA))
	w.Eventually(func(g Gomega) { g.Expect(w.trusted(g, v1alpha1.TLSPeers)).To(Equal(2)) }).Should(Succeed())
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
}

func TestManagedTLSIsValidated(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := testEnv.Namespace(t)
	create := func(change ...func(*v1alpha1.Etcd)) error {
		e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
		for _, c := range change {
			c(e)
		}
		return testEnv.Client.Create(t.Context(), e, client.DryRunAll)
	}
	of := func(change func(*v1alpha1.ManagedTLS)) func(*v1alpha1.Etcd) {
		return func(e *v1alpha1.Etcd) {
			managed(e)
			change(e.Spec.ManagedTLS)
		}
	}
	hours := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Hour} }
	g.Expect(create(managed)).To(Succeed())
	g.Expect(create(managed, clientTLS)).To(MatchError(ContainSubstring("set managedTLS.connections without Clients")))
	g.Expect(create(managed, peerTLS)).To(MatchError(ContainSubstring("set managedTLS.connections without Peers")))
	g.Expect(create(clientTLS, of(func(m *v1alpha1.ManagedTLS) { m.Connections = []v1alpha1.TLSConnection{v1alpha1.TLSPeers} }))).To(Succeed())
	g.Expect(create(of(func(m *v1alpha1.ManagedTLS) { m.RenewBefore = hours(2160) }))).To(MatchError(ContainSubstring("renewBefore must be shorter")))
	g.Expect(create(of(func(m *v1alpha1.ManagedTLS) { m.CARenewBefore = hours(2000) }))).To(MatchError(ContainSubstring("caRenewBefore must be at least duration")))
	g.Expect(create(of(func(m *v1alpha1.ManagedTLS) { m.CADuration = hours(4000) }))).To(MatchError(ContainSubstring("caRenewBefore must be shorter")))
	g.Expect(create(of(func(m *v1alpha1.ManagedTLS) { m.Duration, m.RenewBefore = hours(0), hours(0) }))).To(MatchError(ContainSubstring("duration must be at least 1h")))
	g.Expect(create(of(func(m *v1alpha1.ManagedTLS) { m.ServerDNSNames = []string{"*.example.com", "etcd.example.com"} }))).To(Succeed())
	g.Expect(create(of(func(m *v1alpha1.ManagedTLS) { m.ServerDNSNames = []string{"https://example.com"} }))).NotTo(Succeed())
}
