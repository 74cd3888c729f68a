// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// trustFor is how long the content of a Secret is used. The operator does not watch Secrets: the right to watch
	// includes the right to list all of them.
	trustFor = 5 * time.Minute
	// doubtFor is how long it is used if a member that should answer does not answer.
	doubtFor = 10 * time.Second
)

// Credentials holds the operator's client certificates for members, and the CAs of members. It reads Secrets on demand, and again after
// trustFor, to follow changes. A nil *Credentials has none.
type Credentials struct {
	// Reader reads Secrets from the API server, one at a time.
	Reader client.Reader
	Clock  clock.PassiveClock
	// Limits restricts versions and cipher suites; nil is TLS 1.2 and Go's defaults.
	Limits func(*tls.Config)
	// Elsewhere returns why the operator must not connect to an endpoint for an Etcd that is not one of its pods; if nil, it may connect to
	// any.
	Elsewhere func(etcd *v1alpha1.Etcd, endpoint string) error

	mu    sync.Mutex
	etcds map[types.NamespacedName]*credential
	// swept is when unused credentials were last dropped. A search at each request would take longer the more Etcds there are.
	swept time.Time
}

// credential is that of one Etcd.
type credential struct {
	// mu is held while Secrets are read, so that they are read once.
	mu   sync.Mutex
	spec v1alpha1.ClientURLTLS
	side *ClientSide
	// read is when it was read, used when it was last used; failed is when it could not be read again, and zero if it could.
	read, used, failed time.Time
	roots              *x509.CertPool
	pair               tls.Certificate
	// configs by member. Connections are pooled by configuration, so configurations are kept while they are valid.
	configs map[string]*tls.Config
}

// TLS returns the configuration for a connection to a member at an endpoint; nil for an endpoint without TLS. The certificate
// of a member must be valid for its host name, whatever address is dialed; that of a foreign member, whose name is empty,
// for the host of the endpoint. It returns the same configuration until something changes.
func (c *Credentials) TLS(ctx context.Context, etcd *v1alpha1.Etcd, member, endpoint string) (*tls.Config, error) {
	if !strings.HasPrefix(endpoint, "https://") {
		return nil, nil
	}
	spec := etcd.ClientTLS()
	if c == nil || spec == nil {
		return nil, fmt.Errorf("connecting to %s: Etcd %s has no clientUrlTls", endpoint, client.ObjectKeyFromObject(etcd))
	}
	of := c.of(client.ObjectKeyFromObject(etcd))
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.side == nil {
		if err := of.refresh(ctx, c.Reader, etcd, c.Clock.Now()); err != nil {
			return nil, err
		}
	} else if !equality.Semantic.DeepEqual(of.spec, *spec) || c.Clock.Since(of.read) > trustFor {
		c.follow(ctx, of, etcd)
	}
	return of.config(etcd, member, c.Limits), nil
}

// follow reads Secrets again whose previous content stays in use if that fails. It leaves half of the time for what the connection is for, and
// does not try again at once: an API server that hangs keeps no member from answering.
func (c *Credentials) follow(ctx context.Context, of *credential, etcd *v1alpha1.Etcd) {
	now := c.Clock.Now()
	if now.Sub(of.failed) < doubtFor {
		return
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(time.Until(deadline)/2, time.Second))
		defer cancel()
	}
	of.failed = time.Time{}
	if err := of.refresh(ctx, c.Reader, etcd, now); err != nil {
		of.failed = now
	}
}

// Dial makes a client for a member at an endpoint, with the configuration of TLS. The member is empty if the endpoint comes from the spec
// or a member list, and is not one of the Etcd's pods.
func (c *Credentials) Dial(ctx context.Context, dialer etcdclient.Dialer, etcd *v1alpha1.Etcd, member, endpoint string) (etcdclient.Client, error) {
	if c != nil && c.Elsewhere != nil && member == "" {
		if err := c.Elsewhere(etcd, endpoint); err != nil {
			return nil, err
		}
	}
	config, err := c.TLS(ctx, etcd, member, endpoint)
	if err != nil {
		return nil, err
	}
	return dialer.Dial(endpoint, config)
}

// Doubt makes the next connection read the Secrets again, unless they were just read. Call it if a member that should
// answer does not.
func (c *Credentials) Doubt(etcd types.NamespacedName) {
	if c == nil {
		return
	}
	of := c.of(etcd)
	of.mu.Lock()
	defer of.mu.Unlock()
	if c.Clock.Since(of.read) > doubtFor {
		of.read = time.Time{}
	}
}

// of returns the credential of an Etcd. From time to time it drops credentials that have not been used for a while.
func (c *Credentials) of(etcd types.NamespacedName) *credential {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if now.Sub(c.swept) > trustFor {
		c.swept = now
		maps.DeleteFunc(c.etcds, func(_ types.NamespacedName, other *credential) bool { return now.Sub(other.used) > 2*trustFor })
	}
	if c.etcds == nil {
		c.etcds = map[types.NamespacedName]*credential{}
	}
	if c.etcds[etcd] == nil {
		c.etcds[etcd] = &credential{}
	}
	c.etcds[etcd].used = now
	return c.etcds[etcd]
}

// refresh reads the Secrets. If it fails, their previous content stays as it is.
func (of *credential) refresh(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, now time.Time) error {
	r := secrets{ctx: ctx, reader: reader, namespace: etcd.Namespace, seen: map[string]map[string][]byte{}}
	spec := etcd.ClientTLS()
	side := &ClientSide{CA: r.readBundle(spec.TLSCASecretRef), Client: r.readPair(spec.ClientTLSSecretRef)}
	if r.err != nil {
		return r.err
	}
	of.read = now
	if of.side != nil && of.side.sameAs(side) {
		of.spec = *spec.DeepCopy()
		return nil
	}
	authorities, err := side.CA.authorities()
	if err != nil {
		return err
	}
	pair, err := boundedpem.Pair(side.Client.Certificate, side.Client.Key)
	if err != nil {
		return &Problem{Secret: side.Client.Secret, What: fmt.Sprintf("has a tls.crt or a tls.key that cannot be used: %v", err)}
	}
	of.spec, of.side, of.roots, of.pair, of.configs = *spec.DeepCopy(), side, pool(authorities), pair, map[string]*tls.Config{}
	return nil
}

func (s *ClientSide) sameAs(other *ClientSide) bool {
	return bytes.Equal(s.CA.PEM, other.CA.PEM) &&
		bytes.Equal(s.Client.Certificate, other.Client.Certificate) && bytes.Equal(s.Client.Key, other.Client.Key)
}

func (of *credential) config(etcd *v1alpha1.Etcd, member string, limits func(*tls.Config)) *tls.Config {
	if of.configs[member] == nil {
		config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: of.roots, Certificates: []tls.Certificate{of.pair}}
		if limits != nil {
			limits(config)
		}
		if member != "" {
			config.ServerName = etcd.MemberHost(member)
		}
		of.configs[member] = config
	}
	return of.configs[member]
}
