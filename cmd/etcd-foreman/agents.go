// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agentapi"
	"github.com/etcd-foreman/etcd-foreman/internal/agentauth"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agents are those beside the members of all Etcds.
type agents struct {
	live  client.Reader
	key   ed25519.PrivateKey
	clock clock.PassiveClock
	// open: they let in anybody.
	open bool
}

// trust says whom the agents of an Etcd let in.
func (a agents) trust(etcd *v1alpha1.Etcd) agentauth.Trust {
	return agentauth.Trust{Audience: string(etcd.UID), PublicKey: a.key.Public().(ed25519.PublicKey), AllowUnauthenticated: a.open}
}

// client makes a client of the agents of an Etcd: any of them asks the leading one. They recognize the operator by its
// signature; with spec.backup.tls the operator recognizes them by the CAs that it names.
func (a agents) client(ctx context.Context, etcd *v1alpha1.Etcd) (agentapi.Client, error) {
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(etcd.ClientHost(), strconv.Itoa(int(component.BackupPort(etcd))))}
	c := agentapi.Client{Authorize: func(r *http.Request) error {
		return agentauth.Sign(a.key, string(etcd.UID), r, a.clock.Now())
	}}
	if etcd.BackupTLS() != nil {
		roots, err := certificates.Agents(ctx, a.live, etcd)
		if err != nil {
			return agentapi.Client{}, err
		}
		at.Scheme, c.TLS = "https", &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	c.BaseURL = at.String()
	return c, nil
}
