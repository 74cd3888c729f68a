// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// agent is what an agent has of a CA: a certificate for this host, and the CA itself.
func agent(g Gomega, dir string, ca *certs.CA) TLS {
	pair, err := ca.Issue([]string{"localhost"})
	g.Expect(err).NotTo(HaveOccurred())
	files := TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt")}
	for name, content := range map[string][]byte{files.CertFile: pair.Certificate, files.KeyFile: pair.Key, files.CAFile: ca.PEM} {
		g.Expect(os.WriteFile(name, content, 0o600)).To(Succeed())
	}
	return files
}

func serveTLS(t *testing.T, of TLS, c Config) string {
	c.Log, c.Transport = logr.Discard(), of
	s := httptest.NewUnstartedServer(Handler(c))
	s.Listener = tls.NewListener(s.Listener, of.Server(c.Trust))
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http://127.0.0.1", of.Scheme()+"://localhost", 1)
}

func clientOf(ca *certs.CA, url string) api.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	return api.Client{BaseURL: url, TLS: &tls.Config{RootCAs: roots}}
}

// Clients and other agents recognize an agent by its CA. Changed certificates and CAs are used without a restart.
func TestTLS(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	other, err := certs.NewCA("other")
	g.Expect(err).NotTo(HaveOccurred())
	leaders, followers := t.TempDir(), t.TempDir()
	leader := serveTLS(t, agent(g, leaders, ca), Config{Snapshots: fake{full: full}, Leader: self})
	follower := serveTLS(t, agent(g, followers, ca), Config{Snapshots: fake{err: errors.New("not here")}, Leader: func(context.Context) (Leader, error) { return Leader{URL: leader}, nil }})

	got, err := clientOf(ca, follower).Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Name()).To(Equal(full.Name()))
	var unknown *tls.CertificateVerificationError
	_, err = clientOf(other, follower).Full(t.Context(), false)
	g.Expect(errors.As(err, &unknown)).To(BeTrue(), "%v", err)

	agent(g, leaders, other)
	_, err = clientOf(ca, follower).Full(t.Context(), false)
	g.Expect(err).To(MatchError(ContainSubstring("the agent of the leader is not answering")), "it is another server")
	agent(g, followers, other)
	_, err = clientOf(other, follower).Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
}

// The operator chooses versions and cipher suites, and may choose others while an agent runs.
func TestLimitsOfTLS(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	var trust auth.Trust
	url := serveTLS(t, agent(g, t.TempDir(), ca), Config{Snapshots: fake{full: full}, Leader: self, Trust: func() (auth.Trust, error) { return trust, nil }})
	dial := func(version uint16) (*tls.Conn, error) {
		return tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{MaxVersion: version, RootCAs: clientOf(ca, url).TLS.RootCAs})
	}
	_, err = dial(tls.VersionTLS11)
	g.Expect(err).To(HaveOccurred())
	_, err = dial(tls.VersionTLS12)
	g.Expect(err).NotTo(HaveOccurred())

	trust.TLSCipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}
	c, err := dial(tls.VersionTLS12)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trust.TLSCipherSuites).To(ContainElement(c.ConnectionState().CipherSuite))

	trust = auth.Trust{TLSMinVersion: tls.VersionTLS13}
	_, err = dial(tls.VersionTLS12)
	g.Expect(err).To(MatchError(ContainSubstring("protocol version not supported")))
	_, err = dial(tls.VersionTLS13)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestWithoutTLS(t *testing.T) {
	g := NewWithT(t)
	g.Expect(TLS{}.Scheme()).To(Equal("http"))
	g.Expect(TLS{}.Server(nil)).To(BeNil())
}
