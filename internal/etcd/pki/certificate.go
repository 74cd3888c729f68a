// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package pki decides on the certificates that the operator issues for one kind of connection of an Etcd, and issues them. It is pure
// except for the random numbers of new keys: it neither reads nor writes Secrets, and the time is an argument.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
)

// Pair is a certificate with its private key.
type Pair struct {
	Certificate *x509.Certificate
	// Key is nil if it is not known.
	Key crypto.Signer
}

// ParsePair parses a pair of PEM blocks. A pair without a key only has a certificate.
func ParsePair(certificate, key []byte) (*Pair, error) {
	all, err := boundedpem.Certificates(certificate)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("there are %d certificates, and not one", len(all))
	}
	p := &Pair{Certificate: all[0]}
	if len(key) == 0 {
		return p, nil
	}
	if err := boundedpem.CheckKey(key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, errors.New("the private key has no PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the private key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the private key is a %T", parsed)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(p.Certificate.PublicKey) {
		return nil, errors.New("the private key is not that of the certificate")
	}
	p.Key = signer
	return p, nil
}

// Types of PEM blocks.
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

// EncodeCertificates encodes certificates, in their order.
func EncodeCertificates(all ...*x509.Certificate) []byte {
	var encoded bytes.Buffer
	for _, c := range all {
		encoded.Write(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: c.Raw}))
	}
	return encoded.Bytes()
}

// Encode encodes a pair. The key is nil if it is not known.
func (p *Pair) Encode() (certificate, key []byte, err error) {
	certificate = EncodeCertificates(p.Certificate)
	if p.Key == nil {
		return certificate, nil, nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

// signed reports whether a CA has signed a certificate.
func signed(ca, certificate *x509.Certificate) bool {
	return ca != nil && bytes.Equal(certificate.RawIssuer, ca.RawSubject) && certificate.CheckSignatureFrom(ca) == nil
}

// contains reports whether a certificate is among others.
func contains(all []*x509.Certificate, one *x509.Certificate) bool {
	return slices.ContainsFunc(all, func(c *x509.Certificate) bool { return c.Equal(one) })
}

// early is how long before its issue the first CA becomes valid, since the clocks of members, clients and the operator differ. Its
// successors are valid from the same time on, so that a fast clock never makes certificates that are not valid yet.
const early = 72 * time.Hour

// newCA makes a CA. Its successors are valid from the same time on.
func newCA(o Owner, duration time.Duration, now time.Time, notBefore time.Time) (*Pair, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	if notBefore.IsZero() {
		notBefore = now.Add(-early)
	}
	return Sign(&x509.Certificate{
		SerialNumber: serial,
		// Each CA has a subject of its own, by which clients choose a certificate.
		Subject: pkix.Name{
			CommonName:   fmt.Sprintf("%s %s CA %s", o.Name, o.Connection, hex.EncodeToString(serial.Bytes()[:4])),
			Organization: []string{o.Namespace},
		},
		NotBefore: notBefore, NotAfter: now.Add(duration),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
}

// newLeaf issues a certificate. It expires with its CA at the latest, and not before the one that it replaces: with a slow clock, it would
// expire too early.
func newLeaf(ca *Pair, want Want, duration time.Duration, now time.Time, replaced *x509.Certificate) (*Pair, error) {
	end := now.Add(duration)
	if replaced != nil && replaced.NotAfter.After(end) {
		end = replaced.NotAfter
	}
	if ca.Certificate.NotAfter.Before(end) {
		end = ca.Certificate.NotAfter
	}
	return Sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: want.CommonName},
		DNSNames:  want.Hosts,
		NotBefore: ca.Certificate.NotBefore, NotAfter: end,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           want.Usages,
	}, ca)
}

// Sign makes a key and signs its certificate, with the key itself if ca is nil. A template without a serial number gets a random
// one.
func Sign(template *x509.Certificate, ca *Pair) (*Pair, error) {
	if template.SerialNumber == nil {
		serial, err := newSerial()
		if err != nil {
			return nil, err
		}
		template.SerialNumber = serial
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a private key: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.Certificate, ca.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing a certificate that was just signed: %w", err)
	}
	return &Pair{Certificate: certificate, Key: key}, nil
}

// newSerial returns a random number of 127 bits, the highest of which is set.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return serial.SetBit(serial, 126, 1), nil
}
