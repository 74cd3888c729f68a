// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/pki"
	"k8s.io/client-go/util/cert"
)

// socketReady checks that a program accepts connections at a Unix socket.
func socketReady(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// httpReady checks that a URL answers with 200.
func httpReady(url string) func(context.Context) error {
	return func(ctx context.Context) error { return get(ctx, url, nil) }
}

// httpsReady checks it for a server with a certificate of the cluster's authority.
func (c *Cluster) httpsReady(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		authority, _ := pki.Files(c.Layout.PKI(), pki.ClusterCA)
		pool, err := cert.NewPool(authority)
		if err != nil {
			return fmt.Errorf("reading the authority's certificate: %w", err)
		}
		return get(ctx, url, pool)
	}
}

func get(ctx context.Context, url string, authorities *x509.CertPool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Without a proxy: all servers are on this machine.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}
	response, err := (&http.Client{Transport: transport}).Do(request)
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
