// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package certificates reads the Secrets that an Etcd names for TLS, checks their content, and makes the operator's own clients from it.
// Checking is pure. It imports the API and etcdclient, not the controllers.
package certificates

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Material is the raw content of the Secrets of an Etcd.
type Material struct {
	// Each is nil if the spec does not ask for that TLS.
	Client *ClientSide
	Peer   *PeerSide
	Backup *BackupSide
	// Versions are the resourceVersions of the Secrets that were read, by name; empty for a Secret that does not exist.
	Versions map[string]string
}

// ClientSide is for the connections between clients and members.
type ClientSide struct {
	CA             Bundle
	Server, Client Pair
}

// PeerSide is for the connections among members.
type PeerSide struct {
	CA     Bundle
	Server Pair
}

// BackupSide is for the connections to the agents' HTTP API.
type BackupSide struct {
	CA     Bundle
	Server Pair
	// Host is the host name that all agents share, besides those of their members.
	Host string
}

// Bundle is a bundle of CA certificates.
type Bundle struct {
	// Secret and Key are its source.
	Secret, Key string
	PEM         []byte
}

// Pair is a certificate, with its intermediates, and its private key.
type Pair struct {
	// Secret is its source.
	Secret           string
	Certificate, Key []byte
}

// Problem is an error that a person must fix in a Secret, or in the Etcd's reference to it.
type Problem struct {
	// Secret at fault.
	Secret string
	// What is wrong, as the rest of a sentence.
	What string
}

// Error names the Secret.
func (p *Problem) Error() string { return fmt.Sprintf("Secret %s %s", p.Secret, p.What) }

// Read reads the Secrets of an Etcd. It returns a *Problem for what a person must fix.
func Read(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (Material, error) {
	r := secrets{ctx: ctx, reader: reader, namespace: etcd.Namespace, seen: map[string]map[string][]byte{}, versions: map[string]string{}}
	m := Material{Versions: r.versions}
	if tls := etcd.ClientTLS(); tls != nil {
		m.Client = &ClientSide{CA: r.readBundle(tls.TLSCASecretRef), Server: r.readPair(tls.ServerTLSSecretRef), Client: r.readPair(tls.ClientTLSSecretRef)}
	}
	if tls := etcd.PeerTLS(); tls != nil {
		m.Peer = &PeerSide{CA: r.readBundle(tls.TLSCASecretRef), Server: r.readPair(tls.ServerTLSSecretRef)}
	}
	if tls := etcd.BackupTLS(); tls != nil {
		m.Backup = &BackupSide{CA: r.readBundle(tls.TLSCASecretRef), Server: r.readPair(tls.ServerTLSSecretRef), Host: etcd.ClientHost()}
	}
	return m, r.err
}

// Agents reads and returns the CAs of the agents of an Etcd.
func Agents(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*x509.CertPool, error) {
	r := secrets{ctx: ctx, reader: reader, namespace: etcd.Namespace, seen: map[string]map[string][]byte{}}
	bundle := r.readBundle(etcd.BackupTLS().TLSCASecretRef)
	if r.err != nil {
		return nil, r.err
	}
	certificates, err := bundle.authorities()
	return pool(certificates), err
}

// Unchanged reports whether the Secrets in a namespace still have the resourceVersions that were read. It reads metadata only: their
// content may be large.
func Unchanged(ctx context.Context, reader client.Reader, namespace string, versions map[string]string) bool {
	for name, version := range versions {
		secret := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
		err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
		if err != nil && !apierrors.IsNotFound(err) || secret.ResourceVersion != version {
			return false
		}
	}
	return len(versions) > 0
}

// secrets reads each Secret once, and nothing after the first error.
type secrets struct {
	ctx       context.Context
	reader    client.Reader
	namespace string
	seen      map[string]map[string][]byte
	// versions of the Secrets; nil if they are not needed.
	versions map[string]string
	err      error
}

func (r *secrets) readBundle(ref v1alpha1.CASecretReference) Bundle {
	key := ptr.Deref(ref.DataKey, v1alpha1.SecretKeyCA)
	return Bundle{Secret: ref.Name, Key: key, PEM: r.value(ref.SecretReference, key)}
}

func (r *secrets) readPair(ref v1alpha1.SecretReference) Pair {
	return Pair{
		Secret:      ref.Name,
		Certificate: r.value(ref, v1alpha1.SecretKeyCertificate),
		Key:         r.value(ref, v1alpha1.SecretKeyPrivateKey),
	}
}

func (r *secrets) value(ref v1alpha1.SecretReference, key string) []byte {
	data := r.data(ref)
	if r.err != nil {
		return nil
	}
	if len(data[key]) == 0 {
		r.err = &Problem{Secret: ref.Name, What: "has no key " + key}
	}
	return data[key]
}

func (r *secrets) data(ref v1alpha1.SecretReference) map[string][]byte {
	switch {
	case r.err != nil:
		return nil
	case ref.Namespace != "" && ref.Namespace != r.namespace:
		r.err = &Problem{Secret: ref.Name, What: fmt.Sprintf("is in namespace %s: only Secrets in the namespace of the Etcd are used", ref.Namespace)}
		return nil
	}
	if data, ok := r.seen[ref.Name]; ok {
		return data
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: r.namespace, Name: ref.Name}
	if err := r.reader.Get(r.ctx, key, secret); apierrors.IsNotFound(err) {
		r.err = &Problem{Secret: ref.Name, What: "does not exist"}
	} else if err != nil {
		r.err = fmt.Errorf("reading Secret %s: %w", key, err)
	}
	r.seen[ref.Name] = secret.Data
	if r.versions != nil {
		r.versions[ref.Name] = secret.ResourceVersion
	}
	return secret.Data
}
