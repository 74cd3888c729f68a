// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package simulated replaces what the fleet benchmark does not run: the members, which answer the operator over gRPC, and
// scheduler, kubelets and provisioner.
package simulated

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// Members of each Etcd.
	Members = 3
	// slots is the number of addresses of an Etcd: a power of two, so that addresses are easy to read.
	slots = 8
	// EtcdName is the name of each Etcd. Each has its own namespace.
	EtcdName = "etcd-main"
)

// Fleet has the members of all Etcds. One server answers for all of them and distinguishes them by address.
type Fleet struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedClusterServer

	// Port on which every member answers.
	Port     int
	clusters []*etcdfake.Cluster

	mu sync.Mutex
	// up reports whether the pod at an address is ready.
	up map[string]bool
	// hung is how many members of an Etcd, from 0 on, hang: they accept requests and never answer.
	hung map[int]int
}

// NewFleet serves the members of a number of Etcds, and those of the Etcds in Crowd that follow, which have one each.
func NewFleet(etcds, crowded int) (*Fleet, error) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the operator: %w", err)
	}
	f := &Fleet{Port: listener.Addr().(*net.TCPAddr).Port, up: map[string]bool{}, hung: map[int]int{}}
	for i := range etcds + crowded {
		c := &etcdfake.Cluster{Up: func(member int) bool { return f.isUp(address(i, member)) }}
		c.Names = []string{CrowdedName(i) + "-0"}
		if i < etcds {
			c.Names = []string{PodName(0), PodName(1), PodName(2)}
		}
		for m := range c.Names {
			c.Endpoints = append(c.Endpoints, address(i, m))
		}
		f.clusters = append(f.clusters, c)
	}
	server := grpc.NewServer(grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10))
	etcdserverpb.RegisterMaintenanceServer(server, f)
	etcdserverpb.RegisterClusterServer(server, f)
	// It serves until the process ends.
	go server.Serve(listener) //nolint:errcheck // if it fails, the benchmark reports that members do not answer
	return f, nil
}

// PodName returns the name of the pod of a member.
func PodName(member int) string { return fmt.Sprintf("%s-%d", EtcdName, member) }

// address returns the IP address of the pod of a member.
func address(etcd, member int) string {
	n := etcd*slots + member
	return fmt.Sprintf("127.%d.%d.%d", 64+n>>16, n>>8&255, n&255+1)
}

func (f *Fleet) isUp(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[address]
}

func (f *Fleet) set(address string, up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[address] = up
}

// Hang makes member 0 of some Etcds hang or answer again.
func (f *Fleet) Hang(hangs bool, etcds ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range etcds {
		delete(f.hung, i)
		if hangs {
			f.hung[i] = 1
			f.up[address(i, 0)] = false
		}
	}
}

// Freeze makes all members of some Etcds hang, although their probes pass, or answer again.
func (f *Fleet) Freeze(freeze bool, etcds ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range etcds {
		delete(f.hung, i)
		if freeze {
			f.hung[i] = Members
		}
	}
}

func (f *Fleet) hangs(etcd, member int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return member < f.hung[etcd]
}

// probeFails reports whether the probe of a member fails, too: that of one that hangs does, those of an Etcd that is frozen pass.
func (f *Fleet) probeFails(etcd, member int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return member < f.hung[etcd] && f.hung[etcd] < Members
}

// asked returns the member that a request is addressed to.
func (f *Fleet) asked(ctx context.Context) (etcdclient.Client, error) {
	p, _ := peer.FromContext(ctx)
	ip := p.LocalAddr.(*net.TCPAddr).IP.To4()
	n := int(ip[1]-64)<<16 + int(ip[2])<<8 + int(ip[3]) - 1
	if n/slots >= len(f.clusters) {
		return nil, status.Errorf(codes.Unavailable, "no member has the address %s", ip)
	}
	if f.hangs(n/slots, n%slots) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	c, err := f.clusters[n/slots].Dial(ip.String(), nil)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return c, nil
}

// Status implements etcdserverpb.MaintenanceServer.
func (f *Fleet) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	c, err := f.asked(ctx)
	if err != nil {
		return nil, err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	response := &etcdserverpb.StatusResponse{
		Header: &etcdserverpb.ResponseHeader{ClusterId: s.ClusterID, MemberId: s.MemberID, RaftTerm: s.Term},
		Leader: s.Leader, RaftTerm: s.Term, RaftIndex: s.AppliedIndex, RaftAppliedIndex: s.AppliedIndex,
	}
	for _, a := range s.Alarms {
		// As etcd reports them.
		response.Errors = append(response.Errors, (&etcdserverpb.AlarmMember{MemberID: a.MemberID, Alarm: etcdserverpb.AlarmType(etcdserverpb.AlarmType_value[string(a.Kind)])}).String())
	}
	return response, nil
}

// MemberList implements etcdserverpb.ClusterServer.
func (f *Fleet) MemberList(ctx context.Context, _ *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	c, err := f.asked(ctx)
	if err != nil {
		return nil, err
	}
	list, err := c.Members(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	response := &etcdserverpb.MemberListResponse{Header: &etcdserverpb.ResponseHeader{}}
	for _, m := range list {
		response.Members = append(response.Members, &etcdserverpb.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs})
	}
	return response, nil
}

// MoveLeader implements etcdserverpb.MaintenanceServer.
func (f *Fleet) MoveLeader(ctx context.Context, r *etcdserverpb.MoveLeaderRequest) (*etcdserverpb.MoveLeaderResponse, error) {
	c, err := f.asked(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.MoveLeader(ctx, r.TargetID); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &etcdserverpb.MoveLeaderResponse{}, nil
}
