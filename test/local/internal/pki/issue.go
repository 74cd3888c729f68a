// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// writeAll makes everything anew.
func writeAll(dir string, now time.Time) error {
	issuers := map[string]authority{}
	for _, name := range authorities {
		a, err := newAuthority(dir, name, now)
		if err != nil {
			return fmt.Errorf("creating authority %s: %w", name, err)
		}
		issuers[name] = a
	}
	for _, c := range Certificates() {
		if err := issuers[c.Authority].issue(dir, c, now); err != nil {
			return fmt.Errorf("issuing certificate %s: %w", c.Name, err)
		}
	}
	if err := writeServiceAccountKey(dir); err != nil {
		return fmt.Errorf("creating the key of ServiceAccounts: %w", err)
	}
	return nil
}

func newAuthority(dir, name string, now time.Time) (authority, error) {
	template, err := newTemplate(pkix.Name{CommonName: "etcd-foreman-local " + name}, now)
	if err != nil {
		return authority{}, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, err
	}
	return authority{certificate: certificate, key: key}, writePair(dir, name, der, key)
}

func (a authority) issue(dir string, c Certificate, now time.Time) error {
	template, err := newTemplate(c.Subject, now)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if c.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	template.DNSNames = c.DNS
	for _, text := range c.IPs {
		ip := net.ParseIP(text)
		if ip == nil {
			return fmt.Errorf("%q is not an IP address", text)
		}
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePair(dir, c.Name, der, key)
}

func newTemplate(subject pkix.Name, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // the clock may be set back a little
		NotAfter:     now.Add(validity),
	}, nil
}

func writeServiceAccountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, ServiceAccountKey+".pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, ServiceAccountKey+".key"), key)
}

func writePair(dir, name string, der []byte, key *ecdsa.PrivateKey) error {
	certificatePath, keyPath := Files(dir, name)
	if err := writePEM(certificatePath, "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(keyPath, key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// readPair returns the certificate of a pair whose key fits.
func readPair(dir, name string) (*x509.Certificate, error) {
	certificatePath, keyPath := Files(dir, name)
	pair, err := tls.LoadX509KeyPair(certificatePath, keyPath)
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}
