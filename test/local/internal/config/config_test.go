// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.TransportFor(config); err != nil || config.Host != layout.Server || len(config.CertData) == 0 || len(config.CAData) == 0 {
		t.Errorf("%s: %v", config, err)
	}
	if info, err := os.Stat(l.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: the key is readable by others", info.Mode(), err)
	}
}
