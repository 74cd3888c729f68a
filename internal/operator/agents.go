// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agents makes clients of the agents of all Etcds.
type agents struct {
	live client.Reader
	// key signs requests. It is nil for agents of another operator, which know no signature.
	key   ed25519.PrivateKey
	clock clock.PassiveClock
	// api configures who may use the API without a signature.
	api configv1alpha1.AgentAPI
	// tls restricts the connections to them.
	tls configv1alpha1.TLS
}

// trust returns who may use the API of the agents of an Etcd.
func (a agents) trust(etcd *v1alpha1.Etcd) auth.Trust {
	t := auth.Trust{Audience: string(etcd.UID), PublicKey: a.key.Public().(ed25519.PublicKey), AllowUnauthenticated: a.api.AllowUnauthenticatedSnapshots,
		MetricsTokenHash: a.api.MetricsTokenHash, EtcdMetricsTokenHash: auth.HashOf(auth.MetricsToken(a.key, string(etcd.UID))), AllowUnauthenticatedMetrics: a.api.AllowUnauthenticatedMetrics}
	limits := a.limited(&tls.Config{})
	if t.TLSCipherSuites = limits.CipherSuites; limits.MinVersion > tls.VersionTLS12 {
		t.TLSMinVersion = limits.MinVersion
	}
	return t
}

// client makes a client of the agents of an Etcd, by the client Service, or by the members while that selects none. Each agent forwards requests to the agent of the leader. Agents verify the operator's
// signature; with spec.backup.tls, the operator verifies their certificates.
func (a agents) client(ctx context.Context, etcd *v1alpha1.Etcd) (api.Client, error) {
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(etcd.ClientHost(), strconv.Itoa(int(component.BackupPort(etcd))))}
	c := api.Client{Dial: dialOr(etcd.MemberHosts())}
	if a.key != nil {
		c.Authorize = func(r *http.Request) error { return auth.Sign(a.key, string(etcd.UID), r, a.clock.Now()) }
	}
	if etcd.BackupTLS() != nil {
		roots, err := certificates.Agents(ctx, a.live, etcd)
		if err != nil {
			return api.Client{}, err
		}
		at.Scheme, c.TLS = "https", a.limited(&tls.Config{RootCAs: roots})
	}
	c.BaseURL = at.String()
	return c, nil
}

// dialOr returns a function that connects to an address, or else to the same port of the first of some hosts that accepts.
func dialOr(hosts []string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		_, port, splitErr := net.SplitHostPort(address)
		if splitErr != nil {
			return nil, err
		}
		for _, host := range hosts {
			if conn, hostErr := dialer.DialContext(ctx, network, net.JoinHostPort(host, port)); hostErr == nil {
				return conn, nil
			}
		}
		return nil, err
	}
}

// dialTimeout bounds each attempt to connect to an agent.
const dialTimeout = 5 * time.Second

func (a agents) limited(c *tls.Config) *tls.Config {
	a.tls.Apply(c)
	return c
}
