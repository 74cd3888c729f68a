// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package serve runs beside a member, in a container of its own: it renews the member lease, reports what it has read of the members that
// are about to be removed, has a learner promoted in a recovery, helps a member to serve that waits for an entry, and serves the
// agent's HTTP API. It runs whatever the state of the member, and stops at once: no rollout waits for it.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// look is how often the member is asked, and thus the delay of a leader's work.
const look = time.Second

// askTimeout bounds a request to the member or to the API server.
const askTimeout = 2 * time.Second

// stirPeriod is how long a member may not answer before the others are asked to commit an entry, and again after each.
const stirPeriod = 10 * time.Second

// Status of the member.
type Status struct {
	ClusterID, MemberID uint64
	// Leader is the ID of the leader; 0 if the member knows none.
	Leader  uint64
	Learner bool
	// Revision that the member has.
	Revision int64
}

// leads reports whether the member is the leader.
func (s Status) leads() bool { return s.Leader != 0 && s.Leader == s.MemberID }

// Member is the member in this pod.
type Member interface {
	// Status returns its status.
	Status(ctx context.Context) (Status, error)
	// Read reads a key that need not exist. A linearizable read takes a quorum, another one only this member.
	Read(ctx context.Context, linearizable bool) error
	// Promote asks the others to promote a learner. They refuse one that has not caught up.
	Promote(ctx context.Context, memberID uint64) error
	// Listed reports whether a quorum of the others lists a member of a cluster.
	Listed(ctx context.Context, clusterID, memberID uint64) (bool, error)
	// Stir asks peers to commit a no-op entry. A member that a snapshot of the leader has brought up to date serves only once it
	// has applied an entry after it (etcd 3.6 and 3.7), and without writes none comes.
	Stir(ctx context.Context) error
}

// Lease is a lease that the agent renews.
type Lease interface {
	// Renew writes holder and renew time.
	Renew(ctx context.Context, holder string, now time.Time) error
	// Annotate writes an annotation.
	Annotate(ctx context.Context, key, value string) error
}

// SnapshotLease is a lease that records the newest snapshot of a kind.
type SnapshotLease interface {
	// Record records a snapshot, unless one that was taken later is recorded.
	Record(ctx context.Context, snapshot backup.Snapshot, now time.Time) error
	// Report writes annotations, and reports whether the lease records a snapshot: it may have been made again.
	Report(ctx context.Context, annotations map[string]string) (records bool, err error)
}

// Server runs beside a member.
type Server struct {
	Log    logr.Logger
	Member Member
	Lease  Lease
	// Name of the member, and Shared the configuration that tells it how members change; nil if nothing does.
	Name   string
	Shared SharedFrom
	// Writer returns the IDs of the cluster and member whose data there is; nil if it is not known.
	Writer func() (clusterID, memberID uint64, err error)
	// Heartbeat is how often the lease is renewed.
	Heartbeat time.Duration
	// Lead runs while the member leads, until its context ends. It may be nil.
	Lead func(ctx context.Context)
	// Saw is called with each revision that the member answers with. It may be nil.
	Saw func(revision int64, at time.Time)
	// Tidy is called once the member is a voter that knows a leader, and then with each heartbeat until it reports that it
	// is done.
	Tidy func() (done bool)
	// Address to listen on, with TLS unless that is nil, and the handler of requests.
	Address string
	TLS     *tls.Config
	Handler http.Handler
	Metrics *Metrics
	Clock   clock.WithTicker

	// State of the loop: the lease as last written, and the last logged failure.
	renewed time.Time
	holder  string
	tidied  bool
	// lastTidy is when Tidy was last called.
	lastTidy time.Time
	// stirred is when the member answered last, or the others were asked to commit an entry.
	stirred time.Time
	failing string
	resign  func()
	// removed is the ID of a member that does not answer and that the others have removed, or 0, and read what was reported last.
	removed uint64
	read    cluster.Read
}

// newWeb makes the HTTP server. Handlers that take longer than its timeouts extend them.
func newWeb(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
}

