// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// lookPath returns the absolute path of a program of the machine, or its name
// when there is none, so that starting it fails with that name.
func lookPath(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return name
}

// socketReady tells whether somebody accepts connections at a Unix socket.
func socketReady(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// httpReady tells whether a URL answers with 200.
func httpReady(url string) func(context.Context) error {
	return func(ctx context.Context) error { return get(ctx, &http.Client{Transport: newTransport(nil)}, url) }
}

// httpsReady does so for a server with a certificate of the cluster's authority.
func (c *Cluster) httpsReady(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		authority, err := os.ReadFile(c.pki("ca.crt"))
		if err != nil {
			return fmt.Errorf("reading the authority's certificate: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authority) {
			return errors.New("the authority's certificate is not PEM")
		}
		return get(ctx, &http.Client{Transport: newTransport(pool)}, url)
	}
}

// newTransport returns a transport for one call that ignores proxies: all
// servers are on this machine.
func newTransport(pool *x509.CertPool) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	const enough = 500
	body, _ := io.ReadAll(io.LimitReader(response.Body, enough)) // only for the message
	return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
}
