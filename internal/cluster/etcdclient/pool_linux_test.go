// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// greeting is what a member begins with: two frames of HTTP/2 that let a client send it a request of a mebibyte.
var greeting = []byte{
	0, 0, 6, 4, 0, 0, 0, 0, 0 /* SETTINGS */, 0, 4, 0, 0x10, 0, 0, // the initial window of a stream
	0, 0, 4, 8, 0, 0, 0, 0, 0 /* WINDOW_UPDATE */, 0, 0x0f, 0, 0, // the window of the connection
}

// serveDeaf serves one connection, from which it does not read.
func serveDeaf(t *testing.T) (endpoint string, accepted <-chan *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deaf")
	listener, err := net.Listen("unix", path)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	connections := make(chan *net.UnixConn, 1)
	go func() {
		if c, err := listener.Accept(); err == nil {
			_, _ = c.Write(greeting)
			connections <- c.(*net.UnixConn)
		}
	}()
	return "unix://" + path, connections
}

// unread is how many bytes have been sent to a connection that it has not read.
func unread(g Gomega, c *net.UnixConn) (bytes int) {
	raw, err := c.SyscallConn()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(raw.Control(func(fd uintptr) { bytes, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })).To(Succeed())
	g.Expect(err).NotTo(HaveOccurred())
	return bytes
}

// gRPC says that it closes a connection before it does, and waits up to five seconds for that. Every other look at a member would wait too.
func TestPoolDoesNotWaitUntilAConnectionIsClosed(t *testing.T) {
	g := machine.Gomega(t)
	pool := etcdclient.NewPool(ticking())
	endpoint, accepted := serveDeaf(t)
	c, err := pool.Dial(endpoint, nil)
	g.Expect(err).NotTo(HaveOccurred())
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_ = c.AddLearner(t.Context(), []string{"http://" + strings.Repeat("x", 900<<10) + ":2380"})
	}()
	var member *net.UnixConn
	g.Eventually(accepted).Should(Receive(&member))
	defer func() { _ = member.Close(); <-asked }()
	full := 0
	g.Eventually(func() bool {
		before := full
		full = unread(g, member)
		return full > 64<<10 && full == before
	}).Should(BeTrue(), "the buffer of the connection is full")

	// gRPC's five seconds are those of the bubble. None pass there while something waits for the connection, however long the machine stops.
	// A pool that waits too does so until the member closes the connection.
	defer time.AfterFunc(machine.Patience(), func() { _ = member.Close() }).Stop()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.Close()).To(Succeed())
		_, err := member.Write(greeting[:15])
		g.Expect(err).NotTo(HaveOccurred(), "it is still open")
		g.Expect(member.Close()).To(Succeed())
	})
}
