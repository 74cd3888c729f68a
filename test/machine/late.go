// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// handshakeWrites is how often a client writes in a handshake of TLS 1.3.
const handshakeWrites = 2

// DialLate connects to a server that refuses clients after the handshake of TLS 1.3. As may happen on a busy machine, the client writes
// when the server has closed the connection, and has not read before.
func DialLate(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: conn, closed: make(chan struct{})}, nil
}

type lateConn struct {
	net.Conn
	writes atomic.Int32
	// closed is closed once a write has failed.
	closed chan struct{}
	once   sync.Once
}

func (c *lateConn) Read(p []byte) (int, error) {
	if c.writes.Load() >= handshakeWrites {
		<-c.closed
	}
	return c.Conn.Read(p)
}

func (c *lateConn) Write(p []byte) (n int, err error) {
	if c.writes.Add(1) <= handshakeWrites {
		return c.Conn.Write(p)
	}
	for err == nil {
		_, err = c.Conn.Write(p)
	}
	c.once.Do(func() { close(c.closed) })
	return 0, err
}

func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
