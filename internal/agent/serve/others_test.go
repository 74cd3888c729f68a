// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// voter is a member of a cluster, as which it answers the agents of others and its own.
type voter struct {
	answering
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedLeaseServer
	leader  uint64
	listed  []*etcdserverpb.Member
	refuses error
	// asked is what it was asked.
	asked []string
}

func (v *voter) note(format string, args ...any) error {
	v.asked = append(v.asked, fmt.Sprintf(format, args...))
	return v.refuses
}

func (v *voter) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	header := &etcdserverpb.ResponseHeader{ClusterId: 0xcafe, MemberId: 0xa, Revision: 7}
	return &etcdserverpb.StatusResponse{Header: header, Leader: v.leader, IsLearner: true}, v.refuses
}

func (v *voter) MemberList(_ context.Context, r *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	err := v.note("list, linearizable %t", r.Linearizable)
	return &etcdserverpb.MemberListResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 0xcafe}, Members: v.listed}, err
}

func (v *voter) MemberPromote(_ context.Context, r *etcdserverpb.MemberPromoteRequest) (*etcdserverpb.MemberPromoteResponse, error) {
	return &etcdserverpb.MemberPromoteResponse{}, v.note("promote %x", r.ID)
}

func (v *voter) LeaseRevoke(_ context.Context, r *etcdserverpb.LeaseRevokeRequest) (*etcdserverpb.LeaseRevokeResponse, error) {
	return &etcdserverpb.LeaseRevokeResponse{}, v.note("revoke lease %d", r.ID)
}

// beside returns the member main-0 beside a voter, and the client of its own etcd, which that voter is as well.
func beside(t *testing.T, v *voter) (g *WithT, m Member, local *clientv3.Client, shared *member.Shared) {
	g = NewWithT(t)
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, v)
	etcdserverpb.RegisterClusterServer(server, v)
	etcdserverpb.RegisterLeaseServer(server, v)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	shared = &member.Shared{
		Config:    map[string]any{"listen-client-urls": "http://0.0.0.0:" + port},
		Bootstrap: map[string]any{"initial-cluster": "main-0=http://192.0.2.1:2380,main-1=http://127.0.0.1:2380"},
	}
	m, local, err = NewMember("main-0", func() (member.Shared, error) { return *shared, nil })
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = local.Close() })
	return g, m, local, shared
}

// soon bounds requests that could hang.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	t.Cleanup(cancel)
	return ctx
}

// The member's own etcd says who it is.
func TestStatusOfTheOwnMember(t *testing.T) {
	v := &voter{leader: 0xb}
	g, m, _, _ := beside(t, v)
	g.Expect(m.Status(soon(t))).To(Equal(Status{ClusterID: 0xcafe, MemberID: 0xa, Leader: 0xb, Learner: true, Revision: 7}))
	v.refuses = rpctypes.ErrGRPCNotCapable
	s, err := m.Status(soon(t))
	g.Expect(err).To(MatchError(ContainSubstring("asking the member for its status: ")))
	g.Expect(s).To(BeZero())
}

// What changes the cluster, or must not rest on a member that lags, the others are asked for.
func TestTheOthersAreAsked(t *testing.T) {
	v := &voter{listed: []*etcdserverpb.Member{{ID: 0xa}, {ID: 0xb}}}
	g, m, _, shared := beside(t, v)
	ctx := soon(t)
	for _, c := range []struct {
		ask  func() error
		want string
	}{
		{func() error { return m.Promote(ctx, 0xa) }, "promote a"},
		{func() error { return m.Stir(ctx) }, "revoke lease 0"},
		{func() error { _, err := m.Listed(ctx, 0xcafe, 0xa); return err }, "list, linearizable true"},
	} {
		v.asked, v.refuses = nil, nil
		g.Expect(c.ask()).To(Succeed())
		g.Expect(v.asked).To(Equal([]string{c.want}))
		v.refuses = rpctypes.ErrGRPCMemberNotLearner
		g.Expect(c.ask()).To(MatchError(ContainSubstring(rpctypes.ErrMemberNotLearner.Error())), c.want)
	}
	v.refuses = rpctypes.ErrGRPCLeaseNotFound
	g.Expect(m.Stir(ctx)).To(Succeed(), "there never is a lease 0")

	shared.Bootstrap["initial-cluster"] = "main-0=http://192.0.2.1:2380"
	g.Expect(m.Stir(ctx)).To(MatchError(errNoPeer))
	shared.Bootstrap["initial-cluster"] = "main-1=http://127.0.0.1:2380"
	g.Expect(m.Stir(ctx)).To(MatchError(ContainSubstring("looking up member main-0")))
	shared.Bootstrap["initial-cluster"] = "main-0=http://192.0.2.1:2380,main-1=http://127.0.0.1:2380"
	shared.Config["listen-client-urls"] = "https://0.0.0.0:2379"
	g.Expect(m.Stir(ctx)).To(MatchError(ContainSubstring("reading the client certificate")))
	illegible := &etcd{shared: func() (member.Shared, error) { return member.Shared{}, errors.New("illegible") }}
	g.Expect(illegible.Stir(ctx)).To(MatchError("illegible"))
}

