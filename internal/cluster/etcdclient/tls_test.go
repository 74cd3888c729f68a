// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// With TLS 1.3, a member refuses a client after the handshake, which the client learns by reading.
func TestARefusalIsReportedIfTheConnectionIsClosedBeforeARequest(t *testing.T) {
	g := NewWithT(t)
	member := httptest.NewUnstartedServer(http.NotFoundHandler())
	member.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}
	member.EnableHTTP2, member.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	member.StartTLS()
	defer member.Close()
	c, err := NewDialerThrough(machine.DialLate).Dial(member.URL, member.Client().Transport.(*http.Transport).TLSClientConfig)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	_, err = c.Status(ctx)
	g.Expect(err.Error()).To(ContainSubstring("tls: certificate required"))
}

// Only the end of a connection by its peer is left to the next read.
func TestOtherFailuresOfAWriteAreReported(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	NewWithT(t).Expect(near.Close()).To(Succeed())
	_, err := KeepRefusal(near).Write([]byte("x"))
	NewWithT(t).Expect(err).To(MatchError(io.ErrClosedPipe))
}

// A member is dialed at the address of its pod, and its certificate is for its host name.
func TestTheCertificateIsCheckedForTheMembersName(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	issued, err := ca.Issue([]string{"m-0.m-peer.ns.svc"})
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	g.Expect(err).NotTo(HaveOccurred())

	for name, accepted := range map[string]bool{"m-0.m-peer.ns.svc": true, "m-1.m-peer.ns.svc": false, "": false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		g.Expect(err).NotTo(HaveOccurred())
		handshakes := make(chan error, 1)
		go func() {
			defer close(handshakes)
			connection, err := listener.Accept()
			if err != nil {
				handshakes <- err
				return
			}
			server := tls.Server(connection, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
			// The client accepts or refuses the certificate after the handshake.
			_, err = server.Read(make([]byte, 1))
			handshakes <- err
			_ = server.Close()
		}()
		c, err := NewDialer().Dial("https://"+listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = c.Status(ctx)
		g.Expect(err).To(HaveOccurred(), "nothing answers here")
		cancel()
		var refused *net.OpError
		err = <-handshakes
		g.Expect(err == nil).To(Equal(accepted), "%q: %v", name, err)
		g.Expect(accepted || errors.As(err, &refused)).To(BeTrue(), "%v", err)
		g.Expect(c.Close()).To(Succeed())
		g.Expect(listener.Close()).To(Succeed())
	}
}
