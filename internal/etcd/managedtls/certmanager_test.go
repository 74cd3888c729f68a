// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package managedtls

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// issuing is a world whose certificates for clients come from an issuer of cert-manager. Its API server has what is put there, and nothing else of
// cert-manager's.
type issuing struct {
	*world
	objects map[string]*unstructured.Unstructured
	// fails is what a request for an object of a kind fails with, by verb and kind.
	fails  map[string]error
	wrote  []string
	frozen bool
}

func newIssuing(t *testing.T) *issuing {
	i := &issuing{world: newWorld(t), objects: map[string]*unstructured.Unstructured{}, fails: map[string]error{}}
	i.etcd.Spec.ManagedTLS = &v1alpha1.ManagedTLS{Connections: []v1alpha1.TLSConnection{v1alpha1.TLSClients}, IssuerRef: &v1alpha1.IssuerReference{Name: "corporate"}}
	i.put("Issuer", "corporate", fields{"status": fields{"conditions": []any{"nonsense", fields{"type": "Other", "status": "False"}, fields{"type": "Ready", "status": "True"}}}})
	written := func(verb string, o client.Object) error {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return errors.New("not an object of cert-manager")
		}
		if err := i.fails[verb+" "+u.GetKind()]; err != nil {
			return err
		}
		i.wrote = append(i.wrote, verb+" "+u.GetName())
		i.objects[u.GetKind()+" "+u.GetName()] = u.DeepCopy()
		return nil
	}
	i.with(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			u, ok := into.(*unstructured.Unstructured)
			if !ok {
				if err := i.fails["get "+key.Name]; err != nil {
					return err
				}
				return c.Get(ctx, key, into, options...)
			}
			kind := u.GetKind()
			if err := i.fails["get "+kind]; err != nil {
				return err
			}
			live := i.objects[kind+" "+key.Name]
			if live == nil || (key.Namespace == "") != (kind == v1alpha1.KindClusterIssuer) {
				return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
			}
			live.DeepCopyInto(u)
			return nil
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, ok := o.(*unstructured.Unstructured); !ok {
				return c.Create(ctx, o, options...)
			}
			return written("create", o)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if _, ok := o.(*unstructured.Unstructured); !ok {
				return c.Update(ctx, o, options...)
			}
			return written("update", o)
		},
	})
	return i
}

func (i *issuing) put(kind, name string, content fields) {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(certificateKind.GroupVersion().WithKind(kind))
	u.SetName(name)
	i.objects[kind+" "+name] = u
}

func (i *issuing) tries() (Result, error) {
	i.manager.Forget(client.ObjectKeyFromObject(i.etcd))
	return i.manager.Ensure(context.Background(), Request{State: &state.State{Etcd: i.etcd, Snapshot: i.snapshot}, Authorities: i.authorities, Frozen: i.frozen})
}

func (i *issuing) problem() string {
	i.Expect(i.tries()).Error().NotTo(HaveOccurred())
	result, err := i.tries()
	i.Expect(err).NotTo(HaveOccurred())
	if result.Problem == nil {
		return ""
	}
	return result.Problem.Error()
}

const server = "main-server-tls"

