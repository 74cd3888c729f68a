// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ticking returns a clock by which no connection is unused for too long, however busy the machine is.
func ticking() func() time.Time {
	var ticks atomic.Int64
	return func() time.Time { return time.Unix(0, ticks.Add(1)) }
}

// member answers status requests, unless broken, and counts its connections.
type member struct {
	etcdserverpb.UnimplementedMaintenanceServer
	net.Listener
	broken atomic.Bool
	// takes is the duration of an answer.
	takes       atomic.Int64
	connections atomic.Int32
	// open is the number of open connections.
	open atomic.Int32
	all  sync.Map
}

// hangUp closes every connection.
func (m *member) hangUp() {
	m.all.Range(func(c, _ any) bool {
		_ = c.(*connection).Close()
		return true
	})
}

// connection reports its end to the member.
type connection struct {
	net.Conn
	member *member
	once   sync.Once
}

func (c *connection) Close() error {
	c.once.Do(func() { c.member.open.Add(-1) })
	return c.Conn.Close()
}

func (m *member) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	select {
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-time.After(time.Duration(m.takes.Load())):
	}
	if m.broken.Load() {
		return nil, status.Error(codes.Internal, "broken")
	}
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}}, nil
}

func (m *member) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if err == nil {
		m.connections.Add(1)
		m.open.Add(1)
		accepted := &connection{Conn: c, member: m}
		m.all.Store(accepted, nil)
		return accepted, nil
	}
	return nil, err
}

func serve(t *testing.T) *member {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	m := &member{Listener: listener}
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, m)
	go server.Serve(m) //nolint:errcheck // it ends with the test
	t.Cleanup(server.Stop)
	return m
}

func TestPool(t *testing.T) {
	now := time.Unix(0, 0)
	ask := func(g *WithT, pool *etcdclient.Pool, m *member, tls *tls.Config) error {
		c, err := pool.Dial("http://"+m.Addr().String(), tls)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { g.Expect(c.Close()).To(Succeed()) }()
		_, err = c.Status(t.Context())
		return err
	}
	for name, test := range map[string]struct {
		between     func(m *member)
		tls         *tls.Config
		connections int32
	}{
		"a connection is reused":               {connections: 2},
		"not after being idle for too long":    {between: func(*member) { now = now.Add(11 * time.Second) }, connections: 3},
		"even if the member refused a request": {between: func(m *member) { m.broken.Store(true) }, connections: 2},
		"not with another certificate":         {tls: &tls.Config{}, connections: 3}, // the scheme http leaves it unused
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, pool := serve(t), etcdclient.NewPool(func() time.Time { return now })
			for range 2 {
				// The first connection is not kept: another request is not yet expected.
				g.Expect(ask(g, pool, m, nil)).To(Succeed())
			}
			if test.between != nil {
				test.between(m)
			}
			if m.broken.Load() {
				g.Expect(ask(g, pool, m, nil)).To(MatchError(ContainSubstring("broken")))
				m.broken.Store(false)
			}
			g.Expect(ask(g, pool, m, test.tls)).To(Succeed())
			g.Expect(m.connections.Load()).To(Equal(test.connections))
		})
	}
}

// A member that answers too late is slow, but its connection stays usable. If it does so repeatedly, it may be unreachable
// only through this connection.
func TestPoolKeepsTheConnectionToAMemberThatIsSlow(t *testing.T) {
	g := NewWithT(t)
	m, pool := serve(t), etcdclient.NewPool(ticking())
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := pool.Dial("http://"+m.Addr().String(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { g.Expect(c.Close()).To(Succeed()) }()
		_, err = c.Status(ctx)
		return err
	}
	const hurry, patience = 50 * time.Millisecond, time.Minute
	for range 2 {
		g.Expect(ask(patience)).To(Succeed())
	}
	connections := m.connections.Load()
	for range 3 {
		m.takes.Store(int64(time.Hour))
		g.Expect(ask(hurry)).To(MatchError(ContainSubstring("DeadlineExceeded")))
		m.takes.Store(0)
		g.Expect(ask(patience)).To(Succeed())
	}
	g.Expect(m.connections.Load()).To(Equal(connections), "each time over the same connection")

	m.takes.Store(int64(time.Hour))
	for range 2 {
		g.Expect(ask(hurry)).NotTo(Succeed())
	}
	m.takes.Store(0)
	g.Expect(ask(patience)).To(Succeed())
	g.Expect(m.connections.Load()).To(Equal(connections+1), "two in a row are too many")
}

// The pool keeps no connection to a member with infrequent requests.
func TestPoolKeepsNoConnectionForInfrequentRequests(t *testing.T) {
	g := machine.Gomega(t)
	now := time.Unix(0, 0)
	m, pool := serve(t), etcdclient.NewPool(func() time.Time { return now })
	for range 3 {
		c, err := pool.Dial("http://"+m.Addr().String(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Status(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Close()).To(Succeed())
		g.Eventually(m.open.Load).Should(BeZero())
		now = now.Add(30 * time.Second)
	}
}

// A request does not fail because the previous request's connection has ended.
func TestPoolReplacesAConnectionThatEnded(t *testing.T) {
	g := machine.Gomega(t)
	m, pool := serve(t), etcdclient.NewPool(ticking())
	ask := func() error {
		c, err := pool.Dial("http://"+m.Addr().String(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { g.Expect(c.Close()).To(Succeed()) }()
		_, err = c.Status(t.Context())
		return err
	}
	for range 2 {
		g.Expect(ask()).To(Succeed())
	}
	before := m.connections.Load()
	m.hangUp()
	g.Eventually(ask).Should(Succeed())
	g.Expect(m.connections.Load()).To(BeNumerically(">", before))
}

// gRPC carries concurrent requests over one connection.
func TestPoolSharesAConnection(t *testing.T) {
	g := NewWithT(t)
	m, pool := serve(t), etcdclient.NewPool(ticking())
	endpoint := "http://" + m.Addr().String()
	var clients []etcdclient.Client
	for range 3 {
		c, err := pool.Dial(endpoint, nil)
		g.Expect(err).NotTo(HaveOccurred())
		clients = append(clients, c)
	}
	for i, c := range clients {
		_, err := c.Status(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Close()).To(Succeed())
		if i < len(clients)-1 {
			g.Expect(c.Close()).To(Succeed(), "closing twice does not affect other users")
		}
	}
	g.Expect(m.connections.Load()).To(Equal(int32(1)))
	g.Consistently(m.open.Load, "100ms").Should(Equal(int32(1)), "it is kept for the next request")
}

// The pool keeps a bounded number of connections, however many members there are: the most recently used.
func TestPoolIsBounded(t *testing.T) {
	g := machine.Gomega(t)
	const kept = 256 // maxIdle
	m, pool := serve(t), etcdclient.NewPool(ticking())
	// Each has its own TLS configuration, which the scheme http leaves unused, and so its own connection.
	identities := make([]*tls.Config, kept+1)
	for i := range identities {
		identities[i] = &tls.Config{}
	}
	use := func(identity *tls.Config) {
		c, err := pool.Dial("http://"+m.Addr().String(), identity)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Status(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Close()).To(Succeed())
	}
	for range 2 {
		// From the second request on, connections are kept.
		for _, identity := range identities {
			use(identity)
		}
	}
	g.Eventually(m.open.Load).Should(Equal(int32(kept)))
	before := m.connections.Load()
	for _, identity := range identities[1:] {
		use(identity)
	}
	g.Expect(m.connections.Load()).To(Equal(before))
	use(identities[0])
	g.Expect(m.connections.Load()).To(Equal(before+1), "the least recently used connection was not kept")
}
