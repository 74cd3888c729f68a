// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the keys and certificates of the local Kubernetes. Its etcd and its aggregation layer have
// authorities of their own, so that a client certificate of one is not accepted by another.
package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"k8s.io/client-go/util/keyutil"
)

// validity is far longer than such a cluster lives. A cluster that lives longer gets new certificates at the first boot
// in which less than renewal of it is left.
const (
	validity = 365 * 24 * time.Hour
	renewal  = 30 * 24 * time.Hour
)

// Files returns the paths of a certificate and of its key.
func Files(dir, name string) (certificate, key string) {
	return filepath.Join(dir, name+".crt"), KeyFile(dir, name)
}

// KeyFile returns the path of a key.
func KeyFile(dir, name string) string { return filepath.Join(dir, name+".key") }

// Ensure writes all keys and certificates into dir, unless they exist and are valid for long enough. It renews all of
// them or none, so that they belong together.
func Ensure(dir string, now time.Time) error {
	if complete(dir, now) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	valid := func(c *x509.Certificate) { c.NotAfter = now.Add(validity) }
	issuers := map[string]*certs.CA{}
	for _, name := range authorities {
		ca, err := certs.NewCA("etcd-foreman-local "+name, valid)
		if err != nil {
			return err
		}
		if err := write(dir, name, certs.Pair{Certificate: ca.PEM, Key: ca.Key}); err != nil {
			return err
		}
		issuers[name] = ca
	}
	for _, c := range certificates {
		changes := []certs.Change{valid, func(t *x509.Certificate) { t.Subject = c.subject }}
		if len(c.hosts) == 0 {
			changes = append(changes, certs.ClientOnly)
		}
		pair, err := issuers[c.authority].Issue(c.hosts, changes...)
		if err != nil {
			return fmt.Errorf("issuing certificate %s: %w", c.name, err)
		}
		if err := write(dir, c.name, pair); err != nil {
			return err
		}
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("creating the key of ServiceAccounts: %w", err)
	}
	return os.WriteFile(KeyFile(dir, ServiceAccountKey), key, 0o600)
}

func write(dir, name string, pair certs.Pair) error {
	certificate, key := Files(dir, name)
	return errors.Join(os.WriteFile(certificate, pair.Certificate, 0o600), os.WriteFile(key, pair.Key, 0o600))
}

// complete reports whether every file exists and no certificate is about to expire.
func complete(dir string, now time.Time) bool {
	if _, err := os.Stat(KeyFile(dir, ServiceAccountKey)); err != nil {
		return false
	}
	names := slices.Clone(authorities)
	for _, c := range certificates {
		names = append(names, c.name)
	}
	for _, name := range names {
		certificate, err := read(dir, name)
		if err != nil || now.Add(renewal).After(certificate.NotAfter) {
			return false
		}
	}
	return true
}

// read returns a certificate that has its key.
func read(dir, name string) (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(Files(dir, name))
	return pair.Leaf, err
}
