// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	clientIssuer = "clients"
	peerIssuer   = "peers"
)

// byIssuers has cert-manager issue the certificates.
func byIssuers(e *v1alpha1.Etcd) {
	e.Spec.ManagedTLS = &v1alpha1.ManagedTLS{
		IssuerRef: &v1alpha1.IssuerReference{Name: clientIssuer}, PeerIssuerRef: &v1alpha1.IssuerReference{Name: peerIssuer},
	}
}

// certManager is the path of the program with cert-manager's controllers.
func certManager(t *testing.T) string {
	path := filepath.Join(testEnv.Assets(), "certmanager")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("cert-manager is not built (make assets builds it): %v", err)
	}
	return path
}

// installCertManager creates the CRDs of cert-manager, from its module.
func (w *world) installCertManager() {
	w.T.Helper()
	out, err := exec.Command("go", "-C", "../../tools/certmanager", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	w.Expect(err).NotTo(HaveOccurred())
	for _, kind := range []string{"certificates", "certificaterequests", "issuers", "clusterissuers"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "deploy/crds/cert-manager.io_"+kind+".yaml"))
		w.Expect(err).NotTo(HaveOccurred())
		crd := &unstructured.Unstructured{}
		w.Expect(yaml.Unmarshal(data, &crd.Object)).To(Succeed())
		if err := testEnv.Client.Create(w.T.Context(), crd); !apierrors.IsAlreadyExists(err) {
			w.Expect(err).NotTo(HaveOccurred())
		}
		w.Eventually(func() error {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("cert-manager.io/v1")
			list.SetKind(crd.Object["spec"].(map[string]any)["names"].(map[string]any)["kind"].(string) + "List")
			return testEnv.Client.List(w.T.Context(), list)
		}).Should(Succeed())
	}
}

// startCertManager runs cert-manager's controllers until the test ends.
func (w *world) startCertManager(program string) {
	w.T.Helper()
	machine.Run(w.T, exec.Command(program, machine.WriteFile(w.T, "kubeconfig", testEnv.Kubeconfig())))
}

// caIssuer creates an issuer with a CA of its own, or replaces the CA of the one that there is.
func (w *world) caIssuer(issuer string) {
	w.T.Helper()
	ca, err := certs.NewCA(issuer, func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(3, 0, 0) })
	w.Expect(err).NotTo(HaveOccurred())
	w.put(issuer+"-ca", map[string][]byte{"tls.crt": ca.PEM, "tls.key": ca.Key})
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ca": map[string]any{"secretName": issuer + "-ca"}}}}
	o.SetAPIVersion("cert-manager.io/v1")
	o.SetKind("Issuer")
	o.SetNamespace(w.Namespace)
	o.SetName(issuer)
	if err := testEnv.Client.Create(w.T.Context(), o); !apierrors.IsAlreadyExists(err) {
		w.Expect(err).NotTo(HaveOccurred())
	}
}

func (w *world) certificate(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("cert-manager.io/v1")
	o.SetKind("Certificate")
	o.SetNamespace(w.Namespace)
	o.SetName(name)
	return o
}

// reissue has cert-manager issue a certificate again, and waits for it.
func (w *world) reissue(name string) {
	w.T.Helper()
	before := w.secret(w, name+"-issued")
	w.Expect(testEnv.Client.Delete(w.T.Context(), before)).To(Succeed())
	w.Eventually(func(g Gomega) {
		after := w.secret(g, name+"-issued")
		g.Expect(after.Data["tls.crt"]).NotTo(Or(BeEmpty(), Equal(before.Data["tls.crt"])))
	}).Should(Succeed())
}

