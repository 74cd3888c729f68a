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

// Folders of a member's pod in which its certificates are, one for each Secret. Gardener's etcd-wrapper has
// them at the same places.
const (
	// ClientCADir has the CAs for the connections between clients and members.
	ClientCADir = "/var/etcd/ssl/ca"
	// ServerDir has the certificate that the member shows to clients.
	ServerDir = "/var/etcd/ssl/server"
	// ClientDir has the certificate with which an agent is a client.
	ClientDir = "/var/etcd/ssl/client"
	// PeerCADir has the CAs for the connections among members.
	PeerCADir = "/var/etcd/ssl/peer/ca"
	// PeerServerDir has the certificate that the member shows to the others.
	PeerServerDir = "/var/etcd/ssl/peer/server"
)

// Files in these folders, whatever they are called in their Secrets.
const (
	CAFile          = "ca.crt"
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
)

// ClientTLS is the TLS configuration of an agent's own etcd clients, with the certificate in a folder, which is
// ClientDir in a member's pod; nil when members listen for clients without TLS. The certificate is read anew for
// each connection. The CAs are read now: when they change, the operator replaces the pods.
//
// The certificate of a member is for its host name. A client that dials another address, that of its own pod
// say, has to set ServerName to that of the member's client URL, and to give it to gRPC (WithAuthority), which
// would check the certificate for the host that is dialed otherwise.
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
