// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package managedtls

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/pki"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the Secret of a CA, besides those of the signing CA.
const (
	keyNext            = "next.crt"
	keyNextPrivate     = "next.key"
	keyPrevious        = "previous.crt"
	keyRetired         = "retired.crt"
	keyCertificate     = v1alpha1.SecretKeyCertificate
	keyPrivate         = v1alpha1.SecretKeyPrivateKey
	keyCAs             = v1alpha1.SecretKeyCA
	localClusterDomain = "cluster.local"
)

// specOf returns what a connection of an Etcd needs.
func specOf(etcd *v1alpha1.Etcd, connection v1alpha1.TLSConnection) pki.Spec {
	leaf, renewBefore, ca, caRenewBefore := etcd.Spec.ManagedTLS.Durations()
	spec := pki.Spec{
		Owner:     pki.Owner{Namespace: etcd.Namespace, Name: etcd.Name, Connection: strings.ToLower(string(connection))},
		Durations: pki.Durations{Leaf: leaf, LeafRenewBefore: renewBefore, CA: ca, CARenewBefore: caRenewBefore},
		KeySecret: etcd.CAKeySecret(connection), BundleSecret: etcd.CASecret(connection),
		External: etcd.Spec.ManagedTLS.Issuer(connection) != nil,
	}
	members := fmt.Sprintf("*.%s-peer.%s.svc", etcd.Name, etcd.Namespace)
	server := pki.Want{
		Secret: etcd.ServerSecret(connection), CommonName: etcd.Name,
		Hosts: []string{members, members + "." + localClusterDomain},
		// A member is a client of its peers, and of itself for the JSON gateway.
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	service := etcd.ClientHost()
	serviceHosts := []string{
		strings.TrimSuffix(service, "."+etcd.Namespace+".svc"), strings.TrimSuffix(service, ".svc"), service, service + "." + localClusterDomain,
	}
	switch connection {
	case v1alpha1.TLSClients:
		server.Hosts = append(append(server.Hosts, serviceHosts...), etcd.Spec.ManagedTLS.ServerDNSNames...)
	case v1alpha1.TLSAgents:
		server.Hosts = append(server.Hosts, serviceHosts...)
		server.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	spec.Leaves = []pki.Want{server}
	if connection == v1alpha1.TLSClients {
		client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		spec.Leaves = append(spec.Leaves,
			pki.Want{Secret: etcd.OperatorSecret(), CommonName: v1alpha1.ManagedBy, Usages: client},
			pki.Want{Secret: etcd.ClientSecret(), CommonName: etcd.Name + "-client", Usages: client, WithCAs: true})
	}
	return spec
}

// secrets are the Secrets of a connection, as the API server has them.
type secrets struct {
	live    map[string]*corev1.Secret
	foreign []ownership.Foreign
}

// read reads the Secrets of a connection.
func (m *Manager) read(ctx context.Context, etcd *v1alpha1.Etcd, spec pki.Spec) (secrets, error) {
	s := secrets{live: map[string]*corev1.Secret{}}
	names := []string{spec.KeySecret, spec.BundleSecret}
	for _, leaf := range spec.Leaves {
		names = append(names, leaf.Secret)
	}
	for _, name := range names {
		secret, err := lookup.Get[corev1.Secret](ctx, m.API, "Secret", types.NamespacedName{Namespace: etcd.Namespace, Name: name})
		if err != nil {
			return secrets{}, err
		} else if secret == nil {
			continue
		}
		s.live[name] = secret
		if f := ownership.Of(etcd, "Secret", secret); f != nil {
			s.foreign = append(s.foreign, *f)
		}
	}
	return s, nil
}

// state returns what the Secrets hold.
func (s secrets) state(spec pki.Spec) pki.State {
	state := pki.State{Leaves: map[string]*pki.Leaf{}, Broken: map[string]error{}}
	note := func(secret string, err error) {
		if err != nil {
			state.Broken[secret] = err
		}
	}
	var err error
	if secret := s.live[spec.KeySecret]; secret != nil {
		state.Authority, err = decodeAuthority(secret, spec.External)
		note(spec.KeySecret, err)
	}
	if secret := s.live[spec.BundleSecret]; secret != nil {
		state.Bundle, err = boundedpem.Certificates(secret.Data[keyCAs])
		note(spec.BundleSecret, err)
	}
	for _, want := range spec.Leaves {
		secret := s.live[want.Secret]
		if secret == nil {
			continue
		}
		leaf, err := decodeLeaf(secret)
		note(want.Secret, err)
		if err == nil {
			state.Leaves[want.Secret] = leaf
		}
	}
	return state
}

// decodeAuthority decodes the Secret with the CAs. Those of an issuer have no keys.
func decodeAuthority(secret *corev1.Secret, external bool) (*pki.Authority, error) {
	a := &pki.Authority{}
	var err error
	if a.Signer, err = pki.ParsePair(secret.Data[keyCertificate], secret.Data[keyPrivate]); err != nil {
		return nil, fmt.Errorf("%s or %s: %w", keyCertificate, keyPrivate, err)
	}
	if len(secret.Data[keyNext]) > 0 {
		if a.Next, err = pki.ParsePair(secret.Data[keyNext], secret.Data[keyNextPrivate]); err == nil && a.Next.Key == nil && !external {
			err = errors.New("there is no private key")
		}
		if err != nil {
			return nil, fmt.Errorf("%s or %s: %w", keyNext, keyNextPrivate, err)
		}
	}
	if from, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationNextCASignsFrom]); err == nil {
		a.NextFrom = from
	}
	one := func(key string) *x509.Certificate {
		if len(secret.Data[key]) == 0 || err != nil {
			return nil
		}
		var pair *pki.Pair
		if pair, err = pki.ParsePair(secret.Data[key], nil); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
			return nil
		}
		return pair.Certificate
	}
	a.Previous, a.Retired = one(keyPrevious), one(keyRetired)
	if err != nil {
		return nil, err
	}
	if a.Previous != nil {
		// Without the annotation it is trusted until it expires.
		a.PreviousUntil = a.Previous.NotAfter
		if until, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationTrustedUntil]); err == nil {
			a.PreviousUntil = until
		}
	}
	return a, nil
}

