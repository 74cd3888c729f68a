// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// Folders of a member's pod with its certificates, one for each Secret. Gardener's etcd-wrapper uses the same.
const (
	// ClientCADir has the CAs for the connections between clients and members.
	ClientCADir = "/var/etcd/ssl/ca"
	// ServerDir has the member's certificate for clients.
	ServerDir = "/var/etcd/ssl/server"
	// ClientDir has the agent's client certificate.
	ClientDir = "/var/etcd/ssl/client"
	// PeerCADir has the CAs for the connections among members.
	PeerCADir = "/var/etcd/ssl/peer/ca"
	// PeerServerDir has the member's certificate for peers.
	PeerServerDir = "/var/etcd/ssl/peer/server"
)

// Files in these folders, whatever they are called in their Secrets.
const (
	CAFile          = "ca.crt"
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
)

// ClientTLS returns the TLS configuration of an agent's etcd clients; nil if members listen for clients without TLS. The certificate is in
// dir, which is ClientDir in a member's pod, and is read for each connection. The CAs are read once: if they change, the operator replaces
// the pods.
//
// The certificate of a member is for its host name. A client that dials another address, such as that of its own pod, must pass the host of
// the member's client URL to gRPC (WithAuthority); otherwise gRPC checks the certificate against the dialed host.
func (s Shared) ClientTLS(dir string) (*tls.Config, error) {
	listen, err := url.Parse(text(s.Config, "listen-client-urls"))
	if err != nil {
		return nil, fmt.Errorf("reading listen-client-urls of the shared configuration: %w", err)
	}
	if listen.Scheme != "https" {
		return nil, nil
	}
	security, _ := s.Config["client-transport-security"].(map[string]any)
	info := transport.TLSInfo{
		TrustedCAFile: text(security, "trusted-ca-file"),
		CertFile:      filepath.Join(dir, CertificateFile),
		KeyFile:       filepath.Join(dir, KeyFile),
	}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate in %s and the CAs in %s: %w", dir, info.TrustedCAFile, err)
	}
	return config, nil
}