// Run runs until the context ends. It returns an error if it cannot listen.
func (s *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if s.TLS != nil {
		listener = tls.NewListener(listener, s.TLS)
	}
	web := newWeb(s.Handler)
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error(err, "Serving ended")
		}
	}()
	// Clients that wait see the connection close, and ask another member.
	defer func() { _ = web.Close() }()
	stopTiming := s.time(ctx)
	defer stopTiming()
	ticker := s.Clock.NewTicker(look)
	defer ticker.Stop()
	defer func() { s.lead(ctx, false) }()
	for {
		s.once(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// once asks the member for its status, and acts on it.
func (s *Server) once(ctx context.Context) {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	status, err := s.Member.Status(ask)
	cancel()
	s.Metrics.observe(status, err)
	shared := s.readShared(ctx)
	s.readMembers(ctx, shared)
	if err != nil {
		// A leader that hangs does not lead. Its lease expires by itself.
		s.lead(ctx, false)
		s.say(ctx, err, "The member is not answering")
		s.stir(ctx)
		return
	}
	s.stirred, s.removed = s.Clock.Now(), 0
	if s.Saw != nil {
		s.Saw(status.Revision, s.stirred)
	}
	s.lead(ctx, status.leads() && (shared.Source == nil || !shared.Source.Leads))
	switch {
	case status.Learner:
		// Not in the moment in which it votes: to delete a database takes the disk, and each write may be waiting for this member.
		s.tidied, s.lastTidy = false, s.Clock.Now()
		if promotes(shared, status.ClusterID) {
			s.promote(ctx, status)
		}
	case status.Leader != 0:
		s.tidy()
		s.renew(ctx, status)
	}
}

// stir has the others commit an entry if the member has not answered for a while. That they cannot is as it is: they may have
// no quorum.
func (s *Server) stir(ctx context.Context) {
	now := s.Clock.Now()
	if s.stirred.IsZero() {
		s.stirred = now
	}
	if now.Sub(s.stirred) < stirPeriod {
		return
	}
	s.stirred = now
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if s.checkRemoved(ctx); s.removed != 0 {
		return
	}
	if err := s.Member.Stir(ctx); err != nil {
		s.Log.V(1).Info("The other members committed no entry", "reason", err.Error())
	}
}

// tidy calls Tidy if it is due.
func (s *Server) tidy() {
	now := s.Clock.Now()
	if s.tidied || s.Tidy == nil || now.Sub(s.lastTidy) < s.Heartbeat {
		return
	}
	s.lastTidy, s.tidied = now, s.Tidy()
}

// renew renews the lease of a voter if it is due or has changed. The lease of a learner is not renewed, because learners do
// not count.
func (s *Server) renew(ctx context.Context, status Status) {
	holder, now := holder(status), s.Clock.Now()
	if holder == s.holder && now.Sub(s.renewed) < s.Heartbeat {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.Lease.Renew(ctx, holder, now); err != nil {
		s.Metrics.leaseFailures.Inc()
		s.say(ctx, err, "Renewing the member lease failed")
		return
	}
	if holder != s.holder {
		s.Log.Info("Member lease changed", "holder", holder)
	}
	s.holder, s.renewed, s.failing = holder, now, ""
}

// lead starts and stops the work of the leader.
func (s *Server) lead(ctx context.Context, leads bool) {
	switch {
	case s.Lead == nil || leads == (s.resign != nil):
	case leads:
		term, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Lead(term)
		}()
		s.resign = func() { cancel(); <-done }
	default:
		s.resign()
		s.resign = nil
	}
}

// say logs a failure unless it was logged last.
func (s *Server) say(ctx context.Context, err error, what string) {
	if ctx.Err() == nil && err.Error() != s.failing {
		s.failing = err.Error()
		s.Log.Info(what, "reason", err.Error())
	}
}

// holder returns the holder identity of a voter's lease: <memberID>:<clusterID>:<role>.
func holder(s Status) string {
	role := "Member"
	if s.leads() {
		role = "Leader"
	}
	return fmt.Sprintf("%x:%x:%s", s.MemberID, s.ClusterID, role)
}

// SharedFrom reads the current shared configuration: the operator changes the list of members when the cluster grows.
type SharedFrom func() (member.Shared, error)
