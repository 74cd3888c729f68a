// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func caRef(name string) v1alpha1.CASecretReference {
	return v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: name}}
}

func clientTLS(e *v1alpha1.Etcd) {
	e.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{
		TLSCASecretRef: caRef("ca"), ServerTLSSecretRef: v1alpha1.SecretReference{Name: "server"}, ClientTLSSecretRef: v1alpha1.SecretReference{Name: "client"},
	}
}

func peerTLS(e *v1alpha1.Etcd) {
	e.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{TLSCASecretRef: caRef("ca"), ServerTLSSecretRef: v1alpha1.SecretReference{Name: "server"}}
}

// issue creates valid Secrets and returns the CA.
func (w *world) issue() *certs.CA {
	w.T.Helper()
	ca, err := certs.NewCA("ca")
	w.Expect(err).NotTo(HaveOccurred())
	w.put("ca", map[string][]byte{"ca.crt": ca.PEM})
	w.putPair(ca, "server")
	w.putPair(ca, "client", certs.ClientOnly)
	return ca
}

func (w *world) putPair(ca *certs.CA, secret string, changes ...certs.Change) {
	w.T.Helper()
	pair, err := ca.Issue([]string{fmt.Sprintf("*.%s-peer.%s.svc", name, w.Namespace)}, changes...)
	w.Expect(err).NotTo(HaveOccurred())
	w.put(secret, map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key})
}

// put creates or updates a Secret.
func (w *world) put(name string, data map[string][]byte) {
	w.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Data: data}
	if err := testEnv.Client.Create(w.T.Context(), secret); apierrors.IsAlreadyExists(err) {
		w.Expect(testEnv.Client.Update(w.T.Context(), secret)).To(Succeed())
	} else {
		w.Expect(err).NotTo(HaveOccurred())
	}
}

func (w *world) tlsReason(g Gomega) string {
	c := w.Status(g).Conditions.Find(v1alpha1.ConditionTLSReady)
	if c == nil {
		return ""
	}
	return c.Reason
}

// replaceOutdated replaces outdated pods like a rollout, but without its guards.
func (w *world) replaceOutdated() {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		set := w.StatefulSet(g)
		g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation), "the update revision is that of the template")
	}).Should(Succeed())
	for i := range w.Members.Names {
		p := w.pod(i)
		w.Get(w, p.Name, p)
		if p.Labels[appsv1.StatefulSetRevisionLabel] == w.StatefulSet(w).Status.UpdateRevision {
			continue
		}
		w.Expect(testEnv.Client.Delete(w.T.Context(), p)).To(Succeed())
		w.Eventually(func(g Gomega) {
			next := w.pod(i)
			w.Get(g, p.Name, next)
			g.Expect(next.UID).NotTo(Equal(p.UID))
			g.Expect(w.Up(i)).To(BeTrue())
		}).Should(Succeed())
	}
}

func (w *world) templateStation(g Gomega) string {
	return w.StatefulSet(g).Spec.Template.Annotations[v1alpha1.AnnotationPeerTLS]
}

func TestNewClusterWithTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, clientTLS, peerTLS)
	for i := range w.Members.Endpoints {
		w.Members.Endpoints[i] = fmt.Sprintf("https://%s:2379", env.PodIP(i))
	}
	w.Members.ListWith("https")
	w.issue()
	o := w.start()
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
	w.Expect(w.Status(w).Conditions.Find(v1alpha1.ConditionTLSReady).Message).To(ContainSubstring("Clients and peers trust the same CA (CN=ca)"))
	w.Expect(w.templateStation(w)).To(Equal(v1alpha1.TLSOn))
	w.writesNothing(o)
}

