// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdclient is the operator's narrow view of etcd: what one member reports about itself and its cluster, and the few requests that
// the operator sends to members. It imports etcd's client and nothing of Kubernetes.
package etcdclient

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// Status is what a member reports about itself. It takes no quorum.
type Status struct {
	ClusterID, MemberID uint64
	// Leader is the ID of the leader that this member knows; 0 if it knows none.
	Leader uint64
	// Term is the raft term.
	Term uint64
	// CommittedIndex is the index of the raft log that the member knows to be committed, and AppliedIndex the one that it
	// has applied.
	CommittedIndex, AppliedIndex uint64
	// Revision of its key space.
	Revision int64
	// Learner reports that the member does not vote.
	Learner bool
	// Version of the member's etcd, such as "3.6.8".
	Version string
	// StorageVersion is the version of its data, such as "3.6.0"; empty before 3.6.
	StorageVersion string
	// DowngradeTo is the target version of a downgrade that was enabled, such as "3.5.0"; empty if none was.
	DowngradeTo string
	// DatabaseSize is the size of its database on disk, in bytes.
	DatabaseSize int64
	// Alarms of the cluster that the member has applied, ordered.
	Alarms []Alarm
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
	// Members returns the member list as this member knows it. It is a serializable read, because a linearizable one fails exactly when the
	// quorum is lost. A learner refuses it. A list of more than MaxMembers is an error.
	Members(ctx context.Context) ([]Member, error)
	// ConfirmedMembers returns the member list by a linearizable read, which takes a quorum.
	ConfirmedMembers(ctx context.Context) ([]Member, error)
	// AddLearner adds a learner with peer URLs to the cluster, PromoteLearner gives it its vote, and RemoveMember removes a member. None of
	// them is idempotent: after an error that is not an IsRefusal, the list shows whether the request took effect.
	AddLearner(ctx context.Context, urls []string) error
	PromoteLearner(ctx context.Context, id uint64) error
	RemoveMember(ctx context.Context, id uint64) error
	// MoveLeader hands leadership from this member, which has to be the leader, to another voter.
	MoveLeader(ctx context.Context, to uint64) error
	// Database returns the size of the member's database. A member that is being defragmented does not answer.
	Database(ctx context.Context) (Database, error)
	// Read reads a key that need not exist: with a quorum if linearizable is set, otherwise from this member alone.
	Read(ctx context.Context, linearizable bool) error
	// Compact removes everything older than a revision from the key space of the cluster. It returns once this member has done so, also if
	// the compaction was requested before.
	Compact(ctx context.Context, revision int64) error
	// Defragment rewrites the member's database without its free pages. Until that is done, the member neither reads nor writes. It
	// continues when the context ends.
	Defragment(ctx context.Context) error
	// Alarms returns the alarms of the cluster. The request takes a quorum.
	Alarms(ctx context.Context) ([]Alarm, error)
	// Administers returns nil if the member accepts requests that change its cluster. With auth enabled, it only accepts them from users
	// with the role root, and the error is an IsAuthRefusal. The request changes nothing, and takes a quorum.
	Administers(ctx context.Context) error
	// Disarm ends an alarm.
	Disarm(ctx context.Context, a Alarm) error
	// SetPeerURLs changes the peer URLs that a member of the cluster is listed with. It takes a quorum.
	SetPeerURLs(ctx context.Context, id uint64, urls []string) error
	// Close releases this client.
	Close() error
}

// Dialer makes a client for the member at an endpoint, such as http://10.0.0.1:2379. No connection is made
// before the first request.
type Dialer interface {
	Dial(endpoint string, tls *tls.Config) (Client, error)
}

// NewDialer makes the Dialer that uses etcd's own client, with a connection for each client.
func NewDialer() Dialer { return dialer{} }

// NewDialerThrough makes a Dialer whose connections are made by a function, for example through a tunnel. Endpoints, and the names in
// certificates, stay those of the members.
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
	// late is the number of requests in a row that were not answered in time.
	late atomic.Int32
}

const (
	// bufferSize of a connection in each direction, in bytes. gRPC's default is 32 KiB.
	bufferSize = 4 << 10
	// maxMessage bounds an answer, in bytes. The default of etcd's client is 2 GiB.
	maxMessage = 1 << 20
	// maxHeaders bounds the headers and trailers of an answer, and so the text of an error, in bytes. gRPC's default is 16 MiB.
	maxHeaders = 64 << 10
)

func connect(endpoint string, tls *tls.Config, options ...grpc.DialOption) (*connection, error) {
	c := &connection{endpoint: endpoint}
	options = append(slices.Clip(options), grpc.WithChainUnaryInterceptor(c.countLate),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)), grpc.WithMaxHeaderListSize(maxHeaders),
		// Requests are small, and an operator has connections to many members.
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize))
	if tls != nil && tls.ServerName != "" {
		// gRPC would check the certificate for the host of the endpoint, whatever the configuration says.
		options = append(options, grpc.WithAuthority(tls.ServerName))
	}
	if strings.HasPrefix(endpoint, "https://") {
		options = append(options, grpc.WithTransportCredentials(keepRefusals{credentials.NewTLS(tls)}))
	}
	var err error
	c.etcd, err = clientv3.New(clientv3.Config{
		Endpoints:          []string{endpoint},
		TLS:                tls,
		DialOptions:        options,
		MaxCallSendMsgSize: maxMessage,
		MaxCallRecvMsgSize: maxMessage,
		// Each request carries a deadline of its own, and its error is reported by the caller.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("making an etcd client for %s: %w", endpoint, err)
	}
	return c, nil
}

func (c *connection) countLate(ctx context.Context, method string, request, reply any, on *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, on, options...)
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled:
		c.late.Add(1)
	default:
		c.late.Store(0)
	}
	return err
}

// maxLate is how many requests in a row may be late on a connection before it is no longer reused. A slow member needs no other connection.
// But after a break in the network, which gRPC only notices minutes later, a new one may work before the old one does.
const maxLate = 1

// isReusable reports whether the next request can use the connection. gRPC reestablishes a connection that ended at once, but one that it
// failed to establish only after a pause, for which nothing waits. An error that the member returned does not matter.
func (c *connection) isReusable() bool {
	switch late := c.late.Load(); c.etcd.ActiveConnection().GetState() {
	case connectivity.Ready:
		return late <= maxLate
	case connectivity.Idle, connectivity.Connecting:
		return late == 0
	}
	return false
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
		return Status{}, fmt.Errorf("asking %s for its status: %w", c.endpoint, rpctypes.Error(err))
	}
	downgrade := ""
	if info := r.GetDowngradeInfo(); info.GetEnabled() {
		downgrade = info.GetTargetVersion()
	}
	return Status{
		ClusterID:      r.Header.GetClusterId(),
		MemberID:       r.Header.GetMemberId(),
		Leader:         r.Leader,
		Term:           r.RaftTerm,
		CommittedIndex: r.RaftIndex,
		AppliedIndex:   r.RaftAppliedIndex,
		Revision:       r.Header.GetRevision(),
		Learner:        r.IsLearner,
		Version:        r.Version,
		StorageVersion: r.GetStorageVersion(),
		DowngradeTo:    downgrade,
		DatabaseSize:   r.DbSize,
		Alarms:         alarmsIn(r.GetErrors()),
	}, nil
}

// maintenance uses the existing connection. For some of its calls, etcd's client would make another one.
func (c *client) maintenance() etcdserverpb.MaintenanceClient {
	return etcdserverpb.NewMaintenanceClient(c.etcd.ActiveConnection())
}

func (c *client) Close() error { return c.giveBack(c.connection) }
