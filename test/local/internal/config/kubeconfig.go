// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: %[1]s
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: %[2]s}
clusters:
- name: %[1]s
  cluster:
    server: %[3]s
    certificate-authority-data: %[4]s
users:
- name: %[2]s
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
`

// WriteKubeconfig writes a kubeconfig for the holder of a certificate. It holds
// the certificate itself, so that it may be copied elsewhere.
func WriteKubeconfig(l layout.Layout, certificate, path string) error {
	certificatePath, keyPath := pki.Files(l.PKI(), certificate)
	authorityPath, _ := pki.Files(l.PKI(), pki.ClusterCA)
	var data [3]string
	for i, file := range []string{authorityPath, certificatePath, keyPath} {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("writing kubeconfig of %s: %w", certificate, err)
		}
		data[i] = base64.StdEncoding.EncodeToString(content)
	}
	content := fmt.Sprintf(kubeconfig, layout.ContextName, certificate, layout.Server, data[0], data[1], data[2])
	return atomic.WriteFile(path, []byte(content), 0o600)
}
