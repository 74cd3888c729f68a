// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package managedtls

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/pki"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// certificateKind is the kind of cert-manager's Certificates. They are unstructured: the operator needs ten of their fields.
var certificateKind = schema.GroupVersionKind{Group: v1alpha1.GroupCertManager, Version: "v1", Kind: "Certificate"}

const (
	// certificateOfSecret is the annotation in which cert-manager names the Certificate of a Secret.
	certificateOfSecret = "cert-manager.io/certificate-name"
	conditionReady      = "Ready"
	// maxMessage bounds what is quoted from cert-manager.
	maxMessage = 512
)

type fields = map[string]any

// issued requests the certificates of a connection from cert-manager, and returns them by the names of the Secrets that they are for; none
// if the operator issues them. cert-manager writes Secrets of its own, which the operator copies once every member trusts their CA.
func (s *session) issued(ctx context.Context, connection v1alpha1.TLSConnection, spec pki.Spec) (map[string]*pki.Issued, []ownership.Foreign, error) {
	issuer, all := s.Etcd.Spec.ManagedTLS.Issuer(connection), map[string]*pki.Issued{}
	if issuer == nil {
		return nil, nil, nil
	}
	s.ignoreRenewal(spec.BundleSecret, "its CA is that of the issuer. Renew it there")
	var foreign []ownership.Foreign
	for _, want := range spec.Leaves {
		one, f, err := s.issue(ctx, want, spec, *issuer)
		if err != nil {
			return nil, nil, err
		}
		if f != nil {
			foreign = append(foreign, *f)
		}
		all[want.Secret] = one
	}
	return all, foreign, nil
}

// issue requests one certificate.
func (s *session) issue(ctx context.Context, want pki.Want, spec pki.Spec, issuer v1alpha1.IssuerReference) (*pki.Issued, *ownership.Foreign, error) {
	secret, key := &corev1.Secret{}, types.NamespacedName{Namespace: s.Etcd.Namespace, Name: s.Etcd.IssuedSecret(want.Secret)}
	err := s.API.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	if err == nil && secret.Annotations[certificateOfSecret] != want.Secret {
		// cert-manager would overwrite it.
		return nil, &ownership.Foreign{
			Kind: "Secret", Name: key.String(), Reason: v1alpha1.ReasonNoController,
			Whose:  fmt.Sprintf("is not that of Certificate %s, which would overwrite it", want.Secret),
			Remedy: "give the Etcd another name, or delete the Secret if it is unused",
		}, nil
	}
	certificate, lacking, err := s.certificate(ctx, want, spec, issuer)
	if err != nil {
		return nil, nil, err
	}
	if certificate != nil {
		if f := ownership.Of(s.Etcd, certificateKind.Kind, certificate); f != nil {
			return nil, f, nil
		}
	}
	if len(secret.Data[keyCertificate]) > 0 && len(secret.Data[keyPrivate]) > 0 {
		var issued *pki.Issued
		s.spend(func() {
			issued, err = pki.NewIssued(secret.Data[keyCertificate], secret.Data[keyPrivate], secret.Data[keyCAs])
		})
		if err != nil {
			return &pki.Issued{Lacking: fmt.Sprintf("Secret %s, which cert-manager has written, cannot be used: %v", key.Name, err)}, nil, nil
		}
		if lacking == "" || issued.For(want) {
			return issued, nil, nil
		}
	}
	if lacking == "" {
		lacking, err = s.notReady(ctx, certificate, issuer)
	}
	return &pki.Issued{Lacking: lacking}, nil, err
}

// certificate writes the Certificate, unless it is foreign or the spec is not carried out, and returns it. If there is none, lacking says
// why.
func (s *session) certificate(ctx context.Context, want pki.Want, spec pki.Spec, issuer v1alpha1.IssuerReference) (live *unstructured.Unstructured, lacking string, err error) {
	wanted, key := s.wanted(want, spec, issuer), types.NamespacedName{Namespace: s.Etcd.Namespace, Name: want.Secret}
	live = &unstructured.Unstructured{}
	live.SetGroupVersionKind(certificateKind)
	err = s.API.Get(ctx, key, live)
	switch {
	case err == nil && (s.Frozen || ownership.Of(s.Etcd, certificateKind.Kind, live) != nil || apply.Contains(live.Object["spec"], wanted.Object["spec"])):
		return live, "", nil
	case err == nil:
		live.Object["spec"] = merged(live.Object["spec"], wanted.Object["spec"])
		err = s.Client.Update(ctx, live, manager)
	case apierrors.IsNotFound(err) && s.Frozen:
		return nil, fmt.Sprintf("Certificate %s does not exist, and is not created while the spec is not carried out", key.Name), nil
	case apierrors.IsNotFound(err):
		live = wanted
		err = s.Client.Create(ctx, live, manager)
	}
	switch {
	case err == nil:
		return live, "", nil
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, "cert-manager is not installed: the API server has no Certificates of cert-manager.io/v1. Install it, or create the Etcd without issuerRef", nil
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, fmt.Sprintf("the operator may not write Certificate %s (%v): apply config/cert-manager", key.Name, err), nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, fmt.Sprintf("cert-manager refuses Certificate %s: %s", key.Name, sanitize.Text(err.Error(), maxMessage)), nil
	case apierrors.IsAlreadyExists(err):
		err = apierrors.NewConflict(schema.GroupResource{Group: certificateKind.Group, Resource: "certificates"}, key.Name, errors.New("it was just created"))
	}
	return nil, "", fmt.Errorf("writing Certificate %s: %w", key, err)
}

