// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package certs creates certificates for tests and for the local Kubernetes.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// CA signs certificates.
type CA struct {
	// PEM of its own certificate.
	PEM []byte
	// Key is its private key, PEM.
	Key         []byte
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Pair is a certificate with its key, PEM.
type Pair struct {
	Certificate, Key []byte
}

// Change modifies a certificate before it is signed.
type Change func(*x509.Certificate)

// Expired makes the certificate expired for a minute.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

// ClientOnly removes the usage as a server.
func ClientOnly(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

// ServerOnly removes the usage as a client.
func ServerOnly(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// NewCA creates a CA.
func NewCA(name string, changes ...Change) (*CA, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, change := range changes {
		change(template)
	}
	ca := &CA{}
	var err error
	if ca.PEM, ca.key, err = sign(template, template, nil); err != nil {
		return nil, fmt.Errorf("making CA %s: %w", name, err)
	}
	if ca.Key, err = encode(ca.key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(ca.PEM)
	ca.certificate, err = x509.ParseCertificate(block.Bytes)
	return ca, err
}

// Issue issues a server and client certificate for hosts: names or addresses.
func (ca *CA) Issue(hosts []string, changes ...Change) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "etcd"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	template.NotAfter = time.Now().Add(24 * time.Hour)
	for _, change := range changes {
		change(template)
	}
	certificate, key, err := sign(template, ca.certificate, ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issuing a certificate for %v: %w", hosts, err)
	}
	encoded, err := encode(key)
	return Pair{Certificate: certificate, Key: encoded}, err
}

func encode(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// sign signs with the parent's key, or self-signs if there is none.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if signer == nil {
		signer = key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(48 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, nil
}
