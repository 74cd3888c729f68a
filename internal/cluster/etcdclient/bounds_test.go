// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// verbose is a member that puts much into the headers of its answers.
type verbose struct {
	etcdserverpb.UnimplementedMaintenanceServer
	bytes int
}

func (v verbose) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	many := metadata.MD{}
	for n := 0; n < v.bytes; n += 1 << 10 {
		many.Append("x", strings.Repeat("x", 1<<10))
	}
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}}, grpc.SetHeader(ctx, many)
}

// The headers of an answer are bounded like its message. gRPC takes 16 MiB of them.
func TestHeadersAreBounded(t *testing.T) {
	for bytes, accepted := range map[int]bool{4 << 10: true, 15 << 20: false} {
		g := NewWithT(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		g.Expect(err).NotTo(HaveOccurred())
		server := grpc.NewServer()
		etcdserverpb.RegisterMaintenanceServer(server, verbose{bytes: bytes})
		go server.Serve(listener) //nolint:errcheck // it ends with the test
		t.Cleanup(server.Stop)
		member, err := NewDialer().Dial("http://"+listener.Addr().String(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = member.Status(ctx)
		runtime.ReadMemStats(&after)
		g.Expect(err == nil).To(Equal(accepted), "%d bytes: %v", bytes, err)
		t.Logf("%d bytes of headers: %d KiB allocated by both sides, %v", bytes, (after.TotalAlloc-before.TotalAlloc)>>10, err)
		g.Expect(member.Close()).To(Succeed())
	}
}