// usages of cert-manager, by those of certificates.
var usages = map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server auth", x509.ExtKeyUsageClientAuth: "client auth"}

// wanted returns the desired Certificate.
func (s *session) wanted(want pki.Want, spec pki.Spec, issuer v1alpha1.IssuerReference) *unstructured.Unstructured {
	uses, hosts := []any{"digital signature"}, []any{}
	for _, usage := range want.Usages {
		uses = append(uses, usages[usage])
	}
	for _, host := range want.Hosts {
		hosts = append(hosts, host)
	}
	labels := map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: s.Etcd.Name, v1alpha1.LabelComponent: v1alpha1.ComponentCertificates,
	}
	c := &unstructured.Unstructured{Object: fields{"spec": fields{
		"secretName": s.Etcd.IssuedSecret(want.Secret),
		"commonName": want.CommonName, "usages": uses,
		"duration": spec.Leaf.String(), "renewBefore": spec.LeafRenewBefore.String(),
		"privateKey": fields{"algorithm": "ECDSA", "size": int64(256), "encoding": "PKCS8", "rotationPolicy": "Always"},
		"issuerRef":  fields{"name": issuer.Name, "kind": issuer.Kind, "group": issuer.Group},
	}}}
	if len(hosts) > 0 {
		c.Object["spec"].(fields)["dnsNames"] = hosts
	}
	c.SetGroupVersionKind(certificateKind)
	c.SetNamespace(s.Etcd.Namespace)
	c.SetName(want.Secret)
	c.SetLabels(labels)
	c.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.Etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))})
	return c
}

// merged returns an object with the fields of another one merged into it.
func merged(has, wanted any) any {
	h, ok := has.(fields)
	if !ok {
		return wanted
	}
	maps.Copy(h, wanted.(fields))
	return h
}

// notReady returns why there is no certificate.
func (s *session) notReady(ctx context.Context, certificate *unstructured.Unstructured, issuer v1alpha1.IssuerReference) (string, error) {
	why := fmt.Sprintf("cert-manager has not issued Certificate %s yet", certificate.GetName())
	if _, message := condition(certificate, "Issuing"); message != "" {
		why += fmt.Sprintf(" (%s)", message)
	}
	why += fmt.Sprintf("; see kubectl -n %s describe certificate %s", s.Etcd.Namespace, certificate.GetName())
	if issuer.Group != v1alpha1.GroupCertManager || !slices.Contains([]string{v1alpha1.KindIssuer, v1alpha1.KindClusterIssuer}, issuer.Kind) {
		return why, nil
	}
	live, key := &unstructured.Unstructured{}, types.NamespacedName{Name: issuer.Name}
	if issuer.Kind == v1alpha1.KindIssuer {
		key.Namespace = s.Etcd.Namespace
	}
	live.SetGroupVersionKind(certificateKind.GroupVersion().WithKind(issuer.Kind))
	switch err := s.API.Get(ctx, key, live); {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %s does not exist: create it, or name another one", issuer.Kind, issuer.Name), nil
	case apierrors.IsForbidden(err) || meta.IsNoMatchError(err):
		return why, nil
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", issuer.Kind, issuer.Name, err)
	}
	if status, message := condition(live, conditionReady); status != metav1.ConditionTrue {
		return fmt.Sprintf("%s %s is not ready: %s", issuer.Kind, issuer.Name, message), nil
	}
	return why, nil
}

// condition returns the status and the message of a condition; empty if there is none.
func condition(o *unstructured.Unstructured, conditionType string) (status metav1.ConditionStatus, message string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(fields); ok && c["type"] == conditionType {
			s, _ := c["status"].(string)
			m, _ := c["message"].(string)
			return metav1.ConditionStatus(s), sanitize.Text(m, maxMessage)
		}
	}
	return "", ""
}