// With the controllers of cert-manager: a new cluster, certificates that are renewed without a restart, and a CA that changes.
func TestCertManager(t *testing.T) {
	program := certManager(t)
	w, clock := newWorld(t, 3, byIssuers), &shiftedClock{}
	w.overTLS()
	o := w.start(at(clock))
	w.Eventually(w.tlsMessage).Should(ContainSubstring("cert-manager is not installed"))
	w.installCertManager()
	w.Eventually(w.tlsMessage).Should(ContainSubstring("Issuer clients does not exist: create it"))
	w.startCertManager(program)
	w.caIssuer(clientIssuer)
	w.caIssuer(peerIssuer)
	w.eventuallyWell()
	w.Eventually(w.tlsReason).Should(Equal(v1alpha1.ReasonTLSInUse))

	for _, suffix := range []string{"-server-tls", "-operator-tls", "-client-tls", "-peer-tls", "-agent-tls"} {
		certificate := w.certificate(name + suffix)
		w.Get(w, certificate.GetName(), certificate)
		w.Expect(metav1.IsControlledBy(certificate, w.Etcd)).To(BeTrue())
		secret := w.secret(w, name+suffix)
		w.Expect(metav1.IsControlledBy(secret, w.Etcd)).To(BeTrue())
		w.Expect(secret.Data["tls.crt"]).To(Equal(w.secret(w, name+suffix+"-issued").Data["tls.crt"]))
	}
	w.Expect(w.secret(w, name+"-client-ca-key").Data).NotTo(HaveKey("tls.key"), "the operator has no key of the CA")
	w.Expect(w.secret(w, name+"-client-ca").Data["ca.crt"]).NotTo(Equal(w.secret(w, name+"-peer-ca").Data["ca.crt"]))
	revision, checksum := w.StatefulSet(w).Status.UpdateRevision, w.checksum()

	// A certificate is renewed.
	w.reissue(name + "-server-tls")
	clock.add(61 * 24 * time.Hour)
	w.Eventually(func(g Gomega) {
		w.nudge(o)
		g.Expect(w.secret(g, name+"-server-tls").Data["tls.crt"]).To(Equal(w.secret(g, name+"-server-tls-issued").Data["tls.crt"]))
	}).Should(Succeed())
	w.Expect(w.StatefulSet(w).Status.UpdateRevision).To(Equal(revision), "nothing is restarted")

	// The issuer's CA is replaced.
	used := w.secret(w, name+"-server-tls").Data["tls.crt"]
	w.caIssuer(clientIssuer)
	w.reissue(name + "-server-tls")
	clock.add(2 * time.Minute)
	w.nudge(o)
	w.Eventually(func(g Gomega) { g.Expect(w.trusted(g, v1alpha1.TLSClients)).To(Equal(2)) }).Should(Succeed())
	w.Eventually(w.checksum).ShouldNot(Equal(checksum))
	clock.add(7*24*time.Hour + time.Hour)
	w.settle(o, clock)
	w.Expect(w.secret(w, name+"-server-tls").Data["tls.crt"]).To(Equal(used), "members that are not replaced do not trust the new CA")
	w.replaceOutdated()
	w.eventuallyWell()
	w.settle(o, clock)
	w.Eventually(func(g Gomega) {
		w.settle(o, clock)
		g.Expect(w.secret(g, name+"-server-tls").Data["tls.crt"]).To(Equal(w.secret(g, name+"-server-tls-issued").Data["tls.crt"]))
	}).Should(Succeed())
	w.Expect(w.trusted(w, v1alpha1.TLSClients)).To(Equal(2), "the previous CA is trusted until its last certificate expires")

	// A renewal of the CA is not the operator's to begin.
	w.Change(annotate(v1alpha1.AnnotationOperation, v1alpha1.OperationRenewCA))
	w.Eventually(w.events).Should(ContainElement(v1alpha1.ReasonCARenewalIgnored))
}

// What is somebody else's is left as it is: a Secret that cert-manager would overwrite, and a Certificate.
func TestCertManagerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, byIssuers)
	w.installCertManager()
	w.put(name+"-server-tls-issued", map[string][]byte{"password": []byte("x")})
	theirs := w.certificate(name + "-peer-tls")
	theirs.Object["spec"] = map[string]any{"secretName": "theirs", "commonName": "theirs", "issuerRef": map[string]any{"name": "theirs"}}
	w.Expect(testEnv.Client.Create(t.Context(), theirs)).To(Succeed())
	w.start()
	w.Eventually(w.tlsMessage).Should(And(
		ContainSubstring("is not that of Certificate etcd-main-server-tls, which would overwrite it"),
		ContainSubstring(name+"-peer-tls has no controller")))
	w.Expect(w.secret(w, name+"-server-tls-issued").Data).To(Equal(map[string][]byte{"password": []byte("x")}))
	err := testEnv.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name + "-server-tls"}, w.certificate(""))
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "no Certificate is created that would overwrite the Secret")
	after := w.certificate("")
	w.Get(w, theirs.GetName(), after)
	w.Expect(after.Object["spec"]).To(Equal(theirs.Object["spec"]))
	w.Expect(apierrors.IsNotFound(testEnv.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name + "-server-tls"}, &corev1.Secret{}))).To(BeTrue())
}
