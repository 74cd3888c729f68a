// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdclient is the operator's narrow view of etcd: what one member says of itself and of its
// cluster, and the few things that the operator asks a member to do. It imports etcd's client and nothing
// of Kubernetes.
package etcdclient

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Status is what a member says of itself. It is answered without a quorum.
type Status struct {
	ClusterID, MemberID uint64
	// Leader is the ID of the leader that this member knows; 0 when it knows none.
	Leader uint64
	// Term is the raft term.
	Term uint64
	// CommittedIndex is the index of the raft log that the member knows to be committed, and AppliedIndex the one that it
	// has applied.
	CommittedIndex, AppliedIndex uint64
	// Learner reports that the member does not vote.
	Learner bool
	// Version of the member's etcd, such as "3.6.8".
	Version string
}

// Member is an entry of the member list.
type Member struct {
	ID uint64
	// Name is empty for a member that was added and has not started yet.
	Name       string
	Learner    bool
	ClientURLs []string
	PeerURLs   []string
}

// Client talks to one member.
type Client interface {
	// Status asks the member for its status.
	Status(ctx context.Context) (Status, error)
	// Members is the member list as this member knows it. It is a serializable read: the linearizable one
	// fails exactly when the quorum is lost. A learner refuses it.
	Members(ctx context.Context) ([]Member, error)
	// MoveLeader asks the member, which has to be the leader, to hand leadership to another voter.
	MoveLeader(ctx context.Context, to uint64) error
	// Database asks the member for the size of its database. One that is being defragmented does not answer.
	Database(ctx context.Context) (Database, error)
	// Compact removes what is older than a revision from the key space of the cluster. It returns once this
	// member has done so, also when that was asked for before.
	Compact(ctx context.Context, revision int64) error
	// Defragment rewrites the member's database without what is free. The member neither reads nor writes
	// meanwhile, and goes on when the context ends.
	Defragment(ctx context.Context) error
	// Alarms are those of the cluster. It takes a quorum to tell.
	Alarms(ctx context.Context) ([]Alarm, error)
	// Disarm ends an alarm.
	Disarm(ctx context.Context, a Alarm) error
	// SetPeerURLs changes the peer URLs that a member of the cluster is listed with. It takes a quorum.
	SetPeerURLs(ctx context.Context, id uint64, urls []string) error
	// Close ends the use of this client.
	Close() error
}

// Dialer makes a client for the member at an endpoint, such as http://10.0.0.1:2379. No connection is made
// before the first request.
type Dialer interface {
	Dial(endpoint string, tls *tls.Config) (Client, error)
}

// NewDialer makes the Dialer that uses etcd's own client, with a connection for each client.
func NewDialer() Dialer { return dialer{} }

// NewDialerThrough makes a Dialer whose connections are made by a function: by one that goes through a tunnel,
// say. Endpoints, and the names in certificates, stay those of the members.
func NewDialerThrough(connect func(ctx context.Context, address string) (net.Conn, error)) Dialer {
	return dialer{options: []grpc.DialOption{grpc.WithContextDialer(connect)}}
}

type dialer struct{ options []grpc.DialOption }

func (d dialer) Dial(endpoint string, tls *tls.Config) (Client, error) {
	c, err := connect(endpoint, tls, d.options...)
	if err != nil {
		return nil, err
	}
	return &client{connection: c, giveBack: (*connection).close}, nil
}

// connection is a connection to one member, made with the first request.
type connection struct {
	endpoint string
	etcd     *clientv3.Client
	// broken reports that a request on it failed for another reason than time.
	broken atomic.Bool
	// late is the number of requests in a row that were not answered in time.
	late atomic.Int32
}

// bufferSize of a connection in each direction, in bytes. gRPC's default is 32 KiB.
const bufferSize = 4 << 10

func connect(endpoint string, tls *tls.Config, options ...grpc.DialOption) (*connection, error) {
	c := &connection{endpoint: endpoint}
	options = append(slices.Clip(options), grpc.WithChainUnaryInterceptor(c.notice),
		// What is asked fits into little, and an operator has connections to many members.
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize))
	if tls != nil && tls.ServerName != "" {
		// gRPC would check the certificate for the host of the endpoint, whatever the configuration says.
		options = append(options, grpc.WithAuthority(tls.ServerName))
	}
	var err error
	c.etcd, err = clientv3.New(clientv3.Config{
		Endpoints:   []string{endpoint},
		TLS:         tls,
		DialOptions: options,
		// Each request carries a deadline of its own, and its error is reported by whoever asked.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("making an etcd client for %s: %w", endpoint, err)
	}
	return c, nil
}

func (c *connection) notice(ctx context.Context, method string, request, reply any, on *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, on, options...)
	switch status.Code(err) {
	case codes.OK:
		c.late.Store(0)
	case codes.DeadlineExceeded, codes.Canceled:
		c.late.Add(1)
	default:
		c.broken.Store(true)
	}
	return err
}

// maxLate is how many requests in a row may be late on a connection that is used again. A member that is slow needs no
// other one. After a break in the network, a new one may work before the old one does.
const maxLate = 1

// isGood reports whether the connection can be used again.
func (c *connection) isGood() bool {
	late := c.late.Load()
	return !c.broken.Load() && (late == 0 || late <= maxLate && c.etcd.ActiveConnection().GetState() == connectivity.Ready)
}

func (c *connection) close() error { return c.etcd.Close() }

type client struct {
	*connection
	// giveBack is what closing the client does with its connection.
	giveBack func(*connection) error
}

func (c *client) Status(ctx context.Context) (Status, error) {
	r, err := c.maintenance().Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return Status{}, fmt.Errorf("asking %s for its status: %w", c.endpoint, err)
	}
	return Status{
		ClusterID:      r.Header.GetClusterId(),
		MemberID:       r.Header.GetMemberId(),
		Leader:         r.Leader,
		Term:           r.RaftTerm,
		CommittedIndex: r.RaftIndex,
		AppliedIndex:   r.RaftAppliedIndex,
		Learner:        r.IsLearner,
		Version:        r.Version,
	}, nil
}

// maintenance asks over the connection that we have. For some of its calls etcd's client makes one of its own.
func (c *client) maintenance() etcdserverpb.MaintenanceClient {
	return etcdserverpb.NewMaintenanceClient(c.etcd.ActiveConnection())
}

func (c *client) Members(ctx context.Context) ([]Member, error) {
	r, err := c.etcd.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("asking %s for its member list: %w", c.endpoint, err)
	}
	members := make([]Member, 0, len(r.Members))
	for _, m := range r.Members {
		members = append(members, Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner, ClientURLs: m.ClientURLs, PeerURLs: m.PeerURLs})
	}
	return members, nil
}

func (c *client) MoveLeader(ctx context.Context, to uint64) error {
	if _, err := c.etcd.MoveLeader(ctx, to); err != nil {
		return fmt.Errorf("asking %s to move leadership to member %x: %w", c.endpoint, to, err)
	}
	return nil
}

func (c *client) Close() error { return c.giveBack(c.connection) }
