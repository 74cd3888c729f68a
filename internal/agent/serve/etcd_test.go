// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// answering is a member that answers status requests.
type answering struct {
	etcdserverpb.UnimplementedMaintenanceServer
}

func (answering) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: 7}, Leader: 7}, nil
}

// The certificate of a member is for its host name, while its agent dials the address of its own pod. Other members are dialed by the names that
// their certificates have.
func TestMembersAreAskedOverTLS(t *testing.T) {
	for name, host := range map[string]string{"the own one": "*.main-peer.ns.svc", "another": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			ca, err := certs.NewCA("ca")
			g.Expect(err).NotTo(HaveOccurred())
			serving, err := ca.Issue([]string{host})
			g.Expect(err).NotTo(HaveOccurred())
			client, err := ca.Issue(nil, certs.ClientOnly)
			g.Expect(err).NotTo(HaveOccurred())
			for name, content := range map[string][]byte{member.CAFile: ca.PEM, member.CertificateFile: client.Certificate, member.KeyFile: client.Key} {
				g.Expect(os.WriteFile(filepath.Join(dir, name), content, 0o600)).To(Succeed())
			}
			pair, err := tls.X509KeyPair(serving.Certificate, serving.Key)
			g.Expect(err).NotTo(HaveOccurred())
			roots := x509.NewCertPool()
			g.Expect(roots.AppendCertsFromPEM(ca.PEM)).To(BeTrue())
			server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
			})))
			etcdserverpb.RegisterMaintenanceServer(server, answering{})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			g.Expect(err).NotTo(HaveOccurred())
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(server.Stop)

			shared := member.Shared{
				Config: map[string]any{
					"listen-client-urls":        fmt.Sprintf("https://0.0.0.0:%d", listener.Addr().(*net.TCPAddr).Port),
					"client-transport-security": map[string]any{"trusted-ca-file": filepath.Join(dir, member.CAFile)},
				},
				Bootstrap: map[string]any{"initial-cluster": "main-0=https://main-0.main-peer.ns.svc:2380"},
			}
			if name == "another" {
				shared.Bootstrap["initial-cluster"] = "main-0=https://main-0.main-peer.ns.svc:2380,main-1=https://127.0.0.1:2380"
			}
			id, err := shared.Identify("main-0")
			g.Expect(err).NotTo(HaveOccurred())
			url := "https://" + listener.Addr().String()
			asked, err := dial(shared, dir, id, url)
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { _ = asked.Close() })
			status, err := (&etcd{url: url, local: asked}).Status(soon(t))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.leads()).To(BeTrue())
		})
	}
}
