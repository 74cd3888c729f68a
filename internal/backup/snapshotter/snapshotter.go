// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package snapshotter takes snapshots of a running member: full ones by a schedule, deltas by a period and a
// limit of memory, either on demand. One snapshot is taken at a time.
package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/store"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// ErrNotRunning says that this member takes no snapshots: it is not the leader, or no longer.
var ErrNotRunning = errors.New("this member takes no snapshots: it is not the leader")

// Config of a Snapshotter.
type Config struct {
	Options
	// Etcd is the member.
	Etcd Etcd
	// Store for the snapshots.
	Store *store.Store
	// FullFirst: begin with a full snapshot in any case. To be set after the member was restored, or recovered
	// from the data of another: what is in the store may be another history then.
	FullFirst bool
	// OnSnapshot is told of each snapshot that is in the store.
	OnSnapshot func(backup.Snapshot)
	Clock      clock.WithTicker
	Log        logr.Logger
	// Metrics are registered here, unless it is nil.
	Metrics prometheus.Registerer
}

// Snapshotter takes snapshots while Run runs. Its methods may be called from several goroutines.
type Snapshotter struct {
	config   Config
	schedule schedule
	metrics  *metrics

	mu sync.Mutex
	// running says that requests are taken; pending are those that are not done, at most one of each kind.
	running bool
	pending map[want]*request
	// queue of them, in the order in which they came; wake says that it has changed.
	queue []*request
	wake  chan struct{}
	// asked is when a snapshot of a kind was last taken for somebody who asked.
	asked map[backup.Kind]time.Time
	// failure of a snapshot that was not made good by a later one.
	failure error

	// renewed: a full snapshot was taken since the start. Only Run's goroutine looks at it.
	renewed bool
}

// want is what can be asked for.
type want struct {
	kind  backup.Kind
	final bool
}

// request is a snapshot that was asked for, by any number of callers, or by the schedule.
type request struct {
	want
	// scheduled: it is due by the schedule, the period or the limit, whoever asks besides.
	scheduled bool
	done      chan struct{}
	snapshot  *backup.Snapshot // nil when there was nothing new for a delta
	err       error
}

// New makes a Snapshotter.
func New(config Config) (*Snapshotter, error) {
	s, err := parseSchedule(config.Schedule)
	if err != nil {
		return nil, err
	}
	if !config.Compression.Valid() {
		return nil, fmt.Errorf("there is no compression %q", config.Compression)
	}
	// A response of etcd has to fit in, besides.
	config.DeltaLimit = min(config.DeltaLimit, backup.MaxDelta/2)
	return &Snapshotter{
		config: config, schedule: s, metrics: newMetrics(config.Metrics),
		pending: map[want]*request{}, wake: make(chan struct{}, 1), asked: map[backup.Kind]time.Time{},
	}, nil
}

// Full takes a full snapshot. When one is being taken, or waits to be, it returns that: a caller whose patience
// is short does not pile up work. Ending the context ends the waiting and not the snapshot. Within MinInterval of
// one that was asked for, the next waits: together with all who ask in the meantime.
func (s *Snapshotter) Full(ctx context.Context, final bool) (backup.Snapshot, error) {
	snapshot, err := s.ask(ctx, want{backup.Full, final})
	if err != nil {
		return backup.Snapshot{}, err
	}
	return *snapshot, nil
}

// Delta takes a delta snapshot of everything that was written before the call, in the same way. Nil without an
// error says that there was nothing.
func (s *Snapshotter) Delta(ctx context.Context) (*backup.Snapshot, error) {
	return s.ask(ctx, want{kind: backup.Delta})
}

// Latest returns the snapshots that a restore would use.
func (s *Snapshotter) Latest(ctx context.Context) (backup.Chain, error) {
	list, err := s.config.Store.List(ctx)
	if err != nil {
		return backup.Chain{}, err
	}
	return backup.Newest(list)
}

// Healthy returns the failure of a snapshot that was not made good by a later one.
func (s *Snapshotter) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *Snapshotter) ask(ctx context.Context, w want) (*backup.Snapshot, error) {
	r, err := s.submit(w, false)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.done:
		return r.snapshot, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// submit queues a request, or returns the pending one for the same.
func (s *Snapshotter) submit(w want, scheduled bool) (*request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil, ErrNotRunning
	}
	r, ok := s.pending[w]
	if !ok {
		r = &request{want: w, done: make(chan struct{})}
		s.pending[w], s.queue = r, append(s.queue, r)
	}
	r.scheduled = r.scheduled || scheduled
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
	return r, nil
}

// next takes the first request out of the queue that need not wait; nil when there is none.
func (s *Snapshotter) next(now time.Time) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.queue, func(r *request) bool { return r.scheduled || !s.tooSoon(r.kind, now) })
	if i < 0 {
		return nil
	}
	r := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	return r
}

// tooSoon reports whether a snapshot of a kind was taken just now because somebody had asked for one. A clock that was set
// back makes nobody wait. The caller holds the lock.
func (s *Snapshotter) tooSoon(kind backup.Kind, now time.Time) bool {
	since := now.Sub(s.asked[kind])
	return since >= 0 && since < s.config.MinInterval
}

// finish answers a request.
func (s *Snapshotter) finish(r *request, snapshot *backup.Snapshot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.snapshot, r.err = snapshot, err
	if snapshot != nil && err == nil && !r.scheduled {
		s.asked[r.kind] = s.config.Clock.Now()
	}
	delete(s.pending, r.want)
	s.failure = err
	close(r.done)
}

// start begins to take requests.
func (s *Snapshotter) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
}

// stop takes no more requests, and answers those that are pending.
func (s *Snapshotter) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	s.fail(err)
	s.failure = nil
}

// fail answers everything that is pending with an error. The caller holds the lock.
func (s *Snapshotter) fail(err error) {
	for w, r := range s.pending {
		r.err = err
		delete(s.pending, w)
		close(r.done)
	}
	s.queue = nil
	s.failure = err
}

// retryPeriod is the time before the next try after the store or etcd failed.
const retryPeriod = 10 * time.Second

// Run takes snapshots until the context ends, and returns its error. It is to be called while this member
// leads. What fails is tried again.
func (s *Snapshotter) Run(ctx context.Context) error {
	s.start()
	defer s.stop(ErrNotRunning)
	for {
		err := s.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.config.Log.Error(err, "Taking snapshots failed; retrying", "after", retryPeriod)
		s.mu.Lock()
		s.fail(err)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.config.Clock.After(retryPeriod):
		}
	}
}
