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
	"time"

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

// The certificate of a member is for its host name, while its agent dials the address of its own pod.
func TestTheOwnMemberIsAskedOverTLS(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	serving, err := ca.Issue([]string{"*.main-peer.ns.svc"})
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

	config := fmt.Sprintf("listen-client-urls: https://0.0.0.0:2379\nclient-transport-security: {trusted-ca-file: %s}\n", filepath.Join(dir, member.CAFile))
	shared, err := member.ParseShared(map[string]string{member.KeyConfig: config, member.KeyBootstrap: "initial-cluster: main-0=https://main-0.main-peer.ns.svc:2380\n"})
	g.Expect(err).NotTo(HaveOccurred())
	id, err := shared.Identify("main-0")
	g.Expect(err).NotTo(HaveOccurred())
	url := "https://" + listener.Addr().String()
	local, err := dial(shared, dir, id, url)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = local.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	status, err := (&etcd{url: url, local: local}).Status(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status.leads()).To(BeTrue())
}
