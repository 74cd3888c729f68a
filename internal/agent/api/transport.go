// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// Timeouts of a request. Zero values are the defaults.
type Timeouts struct {
	// Connect bounds the connection and, for as long again, its handshake. Default 10s.
	Connect time.Duration
	// Header bounds the wait for the response header, which comes once the snapshot is done. Default 4h, the longest
	// deadline of a task.
	Header time.Duration
	// Body bounds reading the body after that. Default 30s.
	Body time.Duration
}

func (t Timeouts) connect() time.Duration { return cmp.Or(t.Connect, 10*time.Second) }
func (t Timeouts) header() time.Duration  { return cmp.Or(t.Header, 4*time.Hour) }
func (t Timeouts) body() time.Duration    { return cmp.Or(t.Body, 30*time.Second) }

// headerLimit bounds the header of a response, in bytes.
const headerLimit = 16 << 10

// NewTransport makes a transport for one request to an agent. It uses no proxy, and bounds waits and the response header.
func NewTransport(config *tls.Config, t Timeouts) *http.Transport {
	dialer := &net.Dialer{Timeout: t.connect()}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: t.connect(),
		ResponseHeaderTimeout: t.header(), MaxResponseHeaderBytes: headerLimit,
		DisableKeepAlives: true, DisableCompression: true,
	}
}

// httpClient makes the client of one request. It follows no redirect.
func (c Client) httpClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     NewTransport(c.TLS, c.Timeouts),
	}
}

// requestError reports a request without a usable answer. It has its own text, because errors of the standard library quote what
// was received.
type requestError struct {
	says string
	err  error
}

func (e *requestError) Error() string { return "asking the agent: " + e.says }
func (e *requestError) Unwrap() error { return e.err }

// WhyNoAnswer returns why an agent did not answer, without quoting anything that was received.
func WhyNoAnswer(err error) string {
	var (
		timed       net.Error
		op          *net.OpError
		name        *net.DNSError
		unknown     x509.UnknownAuthorityError
		host        x509.HostnameError
		invalid     x509.CertificateInvalidError
		notTLS      tls.RecordHeaderError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "the request was canceled"
	case errors.As(err, &name):
		return "its name cannot be resolved: " + name.Error()
	case errors.As(err, &op) && op.Op == "dial":
		return op.Error()
	case errors.As(err, &unknown):
		return "its certificate is not signed by a CA of spec.backup.tls.tlsCASecretRef"
	case errors.As(err, &host):
		return "its certificate is not for the host name " + host.Host
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	case errors.As(err, &certificate):
		return "its certificate cannot be verified"
	case errors.As(err, &notTLS) || errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.As(err, &timed) && timed.Timeout():
		return "it did not answer in time"
	}
	return "the connection broke, or it is not an agent"
}
