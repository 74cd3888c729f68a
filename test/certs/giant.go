// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
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

// Giant creates what is expensive to verify: a CA with an RSA key of a number of bits, which must be divisible by eight, and a
// certificate that claims to be signed by it.
func Giant(bits int, hosts ...string) (ca []byte, leaf Pair, err error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	if err != nil {
		return nil, Pair{}, err
	}
	n.SetBit(n.SetBit(n, bits-1, 1), 0, 1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Pair{}, err
	}
	from := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "giant"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	if ca, err = x509.CreateCertificate(rand.Reader, from, from, &rsa.PublicKey{N: n, E: 1<<31 - 1}, key); err != nil {
		return nil, Pair{}, err
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "etcd"}, DNSNames: hosts, NotBefore: from.NotBefore, NotAfter: from.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, from, &key.PublicKey, key)
	if err != nil {
		return nil, Pair{}, err
	}
	if der, err = claim(der, n.Bytes()); err != nil {
		return nil, Pair{}, err
	}
	encoded, err := encode(key)
	block := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	return block(ca), Pair{Certificate: block(der), Key: encoded}, err
}

// claim replaces the signature of a certificate with one of RSA.
func claim(der, signature []byte) ([]byte, error) {
	var c struct {
		TBS       []asn1.RawValue
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &c); err != nil {
		return nil, fmt.Errorf("parsing a certificate: %w", err)
	}
	algorithm, err := asn1.Marshal(pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue})
	if err != nil {
		return nil, err
	}
	c.Algorithm = asn1.RawValue{FullBytes: algorithm}
	// It comes after the version and the serial number.
	c.TBS[2] = c.Algorithm
	// The signature is smaller than the modulus, and otherwise arbitrary.
	signature[0] = 0
	c.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	return asn1.Marshal(c)
}
