// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/tls"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
)

func TestHasNameserver(t *testing.T) {
	for resolv, want := range map[string]bool{
		"nameserver 10.0.0.1\n": true, "search a\nnameserver ::1": true,
		"": false, "# nameserver 10.0.0.1\n": false, "nameserver\n": false, "search nameserver\n": false,
	} {
		if got := hasNameserver(resolv); got != want {
			t.Errorf("%q: got %t", resolv, got)
		}
	}
}

func TestWrite(t *testing.T) {
	l := layout.Layout{Root: t.TempDir()}
	if err := pki.Ensure(l.PKI(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing changes, and nothing fails
		if err := Write(l, "/usr/lib/cni"); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(l.Config(), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "{{") || strings.Contains(string(content), "<no value>") {
			t.Errorf("%s is not rendered", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKubeconfigHoldsAWorkingCertificate(t *testing.T) {
	l := layout.Layout{Root: t.TempDir()}
	if err := pki.Ensure(l.PKI(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := WriteKubeconfig(l, "admin", l.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) []byte {
		_, after, _ := strings.Cut(string(content), name+": ")
		line, _, _ := strings.Cut(after, "\n")
		decoded, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return decoded
	}
	if _, err := tls.X509KeyPair(value("client-certificate-data"), value("client-key-data")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(l.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: the key is not kept from others", info.Mode(), err)
	}
}