// A member is gone only if its own cluster says so.
func TestListed(t *testing.T) {
	v := &voter{listed: []*etcdserverpb.Member{{ID: 0xa}}}
	g, m, _, _ := beside(t, v)
	g.Expect(m.Listed(soon(t), 0xcafe, 0xa)).To(BeTrue())
	g.Expect(m.Listed(soon(t), 0xcafe, 0xb)).To(BeFalse())
	_, err := m.Listed(soon(t), 0xbeef, 0xb)
	g.Expect(err).To(MatchError("cluster cafe answers, and not beef"))
}

// The agent that leads is found by what the member knows itself, so that it also is without a quorum.
func TestLeader(t *testing.T) {
	v := &voter{}
	g, m, local, shared := beside(t, v)
	var illegible error
	current := func() (member.Shared, error) { return *shared, illegible }
	leader := func() (bool, string, error) { return Leader(soon(t), m, local, current, "https", "2381") }
	fails := func(says string) {
		t.Helper()
		self, url, err := leader()
		g.Expect(err).To(MatchError(ContainSubstring(says)))
		g.Expect([]any{self, url}).To(Equal([]any{false, ""}))
	}
	fails("the member knows no leader")
	v.leader = 0xa
	self, url, err := leader()
	g.Expect([]any{self, url, err}).To(Equal([]any{true, "", nil}))
	g.Expect(v.asked).To(BeEmpty())

	v.leader = 0xb
	for _, v.listed = range [][]*etcdserverpb.Member{nil, {{ID: 0xa, Name: "main-0"}}} {
		fails("the leader is not among the members")
	}
	// Clients of another network reach it under other URLs, as do many things that are not its agent.
	v.listed = []*etcdserverpb.Member{{ID: 0xa, Name: "main-0"}, {ID: 0xb, Name: "main-1", ClientURLs: []string{"https://balancer.example.com:443"}}}
	shared.Bootstrap["initial-cluster"] = "main-0=http://192.0.2.1:2380,main-1=http://[fd00::1]:2380"
	self, url, err = leader()
	g.Expect([]any{self, url, err}).To(Equal([]any{false, "https://[fd00::1]:2381", nil}))
	g.Expect(v.asked).To(HaveEach("list, linearizable false"))

	v.listed[1].Name = "source-1"
	fails("looking up member source-1: it is not in the initial cluster")
	v.listed[1].Name, shared.Config["listen-client-urls"] = "main-1", "http://%zz"
	fails("reading listen-client-urls")
	illegible = errors.New("illegible")
	fails("illegible")
	v.refuses = rpctypes.ErrGRPCNotCapable
	fails("asking the member for its status: ")
	self, _, err = Leader(soon(t), &fakeMember{status: Status{MemberID: 0xa, Leader: 0xb}}, local, current, "https", "2381")
	g.Expect(err).To(MatchError(ContainSubstring("asking for the member list: ")))
	g.Expect(self).To(BeFalse())
}

// A configuration that says nothing of the member is an error at once.
func TestNewMemberRefuses(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	write := func(key, value string) {
		g.Expect(os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600)).To(Succeed())
	}
	refuses := func(says string) {
		t.Helper()
		m, local, err := NewMember("main-0", SharedIn(dir, ""))
		g.Expect(err).To(MatchError(ContainSubstring(says)))
		g.Expect(m).To(BeNil())
		g.Expect(local).To(BeNil())
	}
	refuses("reading the shared configuration")
	write(member.KeyBootstrap, "initial-cluster: main-1=http://main-1:2380\n")
	write(member.KeyConfig, "listen-client-urls: 'http://%zz'\n")
	refuses("reading listen-client-urls")
	write(member.KeyConfig, "listen-client-urls: https://0.0.0.0:2379\n")
	refuses("looking up member main-0")
	write(member.KeyBootstrap, "initial-cluster: main-0=http://main-0:2380\n")
	refuses("reading the client certificate")

	// The pod was made before that.
	rendered := filepath.Join(dir, "rendered.yaml")
	write("rendered.yaml", "listen-client-urls: http://0.0.0.0:2379\n")
	_, local, err := NewMember("main-0", SharedIn(dir, rendered))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(local.Endpoints()).To(Equal([]string{"http://127.0.0.1:2379"}))
	g.Expect(local.Close()).To(Succeed())
}
