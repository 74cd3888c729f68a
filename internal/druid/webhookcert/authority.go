// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
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
	pem, keyPEM []byte
	// bundle has also the one before it.
	bundle      []byte
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// leaf is a certificate of the webhook.
type leaf struct {
	certificate tls.Certificate
	by          []byte
	until       time.Time
}

func (l *leaf) isFresh(a *authority, now time.Time) bool {
	return bytes.Equal(l.by, a.pem) && now.Before(l.until.Add(-leafDue))
}

func (a *authority) isDue(now time.Time) bool { return now.After(a.certificate.NotAfter.Add(-caDue)) }

// readAuthority reads a CA from the data of a Secret. It returns an error for one that is not valid now.
func readAuthority(data map[string][]byte, now time.Time) (*authority, error) {
	pair, err := tls.X509KeyPair(data[keyCA], data[keyCAKey])
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the webhook: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA || now.After(pair.Leaf.NotAfter) {
		return nil, errors.New("reading the CA of the webhook: it is not a CA, or has expired")
	}
	return &authority{
		pem: data[keyCA], keyPEM: data[keyCAKey], bundle: append(bytes.Clone(data[keyCA]), data[keyPrevious]...), certificate: pair.Leaf, key: key,
	}, nil
}

func newAuthority(now time.Time) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "etcd-foreman-webhook"}, NotBefore: now.Add(-skew), NotAfter: now.Add(caLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &authority{pem: certificate, keyPEM: keyPEM}, nil
}

// sign makes a certificate for a host. The loopback addresses are for who reaches a replica through a port-forward.
func (a *authority) sign(host string, now time.Time) (*leaf, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	until := now.Add(leafLifetime)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore: now.Add(-skew), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("making a certificate of the webhook: %w", err)
	}
	return &leaf{certificate: pair, by: a.pem, until: until}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key of the webhook: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key of the webhook: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate of the webhook: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
