// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// scraped returns the status code of a request for metrics.
func scraped(t *testing.T, c *http.Client, url, bearer string) (int, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	NewWithT(t).Expect(strings.Contains(string(body), "etcdbr")).To(Equal(response.StatusCode == http.StatusOK), "nothing else is told")
	return response.StatusCode, err
}

var figures = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "etcdbr_snapshot_gc_total 1") })

func TestWhoReadsMetrics(t *testing.T) {
	sum := sha256.Sum256([]byte("scraper"))
	trust := auth.Trust{Audience: "uid", PublicKey: key.Public().(ed25519.PublicKey)}
	with := func(change func(*auth.Trust)) func() (auth.Trust, error) {
		t := trust
		change(&t)
		return func() (auth.Trust, error) { return t, nil }
	}
	token := with(func(t *auth.Trust) { t.MetricsTokenHash = hex.EncodeToString(sum[:]) })
	own := with(func(t *auth.Trust) { t.EtcdMetricsTokenHash = auth.HashOf(auth.MetricsToken(key, t.Audience)) })
	for name, c := range map[string]struct {
		trust  func() (auth.Trust, error)
		bearer string
		want   int
	}{
		"any client":                         {with(func(*auth.Trust) {}), "", 401},
		"any client, and any token":          {with(func(*auth.Trust) {}), "x", 401},
		"an empty token":                     {with(func(*auth.Trust) {}), " ", 401},
		"the token":                          {token, "scraper", 200},
		"another token":                      {token, "scrapes", 401},
		"the hash of the token":              {token, hex.EncodeToString(sum[:]), 401},
		"no token":                           {token, "", 401},
		"the token of this Etcd":             {own, auth.MetricsToken(key, "uid"), 200},
		"the token of another Etcd":          {own, auth.MetricsToken(key, "other"), 401},
		"the shared token, where none is":    {own, "scraper", 401},
		"any client, where that is allowed":  {with(func(t *auth.Trust) { t.AllowUnauthenticatedMetrics = true }), "", 200},
		"any client, where snapshots may be": {with(func(t *auth.Trust) { t.AllowUnauthenticated = true }), "", 401},
		"the operator has told nothing":      {func() (auth.Trust, error) { return auth.Trust{}, errors.New("not there") }, "scraper", 401},
		"an operator that tells nothing":     {nil, "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := httptest.NewServer(Metrics(Config{Trust: c.trust, Log: logr.Discard()}, figures))
			t.Cleanup(s.Close)
			g.Expect(scraped(t, s.Client(), s.URL, c.bearer)).To(Equal(c.want))
		})
	}
}

// With TLS, a certificate of the agents' CA is enough; the CA is read again when it changes.
func TestMetricsByCertificate(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	other, err := certs.NewCA("other")
	g.Expect(err).NotTo(HaveOccurred())
	files := agent(g, t.TempDir(), ca)
	s := httptest.NewUnstartedServer(Metrics(Config{Trust: trusting(true), Log: logr.Discard()}, figures))
	s.Listener = tls.NewListener(s.Listener, files.Server(nil))
	s.Start()
	t.Cleanup(s.Close)
	url := strings.Replace(s.URL, "http://127.0.0.1", "https://localhost", 1)

	scraper := func(of *certs.CA, options ...certs.Change) *http.Client {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca.PEM)
		config := &tls.Config{RootCAs: roots}
		if of != nil {
			pair, err := of.Issue([]string{"prometheus"}, options...)
			g.Expect(err).NotTo(HaveOccurred())
			certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
			g.Expect(err).NotTo(HaveOccurred())
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	g.Expect(scraped(t, scraper(nil), url, "")).To(Equal(401))
	g.Expect(scraped(t, scraper(ca, certs.ClientOnly), url, "")).To(Equal(200))
	_, err = scraped(t, scraper(other, certs.ClientOnly), url, "")
	g.Expect(err).To(HaveOccurred())
	_, err = scraped(t, scraper(ca, certs.ServerOnly), url, "")
	g.Expect(err).To(HaveOccurred(), "a member's server certificate is not a scraper's")

	g.Expect(os.WriteFile(files.CAFile, other.PEM, 0o600)).To(Succeed())
	g.Expect(scraped(t, scraper(other, certs.ClientOnly), url, "")).To(Equal(200))
	g.Expect(os.WriteFile(files.CAFile, nil, 0o600)).To(Succeed())
	g.Expect(scraped(t, scraper(other, certs.ClientOnly), url, "")).To(Equal(401), "without CAs there are no scrapers, and no others than before")
}