func decodeLeaf(secret *corev1.Secret) (*pki.Leaf, error) {
	leaf, err := pki.ParseLeaf(secret.Data[keyCertificate], secret.Data[keyPrivate])
	if err != nil {
		return nil, err
	}
	if cas, err := boundedpem.Certificates(secret.Data[keyCAs]); err == nil {
		leaf.CAs = cas
	}
	return leaf, nil
}

// encode writes the desired content into a Secret.
func encode(secret *corev1.Secret, spec pki.Spec, state pki.State) error {
	switch secret.Name {
	case spec.KeySecret:
		return encodeAuthority(secret, state.Authority)
	case spec.BundleSecret:
		secret.Data[keyCAs] = pki.EncodeCertificates(state.Bundle...)
		return nil
	}
	leaf := state.Leaves[secret.Name]
	if len(leaf.CAs) > 0 {
		secret.Data[keyCAs] = pki.EncodeCertificates(leaf.CAs...)
	}
	if err := putPair(secret, keyCertificate, keyPrivate, &leaf.Pair); err != nil {
		return err
	}
	secret.Data[keyCertificate] = append(secret.Data[keyCertificate], pki.EncodeCertificates(leaf.Intermediates...)...)
	return nil
}

func encodeAuthority(secret *corev1.Secret, a *pki.Authority) error {
	for _, key := range []string{keyCertificate, keyPrivate, keyNext, keyNextPrivate, keyPrevious, keyRetired} {
		delete(secret.Data, key)
	}
	delete(secret.Annotations, v1alpha1.AnnotationTrustedUntil)
	delete(secret.Annotations, v1alpha1.AnnotationNextCASignsFrom)
	if a.Next != nil {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationNextCASignsFrom, a.NextFrom.UTC().Format(time.RFC3339))
	}
	if a.Previous != nil {
		secret.Data[keyPrevious] = pki.EncodeCertificates(a.Previous)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationTrustedUntil, a.PreviousUntil.UTC().Format(time.RFC3339))
	}
	if a.Retired != nil {
		secret.Data[keyRetired] = pki.EncodeCertificates(a.Retired)
	}
	if err := putPair(secret, keyCertificate, keyPrivate, a.Signer); err != nil || a.Next == nil {
		return err
	}
	return putPair(secret, keyNext, keyNextPrivate, a.Next)
}

func putPair(secret *corev1.Secret, certificateKey, privateKey string, pair *pki.Pair) error {
	certificate, key, err := pair.Encode()
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", secret.Name, err)
	}
	secret.Data[certificateKey] = certificate
	if key != nil {
		secret.Data[privateKey] = key
	}
	return nil
}

// write updates a Secret as it was read, or creates it if it was missing.
func (m *Manager) write(ctx context.Context, etcd *v1alpha1.Etcd, live *corev1.Secret, spec pki.Spec, name string, state pki.State) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: name}, Type: corev1.SecretTypeOpaque}
	if state.Leaves[name] != nil {
		secret.Type = corev1.SecretTypeTLS
	}
	if live != nil {
		secret = live.DeepCopy()
	}
	secret.Labels = map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name,
		v1alpha1.LabelComponent: v1alpha1.ComponentCertificates, v1alpha1.LabelName: name,
	}
	if live == nil {
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if err := encode(secret, spec, state); err != nil {
		return err
	}
	if live != nil {
		return m.Client.Update(ctx, secret, manager)
	}
	err := m.Client.Create(ctx, secret, manager)
	if apierrors.IsAlreadyExists(err) {
		return apierrors.NewConflict(corev1.Resource("secrets"), name, errors.New("it was just created"))
	}
	return err
}

// manager owns the fields of the Secrets.
const manager = client.FieldOwner("etcd-foreman")