// One change of the Etcd, two rollouts.
func TestPeerTLSIsSwitchedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	w.eventuallyWell()
	w.issue()
	w.Change(peerTLS)
	w.Eventually(w.templateStation).Should(Equal(v1alpha1.TLSPrepared))
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonCertificatesRollout))
	config := &corev1.ConfigMap{}
	w.Get(w, name+"-config", config)
	w.Expect(config.Data["etcd.conf.yaml"]).To(And(ContainSubstring("listen-peer-urls: http://"), ContainSubstring("peer-transport-security")))
	w.Expect(w.Members.PeerURLs(1)).To(Equal([]string{"http://etcd-main-1:2380"}))
	w.Expect(w.Status(w).ObservedGeneration).To(BeNumerically("<", w.Etcd.Generation), "the spec is not carried out yet")

	w.replaceOutdated()
	w.Eventually(w.templateStation).Should(Equal(v1alpha1.TLSOn))
	w.Expect(w.Members.PeerURLs(1)).To(Equal([]string{"http://etcd-main-1:2380", "https://etcd-main-1:2380"}))
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonPeerTLSRollout))

	w.replaceOutdated()
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))
	w.Eventually(func() []string { return w.Members.PeerURLs(1) }).Should(Equal([]string{"https://etcd-main-1:2380"}))
	w.Get(w, name+"-config", config)
	w.Expect(config.Data["etcd.conf.yaml"]).To(ContainSubstring("listen-peer-urls: https://"))

	w.Expect(testEnv.Client.Patch(t.Context(), w.Etcd, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"etcd":{"peerUrlTls":null}}}`)))).
		To(MatchError(ContainSubstring("etcd.peerUrlTls cannot be removed")))
}

// A running cluster is not changed, a new one gets no StatefulSet, and both report why.
func TestBrokenSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, clientTLS)
	w.Members.Endpoints[0] = fmt.Sprintf("https://%s:2379", env.PodIP(0))
	o := w.start()
	w.untilInvalid("Secret ca does not exist")
	w.nudge(o)
	err := testEnv.Client.Get(context.Background(), w.Key(name), &appsv1.StatefulSet{})
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue())

	ca := w.issue()
	w.eventuallyWell()
	w.writesNothing(o) // what follows the status is written too
	before := w.versions(w)

	w.putPair(ca, "server", certs.Expired)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"team": "storage"} })
	w.untilInvalid("Secret server has a certificate that expired")
	w.nudge(o)
	w.Expect(w.versions(w)).To(Equal(before))
	w.Expect(w.condition(w, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	// Drift is still repaired.
	w.Expect(testEnv.Client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name + "-client"}})).To(Succeed())
	w.Eventually(func(g Gomega) { w.Get(g, name+"-client", &corev1.Service{}) }).Should(Succeed())

	w.putPair(ca, "server")
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Spec.Template.Labels).To(HaveKeyWithValue("team", "storage"))
	}).Should(Succeed())
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).LastErrors).To(BeEmpty()) }).Should(Succeed())
}

func (w *world) untilInvalid(message string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		c := status.Conditions.Find(v1alpha1.ConditionTLSReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonSecretInvalid))
		g.Expect(c.Message).To(ContainSubstring(message))
		g.Expect(status.LastErrors).To(HaveLen(1))
		g.Expect(status.LastErrors[0].Code).To(Equal(v1alpha1.ErrTLSSecret))
	}).Should(Succeed())
	w.Eventually(func(g Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(testEnv.Client.List(context.Background(), list, client.InNamespace(w.Namespace))).To(Succeed())
		var notes []string
		for _, e := range list.Items {
			if e.Reason == v1alpha1.ReasonSecretInvalid {
				notes = append(notes, e.Note)
			}
		}
		g.Expect(notes).To(ContainElement(ContainSubstring(message)))
	}).Should(Succeed())
}

// etcd reads its CA at the start: a new CA changes the template.
func TestChangedCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, clientTLS)
	w.Members.Endpoints[0] = fmt.Sprintf("https://%s:2379", env.PodIP(0))
	ca := w.issue()
	w.start()
	w.eventuallyWell()
	checksum := func() string {
		return w.StatefulSet(w).Spec.Template.Annotations[v1alpha1.AnnotationCAChecksum]
	}
	before := checksum()
	w.Expect(before).NotTo(BeEmpty())
	other, err := certs.NewCA("next")
	w.Expect(err).NotTo(HaveOccurred())
	w.put("ca", map[string][]byte{"ca.crt": append(append([]byte{}, ca.PEM...), other.PEM...)})
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile))
	w.Eventually(checksum).Should(And(Not(BeEmpty()), Not(Equal(before))))
}

func TestSecretsOfOtherNamespacesAreRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: testEnv.Namespace(t), Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	peerTLS(etcd)
	g.Expect(testEnv.Client.Create(t.Context(), etcd.DeepCopy(), client.DryRunAll)).To(Succeed())
	etcd.Spec.Etcd.PeerURLTLS.ServerTLSSecretRef.Namespace = "kube-system"
	g.Expect(testEnv.Client.Create(t.Context(), etcd, client.DryRunAll)).To(MatchError(ContainSubstring("create the Secret in the namespace of the Etcd")))
}
