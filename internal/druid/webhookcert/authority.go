// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/pki"
)

const (
	// skew is how far the clocks of replicas and API servers may differ.
	skew = time.Hour
	// caLifetime and leafLifetime are how long certificates are valid; caDue and leafDue is how long before their end they are
	// replaced.
	caLifetime, caDue     = 5 * 365 * 24 * time.Hour, 365 * 24 * time.Hour
	leafLifetime, leafDue = 90 * 24 * time.Hour, 30 * 24 * time.Hour
)

// authority signs certificates.
type authority struct {
	pair pki.Pair
	// pem is the CA's certificate; bundle has also the one before it.
	pem, bundle []byte
}

// leaf is a certificate of the webhook.
type leaf struct {
	certificate tls.Certificate
	by          []byte
}

func (l *leaf) isFresh(a *authority, now time.Time) bool {
	return bytes.Equal(l.by, a.pem) && now.Before(l.certificate.Leaf.NotAfter.Add(-leafDue))
}

func (a *authority) isDue(now time.Time) bool {
	return now.After(a.pair.Certificate.NotAfter.Add(-caDue))
}

// readAuthority reads a CA from the data of a Secret. It returns an error for one that is not valid now.
func readAuthority(data map[string][]byte, now time.Time) (*authority, error) {
	pair, err := boundedpem.Pair(data[keyCA], data[keyCAKey])
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the webhook: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA || now.After(pair.Leaf.NotAfter) {
		return nil, errors.New("reading the CA of the webhook: it is not a CA, or has expired")
	}
	return &authority{
		pair: pki.Pair{Certificate: pair.Leaf, Key: key}, pem: data[keyCA], bundle: append(bytes.Clone(data[keyCA]), data[keyPrevious]...),
	}, nil
}

// newAuthority returns the certificate and the key of a new CA.
func newAuthority(now time.Time) (certificate, key []byte, err error) {
	return encoded(pki.Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "etcd-foreman-webhook"}, NotBefore: now.Add(-skew), NotAfter: now.Add(caLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil))
}

// sign issues a certificate for a host. The loopback addresses are for clients that reach a replica through a port-forward.
func (a *authority) sign(host string, now time.Time) (*leaf, error) {
	certificate, key, err := encoded(pki.Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore: now.Add(-skew), NotAfter: now.Add(leafLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &a.pair))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate of the webhook: %w", err)
	}
	return &leaf{certificate: pair, by: a.pem}, nil
}

func encoded(pair *pki.Pair, err error) (certificate, key []byte, _ error) {
	if err == nil {
		certificate, key, err = pair.Encode()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate of the webhook: %w", err)
	}
	return certificate, key, nil
}
