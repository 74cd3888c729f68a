// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Names of the Secrets.
const (
	secretCA   = "giant-ca"
	secretPair = "giant-pair"
)

// giantKey returns Secrets with a CA whose public key has so many bytes, and a pair that says it is signed by it. To find out that it
// is not takes a computation that grows with the square of the size.
func giantKey(size int) (map[string]map[string][]byte, error) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	modulus := make([]byte, size)
	if _, err := rand.Read(modulus); err != nil {
		return nil, fmt.Errorf("making a modulus: %w", err)
	}
	modulus[0] |= 0x80
	modulus[size-1] |= 1
	giant := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: 1<<31 - 1}
	template := func(name string, ca bool) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, DNSNames: []string{"*"},
		}
	}
	root, err := x509.CreateCertificate(rand.Reader, template("giant", true), template("giant", true), giant, small)
	if err != nil {
		return nil, fmt.Errorf("making the CA: %w", err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, template("leaf", false), template("giant", true), &small.PublicKey, small)
	if err != nil {
		return nil, fmt.Errorf("making the pair: %w", err)
	}
	if leaf, err = signedBy(leaf, size); err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(small)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return map[string]map[string][]byte{
		secretCA:   {"ca.crt": block("CERTIFICATE", root)},
		secretPair: {"tls.crt": block("CERTIFICATE", leaf), "tls.key": block("PRIVATE KEY", key)},
	}, nil
}

// signedBy replaces the signature of a certificate by one of the length that a key of this size has.
func signedBy(der []byte, size int) ([]byte, error) {
	var certificate struct {
		Body      asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &certificate); err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	signature := make([]byte, size)
	if _, err := rand.Read(signature); err != nil {
		return nil, fmt.Errorf("making a signature: %w", err)
	}
	// It has to be less than the modulus.
	signature[0] &= 0x7f
	certificate.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * size}
	forged, err := asn1.Marshal(certificate)
	if err != nil {
		return nil, fmt.Errorf("encoding a certificate: %w", err)
	}
	return forged, nil
}
