// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient/etcdfake"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// members of each Etcd.
	members = 3
	// slots is how many addresses an Etcd has: a power of two, so that addresses are easy to read.
	slots = 8
	// etcdName is the name of each Etcd. Each has a namespace of its own.
	etcdName = "etcd-main"
)

// fleet are the members of all Etcds. One server answers for all of them; whom is asked, the address tells.
type fleet struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedClusterServer

	port     int
	clusters []*etcdfake.Cluster

	mu sync.Mutex
	// up tells whether the pod at an address is ready.
	up map[string]bool
	// hung are the Etcds whose member 0 hangs: it takes requests, and never answers.
	hung map[int]bool
}

// newFleet serves for as many Etcds.
func newFleet(etcds int) (*fleet, error) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the operator: %w", err)
	}
	f := &fleet{port: listener.Addr().(*net.TCPAddr).Port, up: map[string]bool{}, hung: map[int]bool{}}
	for i := range etcds {
		c := &etcdfake.Cluster{Up: func(member int) bool { return f.isUp(address(i, member)) }}
		for m := range members {
			c.Names = append(c.Names, podName(m))
			c.Endpoints = append(c.Endpoints, address(i, m))
		}
		f.clusters = append(f.clusters, c)
	}
	server := grpc.NewServer(grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10))
	etcdserverpb.RegisterMaintenanceServer(server, f)
	etcdserverpb.RegisterClusterServer(server, f)
	// It serves until the process ends.
	go server.Serve(listener) //nolint:errcheck // a benchmark whose members do not answer says so
	return f, nil
}

func podName(member int) string { return fmt.Sprintf("%s-%d", etcdName, member) }

// address of the pod of a member.
func address(etcd, member int) string {
	n := etcd*slots + member
	return fmt.Sprintf("127.%d.%d.%d", 64+n>>16, n>>8&255, n&255+1)
}

func (f *fleet) isUp(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[address]
}

func (f *fleet) set(address string, up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[address] = up
}

// hang makes member 0 of some Etcds hang, or go on.
func (f *fleet) hang(hangs bool, etcds ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range etcds {
		f.hung[i] = hangs
		if hangs {
			f.up[address(i, 0)] = false
		}
	}
}

func (f *fleet) hangs(etcd, member int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return member == 0 && f.hung[etcd]
}

// asked is the cluster and the member that a request is for.
func (f *fleet) asked(ctx context.Context) (*etcdfake.Cluster, string, error) {
	p, _ := peer.FromContext(ctx)
	ip := p.LocalAddr.(*net.TCPAddr).IP.To4()
	n := int(ip[1]-64)<<16 + int(ip[2])<<8 + int(ip[3]) - 1
	if n/slots >= len(f.clusters) {
		return nil, "", status.Errorf(codes.Unavailable, "nobody is at %s", ip)
	}
	if f.hangs(n/slots, n%slots) {
		<-ctx.Done()
		return nil, "", status.FromContextError(ctx.Err()).Err()
	}
	return f.clusters[n/slots], ip.String(), nil
}

// Status is etcd's.
func (f *fleet) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	cluster, at, err := f.asked(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Dial(at, nil)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s, err := c.Status(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &etcdserverpb.StatusResponse{
		Header: &etcdserverpb.ResponseHeader{ClusterId: s.ClusterID, MemberId: s.MemberID, RaftTerm: s.Term},
		Leader: s.Leader, RaftTerm: s.Term, RaftIndex: s.AppliedIndex, RaftAppliedIndex: s.AppliedIndex,
	}, nil
}

// MemberList is etcd's.
func (f *fleet) MemberList(ctx context.Context, _ *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	cluster, at, err := f.asked(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Dial(at, nil)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
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

// MoveLeader is etcd's.
func (f *fleet) MoveLeader(ctx context.Context, r *etcdserverpb.MoveLeaderRequest) (*etcdserverpb.MoveLeaderResponse, error) {
	cluster, at, err := f.asked(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Dial(at, nil)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if err := c.MoveLeader(ctx, r.TargetID); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &etcdserverpb.MoveLeaderResponse{}, nil
}