// Each certificate is asked for once, with all that it needs, and again where that was changed.
func TestCertificatesAreAskedFor(t *testing.T) {
	i := newIssuing(t)
	i.Expect(i.problem()).To(ContainSubstring("cert-manager has not issued Certificate"))
	i.Expect(i.wrote).NotTo(BeEmpty())
	names := len(i.wrote)
	certificate := i.objects["Certificate "+server]
	i.Expect(certificate).NotTo(BeNil(), "%v", i.wrote)
	i.Expect(certificate.GetNamespace()).To(Equal("ns"))
	i.Expect(metav1.IsControlledBy(certificate, i.etcd)).To(BeTrue())
	i.Expect(certificate.GetLabels()).To(And(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedBy), HaveKeyWithValue(v1alpha1.LabelPartOf, "main")))
	spec := certificate.Object["spec"].(fields)
	i.Expect(spec).To(And(
		HaveKeyWithValue("secretName", server+"-issued"), HaveKeyWithValue("usages", ContainElements("digital signature", "server auth")),
		HaveKeyWithValue("issuerRef", fields{"name": "corporate", "kind": "Issuer", "group": "cert-manager.io"}),
		HaveKeyWithValue("privateKey", HaveKeyWithValue("size", int64(256))), HaveKeyWithValue("dnsNames", ContainElement("*.main-peer.ns.svc"))))
	i.Expect(i.objects["Certificate main-client-tls"].Object["spec"]).NotTo(HaveKey("dnsNames"), "a client is no host")

	i.problem()
	i.Expect(i.wrote).To(HaveLen(names), "it is as it should be")
	spec["usages"], spec["revisionHistoryLimit"] = []any{"any"}, int64(3)
	i.problem()
	i.Expect(i.wrote[names:]).To(Equal([]string{"update " + server}))
	changed := i.objects["Certificate "+server].Object["spec"].(fields)
	i.Expect(changed).To(And(HaveKeyWithValue("usages", ContainElement("server auth")), HaveKeyWithValue("revisionHistoryLimit", int64(3))), "what it does not need is left alone")

	delete(i.objects["Certificate "+server].Object, "spec")
	i.problem()
	i.Expect(i.objects["Certificate "+server].Object["spec"]).To(HaveKeyWithValue("secretName", server+"-issued"))
	i.wrote = i.wrote[:names+1]

	i.frozen = true
	changed = i.objects["Certificate "+server].Object["spec"].(fields)
	changed["usages"] = []any{"any"}
	i.problem()
	i.Expect(i.wrote[names:]).To(HaveLen(1), "while the spec is not carried out, nothing is")
	delete(i.objects, "Certificate "+server)
	i.Expect(i.problem()).To(ContainSubstring("is not created while the spec is not carried out"))
	i.Expect(i.wrote[names:]).To(HaveLen(1))
}

// What keeps cert-manager from issuing is said, and what to do.
func TestWhyNothingIsIssued(t *testing.T) {
	resource := schema.GroupResource{Group: "cert-manager.io", Resource: "certificates"}
	for says, given := range map[string]func(i *issuing){
		"cert-manager is not installed":                     func(i *issuing) { i.fails["create Certificate"] = &meta.NoKindMatchError{} },
		"cert-manager is not installed: the API server has": func(i *issuing) { i.fails["create Certificate"] = apierrors.NewNotFound(resource, "") },
		"the operator may not write Certificate": func(i *issuing) {
			i.fails["create Certificate"] = apierrors.NewForbidden(resource, "x", errors.New("no"))
		},
		"cert-manager refuses Certificate main-": func(i *issuing) { i.fails["create Certificate"] = apierrors.NewBadRequest("the webhook says no") },
		"cert-manager refuses Certificate": func(i *issuing) {
			i.fails["create Certificate"] = apierrors.NewInvalid(certificateKind.GroupKind(), "x", nil)
		},
		"Issuer corporate does not exist: create it": func(i *issuing) { delete(i.objects, "Issuer corporate") },
		"Issuer corporate is not ready: vault is sealed": func(i *issuing) {
			i.put("Issuer", "corporate", fields{"status": fields{"conditions": []any{fields{"type": "Ready", "status": "False", "message": "vault is sealed"}}}})
		},
		"ClusterIssuer corporate does not exist": func(i *issuing) { i.etcd.Spec.ManagedTLS.IssuerRef.Kind = v1alpha1.KindClusterIssuer },
		"; see kubectl -n ns describe certificate main-": func(i *issuing) {
			i.etcd.Spec.ManagedTLS.IssuerRef.Group = "example.com"
			delete(i.objects, "Issuer corporate")
		},
		"cert-manager has not issued Certificate main-": func(i *issuing) { i.fails["get Issuer"] = apierrors.NewForbidden(resource, "x", errors.New("no")) },
		"describe certificate":                          func(i *issuing) { i.fails["get Issuer"] = &meta.NoKindMatchError{} },
	} {
		t.Run(says, func(t *testing.T) {
			i := newIssuing(t)
			given(i)
			i.Expect(i.problem()).To(ContainSubstring(says))
		})
	}
	i := newIssuing(t)
	i.problem()
	i.objects["Certificate "+server].Object["status"] = fields{"conditions": []any{fields{"type": "Issuing", "status": "True", "message": "waiting for the order"}}}
	i.Expect(i.problem()).To(ContainSubstring("(waiting for the order)"))
}

// What cannot be read or written is tried again.
func TestRequestsToCertManagerFail(t *testing.T) {
	broken := errors.New("the API server does not answer")
	for request, says := range map[string]string{"get Certificate": "writing Certificate ns/", "create Certificate": "writing Certificate ns/", "get Issuer": "reading Issuer corporate: ", "get " + server + "-issued": "reading Secret ns/" + server + "-issued: "} {
		i := newIssuing(t)
		i.fails[request] = broken
		_, err := i.tries()
		i.Expect(err).To(MatchError(And(ContainSubstring(says), ContainSubstring("does not answer"))))
	}
	i := newIssuing(t)
	i.fails["create Certificate"] = apierrors.NewAlreadyExists(schema.GroupResource{}, server)
	_, err := i.tries()
	i.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
}

