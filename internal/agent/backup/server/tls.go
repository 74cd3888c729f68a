// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/spf13/pflag"
)

// TLS has the certificate files of the API. Its zero value is plain HTTP.
type TLS struct {
	// CertFile and KeyFile are the agent's own.
	CertFile, KeyFile string
	// CAFile has the CAs that sign the certificates of agents.
	CAFile string
}

// AddFlags adds the flags of the files.
func (t *TLS) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.CertFile, "tls-cert-file", "", "certificate of the HTTP API; empty: plain HTTP")
	flags.StringVar(&t.KeyFile, "tls-key-file", "", "private key of the HTTP API")
	flags.StringVar(&t.CAFile, "tls-ca-file", "", "CAs that sign the certificates of agents")
}

// Scheme of the API's URLs.
func (t TLS) Scheme() string {
	if t.CertFile == "" {
		return "http"
	}
	return "https"
}

// Server returns the configuration to serve with; nil for plain HTTP. The certificate, and the versions and cipher suites that the
// operator allows, are read for each connection: a renewed certificate is used at once, and a broken one does not stop the agent.
func (t TLS) Server(trust func() (auth.Trust, error)) *tls.Config {
	if t.CertFile == "" {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
		if trust != nil {
			// While it cannot be read, every request is refused.
			allowed, _ := trust()
			config.MinVersion, config.CipherSuites = max(config.MinVersion, allowed.TLSMinVersion), allowed.TLSCipherSuites
		}
		// Clients need no certificate; one that they present, to read metrics, is verified. Without CAs it would be verified
		// against those of the system.
		if roots, caErr := t.authorities(); caErr == nil {
			config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, roots
		}
		return config, err
	}}
}

// authorities reads the CAs of the agents.
func (t TLS) authorities() (*x509.CertPool, error) {
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CAs of the agents: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("reading the CAs of the agents: there is no certificate in " + t.CAFile)
	}
	return roots, nil
}

// RoundTrip implements http.RoundTripper for requests to other agents. It reads the CAs each time; such requests are rare.
func (t TLS) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.CertFile == "" {
		return api.NewTransport(nil, api.Timeouts{}).RoundTrip(r)
	}
	roots, err := t.authorities()
	if err != nil {
		return nil, err
	}
	return api.NewTransport(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, api.Timeouts{}).RoundTrip(r)
}
