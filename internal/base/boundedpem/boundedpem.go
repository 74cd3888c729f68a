// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package boundedpem parses the certificates and keys of tenants within bounds. What it returns is cheap to verify: the cost of a
// signature grows with the square of its key, and that of a chain with the number of CAs. It imports the standard library only.
package boundedpem

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// The bounds.
const (
	// MaxBytes is how long a value is.
	MaxBytes = 128 << 10
	// MaxCertificates is how many certificates a bundle of CAs has.
	MaxCertificates = 32
	// MaxChain is how many certificates a chain has, from that of the server to its CA.
	MaxChain = 8
	// maxRSABits is the size of an RSA key. Go's TLS accepts no larger ones either.
	maxRSABits = 8192
	// MaxKeyBytes is how long a private key is in PEM, with comments. One of maxRSABits has 6.3 KiB.
	MaxKeyBytes = 16 << 10
)

// Certificates parses a bundle in which every block is a certificate.
func Certificates(bundle []byte) ([]*x509.Certificate, error) {
	all, other, err := parse(bundle, MaxCertificates)
	switch {
	case err != nil:
		return nil, err
	case other != "":
		return nil, fmt.Errorf("there is a PEM block of type %q", other)
	case len(all) == 0:
		return nil, errors.New("there is no certificate")
	}
	return all, nil
}

// Pair parses a certificate, with its intermediates, and its private key.
func Pair(chain, key []byte) (tls.Certificate, error) {
	if _, _, err := parse(chain, MaxChain); err != nil {
		return tls.Certificate{}, err
	}
	if err := CheckKey(key); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, key)
}

// CheckKey returns an error if a private key is too long to be parsed.
func CheckKey(key []byte) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("a private key of %d bytes is too long: at most %d are parsed. Use an RSA key of at most %d bits, or ECDSA", len(key), MaxKeyBytes, maxRSABits)
	}
	return nil
}

// parse parses all certificates, and returns the type of a block that is not one.
func parse(bundle []byte, most int) (all []*x509.Certificate, other string, err error) {
	if len(bundle) > MaxBytes {
		return nil, "", fmt.Errorf("it has %d bytes: at most %d are parsed. Remove CAs and comments that are not needed", len(bundle), MaxBytes)
	}
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all, other, nil
		}
		if block.Type != "CERTIFICATE" {
			other = block.Type
			continue
		}
		if len(all) == most {
			return nil, "", fmt.Errorf("it has more than %d certificates: remove those that are not needed", most)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, "", err
		}
		if key, ok := certificate.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return nil, "", fmt.Errorf("certificate %d has an RSA key of %d bits: at most %d are used. Issue it with a smaller key", len(all)+1, key.N.BitLen(), maxRSABits)
		}
		all = append(all, certificate)
	}
}

// Pause returns how long the result of a check is used that took a time: a hundred times as long, so that a tenant whose
// certificates are expensive within the bounds gets one percent of a processor. The time must not include requests. On a busy machine a
// check takes much longer than it costs, and a Secret may have been fixed since, so there is a maximum.
func Pause(least, most, took time.Duration) time.Duration { return min(max(least, 100*took), most) }