// A Certificate or Secret of another owner stays as it is.
func TestWhatIsNotCertManagersForTheEtcd(t *testing.T) {
	i := newIssuing(t)
	i.put("Certificate", server, fields{"spec": fields{"secretName": "theirs"}})
	result, err := i.tries()
	i.Expect(err).NotTo(HaveOccurred())
	i.Expect(result.Foreign).To(HaveLen(1))
	i.Expect(result.Foreign[0].Kind).To(Equal("Certificate"))
	i.Expect(i.wrote).NotTo(ContainElement(HaveSuffix(server)))

	i = newIssuing(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: server + "-issued", Annotations: map[string]string{certificateOfSecret: "theirs"}}}
	i.Expect(i.client.Create(t.Context(), secret)).To(Succeed())
	result, err = i.tries()
	i.Expect(err).NotTo(HaveOccurred())
	i.Expect(result.Foreign).To(ConsistOf(And(HaveField("Kind", "Secret"), HaveField("Name", "ns/"+server+"-issued"), HaveField("Whose", ContainSubstring("which would overwrite it")))))
	i.Expect(i.wrote).NotTo(ContainElement(HaveSuffix(server)))
}

// A renewal of the CA is the issuer's, which is said unless the spec is not carried out.
func TestARenewalIsTheIssuers(t *testing.T) {
	i := newIssuing(t)
	i.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	result, err := i.tries()
	i.Expect(err).NotTo(HaveOccurred())
	i.Expect(result.Events).To(ContainElement(And(HaveField("Reason", v1alpha1.ReasonCARenewalIgnored), HaveField("Note", ContainSubstring("Renew it there")))))
	i.frozen = true
	result, err = i.tries()
	i.Expect(err).NotTo(HaveOccurred())
	i.Expect(i.reasons(result)).NotTo(ContainElement(v1alpha1.ReasonCARenewalIgnored))
}

// What cert-manager has issued is used once it fits, and what cannot be used is named.
func TestWhatWasIssuedIsUsed(t *testing.T) {
	i := newIssuing(t)
	i.clock.SetTime(time.Now())
	i.problem()
	ca, err := certs.NewCA("corporate", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(1000 * 24 * time.Hour) })
	i.Expect(err).NotTo(HaveOccurred())
	other, err := certs.NewCA("intermediate")
	i.Expect(err).NotTo(HaveOccurred())
	issue := func(data map[string][]byte) {
		for key, u := range i.objects {
			name, found := u.GetName(), u.GetKind() == certificateKind.Kind
			if !found {
				continue
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-issued", Annotations: map[string]string{certificateOfSecret: name}}, Data: data}
			if data == nil {
				hosts, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
				pair, err := ca.Issue(hosts, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(90 * 24 * time.Hour) })
				i.Expect(err).NotTo(HaveOccurred())
				secret.Data = map[string][]byte{keyCertificate: append(pair.Certificate, other.PEM...), keyPrivate: pair.Key, keyCAs: ca.PEM}
			}
			i.Expect(client.IgnoreNotFound(i.client.Delete(t.Context(), secret.DeepCopy()))).To(Succeed(), key)
			i.Expect(i.client.Create(t.Context(), secret)).To(Succeed(), key)
		}
	}
	issue(map[string][]byte{keyCertificate: []byte("x"), keyPrivate: []byte("y")})
	i.Expect(i.problem()).To(ContainSubstring("-issued, which cert-manager has written, cannot be used: "))
	for _, half := range []string{keyCertificate, keyPrivate} {
		issue(map[string][]byte{half: []byte("x")})
		i.Expect(i.problem()).To(ContainSubstring("cert-manager has not issued Certificate"))
	}
	issue(nil)
	i.Expect(i.problem()).To(BeEmpty())
	used := &corev1.Secret{}
	i.Expect(i.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: server}, used)).To(Succeed())
	i.Expect(string(used.Data[keyCertificate])).To(HaveSuffix(string(other.PEM)), "with its chain")

	// What is issued serves on while cert-manager is away.
	i.objects, i.fails = map[string]*unstructured.Unstructured{}, map[string]error{"get Certificate": &meta.NoKindMatchError{}}
	i.Expect(i.problem()).To(BeEmpty())
}
