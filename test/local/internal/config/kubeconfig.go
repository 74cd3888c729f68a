// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/atomic"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig for the holder of a certificate. It contains the certificate itself, so that it
// can be copied.
func WriteKubeconfig(l layout.Layout, certificate, path string) error {
	authority, _ := pki.Files(l.PKI(), pki.ClusterCA)
	certificatePath, keyPath := pki.Files(l.PKI(), certificate)
	config := api.NewConfig()
	config.CurrentContext = layout.ContextName
	config.Contexts[layout.ContextName] = &api.Context{Cluster: layout.ContextName, AuthInfo: certificate}
	config.Clusters[layout.ContextName] = &api.Cluster{Server: layout.Server, CertificateAuthority: authority}
	config.AuthInfos[certificate] = &api.AuthInfo{ClientCertificate: certificatePath, ClientKey: keyPath}
	if err := api.FlattenConfig(config); err != nil {
		return fmt.Errorf("making the kubeconfig of %s: %w", certificate, err)
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("making the kubeconfig of %s: %w", certificate, err)
	}
	return atomic.WriteFile(path, content, 0o600)
}
