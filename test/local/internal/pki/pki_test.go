// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func issued(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := Ensure(dir, now); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verify checks a certificate against an authority, as a peer would.
func verify(t *testing.T, dir, name, authority, host string, usage x509.ExtKeyUsage) error {
	t.Helper()
	certificate, err := read(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	root, err := read(dir, authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err = certificate.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}

func TestServersAreKnownByEveryNameTheyAreCalled(t *testing.T) {
	dir := issued(t)
	for name, hosts := range map[string][]string{
		"kube-apiserver":          {"kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "kubernetes", "127.0.0.1", "10.88.0.1", "10.96.0.1"},
		"kubelet":                 {"10.88.0.1", "local"},
		"kube-controller-manager": {"127.0.0.1"},
		"kube-scheduler":          {"127.0.0.1"},
	} {
		for _, host := range hosts {
			if err := verify(t, dir, name, ClusterCA, host, x509.ExtKeyUsageServerAuth); err != nil {
				t.Errorf("%s as %s: %v", name, host, err)
			}
		}
	}
	if err := verify(t, dir, "etcd", EtcdCA, "127.0.0.1", x509.ExtKeyUsageServerAuth); err != nil {
		t.Errorf("etcd: %v", err)
	}
}

func TestClientsAreWhoRBACKnows(t *testing.T) {
	dir := issued(t)
	for name, want := range map[string][2]string{
		"kubelet": {"system:node:local", "system:nodes"},
		"admin":   {"admin", "system:masters"},
		"coredns": {"system:coredns", ""},
	} {
		certificate, err := read(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if certificate.Subject.CommonName != want[0] || (want[1] != "" && !slices.Contains(certificate.Subject.Organization, want[1])) {
			t.Errorf("%s is %s", name, certificate.Subject)
		}
		if err := verify(t, dir, name, ClusterCA, "", x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthoritiesAreApart(t *testing.T) {
	dir := issued(t)
	if err := verify(t, dir, "admin", EtcdCA, "", x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("etcd would accept the administrator of Kubernetes")
	}
	if err := verify(t, dir, "coredns", ClusterCA, "", x509.ExtKeyUsageServerAuth); err == nil {
		t.Error("a client may serve")
	}
}

func TestEnsureRenewsAllOrNothing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(dir string) error
		later  time.Duration
		same   bool
	}{
		"unchanged":         {func(string) error { return nil }, time.Hour, true},
		"about to expire":   {func(string) error { return nil }, validity - time.Hour, false},
		"certificate gone":  {func(dir string) error { return os.Remove(filepath.Join(dir, "coredns.crt")) }, 0, false},
		"key gone":          {func(dir string) error { return os.Remove(filepath.Join(dir, "etcd.key")) }, 0, false},
		"half a file":       {func(dir string) error { return os.Truncate(filepath.Join(dir, "ca.crt"), 100) }, 0, false},
		"token key gone":    {func(dir string) error { return os.Remove(filepath.Join(dir, ServiceAccountKey+".key")) }, 0, false},
		"something foreign": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "x.crt"), nil, 0o600) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := issued(t)
			before, err := os.ReadFile(filepath.Join(dir, "admin.crt"))
			if err != nil {
				t.Fatal(err)
			}
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			if err := Ensure(dir, now.Add(test.later)); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(dir, "admin.crt"))
			if err != nil {
				t.Fatal(err)
			}
			if slices.Equal(before, after) != test.same {
				t.Errorf("same certificate: %t, want %t", !test.same, test.same)
			}
		})
	}
}
