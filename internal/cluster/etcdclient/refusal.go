// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"net"
	"syscall"

	"google.golang.org/grpc/credentials"
)

// KeepRefusal returns a connection whose reads, not its writes, report that the peer has closed it. A read first returns what the peer sent
// before: with TLS 1.3, that it refuses the client's certificate, after a handshake that has succeeded for the client.
func KeepRefusal(conn net.Conn) net.Conn { return readsEnd{conn} }

type readsEnd struct{ net.Conn }

// Write does not report a closed connection. The bytes are lost, as those that the peer does not read before it closes.
func (c readsEnd) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(p), nil
	}
	return n, err
}

// keepRefusals are the credentials of a client whose errors say why a member has refused them.
type keepRefusals struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (c keepRefusals) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.TransportCredentials.ClientHandshake(ctx, authority, KeepRefusal(conn))
}

// Clone implements credentials.TransportCredentials.
func (c keepRefusals) Clone() credentials.TransportCredentials {
	return keepRefusals{c.TransportCredentials.Clone()}
}
