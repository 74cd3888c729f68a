// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package snapshotter takes snapshots of a running member: full ones by a schedule, deltas by a period and a memory limit,
// and both on request. It takes one snapshot at a time.
package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"
)

// ErrNotRunning is returned if this member takes no snapshots, because it is not the leader.
var ErrNotRunning = errors.New("this member takes no snapshots: it is not the leader")

// Config of a Snapshotter.
type Config struct {
	Options
	// Etcd is the member.
	Etcd Etcd
	// Seen tells when this agent has seen what it collects later. It may be nil.
	Seen *Seen
	// Store for the snapshots.
	Store *store.Store
	// FullFirst reports whether to start with a full snapshot, because the store may hold another history: the member was
	// restored, or its cluster recovered. It may be nil.
	FullFirst func(context.Context) bool
	// OnSnapshot is called with each snapshot once it is in the store.
	OnSnapshot func(backup.Snapshot)
	// Recorded returns what OnSnapshot recorded outside of the store. It may be nil.
	Recorded func(context.Context) (backup.Record, error)
	Clock    clock.WithTicker
	Log      logr.Logger
	// Metrics are registered here, unless it is nil.
	Metrics prometheus.Registerer
}

// Snapshotter takes snapshots while Run is running. It is safe for concurrent use.
type Snapshotter struct {
	config   Config
	schedule schedule
	metrics  *Metrics

	mu sync.Mutex
	// running: requests are accepted; pending are those that are not done, at most one of each kind.
	running bool
	pending map[want]*request
	// queue has them in order of arrival; wake signals a change.
	queue []*request
	wake  chan struct{}
	// asked is when a snapshot of a kind was last taken on request.
	asked map[backup.Kind]time.Time
	// failure of the last snapshot; nil if it succeeded.
	failure error
	// current is when the store was last found to have everything that was written until then.
	current time.Time
	// headers is what is known of the snapshots that are encrypted. restorable are the states that the store was last found to lead to, and
	// locked says which snapshots could not be decrypted.
	headers    headers
	restorable []backup.Interval
	locked     string
	// hot counts which prefixes are written most, as long as deltas are collected.
	hot hotprefix.Recent
	// distrusted is what is wrong with the store where snapshots are signed or encrypted, and unreadable is why this agent could not
	// decrypt the newest snapshots; nil for nothing.
	distrusted, unreadable error

	// keeping is held while snapshots are marked, and while expired ones are removed: a mark is either seen, or refused because what it
	// is for has been removed.
	keeping sync.Mutex

	// Only Run's goroutine uses these. renewed: a full snapshot was taken since the start, so that FullFirst does not matter. unremoved are the
	// expired snapshots whose own object could not be removed, by name, and when that was last tried.
	renewed   bool
	unremoved map[string]time.Time
}

// want is what can be requested.
type want struct {
	kind  backup.Kind
	final bool
}

// request is a snapshot that was requested by any number of callers, or by the schedule.
type request struct {
	want
	// scheduled: it is due by schedule, period or limit, whether or not callers wait for it.
	scheduled bool
	// begun is when the snapshot began to be taken.
	begun    time.Time
	done     chan struct{}
	snapshot *backup.Snapshot // nil for a delta without changes
	err      error
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
	if config.Seen == nil {
		config.Seen = &Seen{}
	}
	// Leave space for one more response of etcd.
	config.DeltaLimit = min(config.DeltaLimit, backup.MaxDelta/2)
	return &Snapshotter{
		config: config, schedule: s, metrics: NewMetrics(config.Metrics),
		pending: map[want]*request{}, wake: make(chan struct{}, 1), asked: map[backup.Kind]time.Time{},
	}, nil
}

// Full takes a full snapshot, or joins one that is in progress or queued, so that repeated requests do not pile up work. One that is in progress may lack
// what was written since it began: the caller compares the revision.
// Canceling the context ends the wait, not the snapshot. Within MinInterval of the last requested snapshot, the next one
// waits, and all callers until then share it.
func (s *Snapshotter) Full(ctx context.Context, final bool) (backup.Snapshot, error) {
	snapshot, err := s.ask(ctx, want{backup.Full, final})
	if err != nil {
		return backup.Snapshot{}, err
	}
	return *snapshot, nil
}

// Delta takes a delta snapshot of everything written until it begins, in the same way. It returns nil without an error if
// there are no changes.
func (s *Snapshotter) Delta(ctx context.Context) (*backup.Snapshot, error) {
	return s.ask(ctx, want{kind: backup.Delta})
}

// Latest returns the snapshots that a restore would use.
func (s *Snapshotter) Latest(ctx context.Context) (backup.Chain, error) {
	list, err := s.config.Store.Trusted(ctx, time.Time{})
	if err != nil {
		return backup.Chain{}, err
	}
	return backup.Newest(list)
}

// Keep marks a snapshot, so that retention never removes it.
func (s *Snapshotter) Keep(ctx context.Context, name string) (backup.Snapshot, error) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	return s.config.Store.Keep(ctx, name)
}

// Hold keeps what leads from a full snapshot to a revision from retention, for backup.HoldFor. It returns an error if the store does not lead
// there.
func (s *Snapshotter) Hold(ctx context.Context, base string, revision int64) (backup.Snapshot, error) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	return s.config.Store.Hold(ctx, base, revision, s.config.Clock.Now())
}

// HotPrefixes returns which prefixes of keys were written most in the last minute or two, by the events collected for deltas, and which
// whole keys if they are asked for.
func (s *Snapshotter) HotPrefixes(withKeys bool) hotprefix.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hot.Report(s.config.Clock.Now(), withKeys)
}

// count counts events of etcd by the prefixes of their keys.
func (s *Snapshotter) count(events []*clientv3.Event, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.hot.Add(e.Kv.Key, e.Kv.ModRevision, int64(len(e.Kv.Key)+len(e.Kv.Value)), now)
	}
}

// Healthy returns the failure of the last snapshot, and what is wrong with the store; nil for neither.
func (s *Snapshotter) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.failure, s.distrusted, s.unreadable)
}

// Current returns when the store was last found to have everything that was written until then; zero if that is not known.
func (s *Snapshotter) Current() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// foundCurrent notes that the store has everything that was written until a time.
func (s *Snapshotter) foundCurrent(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = until
}

// Restorable returns the states that can be restored from the store, as it was last listed: at the start, after each full snapshot and
// after each garbage collection. Since then, deltas may have extended the last one. It is nil as long as that is not known. It also returns
// which snapshots lead nowhere since this agent cannot decrypt them; empty for none.
func (s *Snapshotter) Restorable() (states []backup.Interval, locked string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restorable, s.locked
}

// foundRestorable notes what a store with some snapshots leads to.
func (s *Snapshotter) foundRestorable(list []backup.Snapshot) {
	trusted, _ := backup.Trusted(list, s.config.Store.Trust(), time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers.list(trusted)
	s.listRestorable()
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

// submit queues a request, or returns the pending one for the same snapshot.
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
	default: // already signaled
	}
	return r, nil
}

// advance moves a request to the head of the queue.
func (s *Snapshotter) advance(w want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.queue, func(r *request) bool { return r.want == w }); i > 0 {
		r := s.queue[i]
		s.queue = slices.Insert(slices.Delete(s.queue, i, i+1), 0, r)
	}
}

// next removes and returns the first request that is not delayed by MinInterval, to begin now; nil if there is none.
func (s *Snapshotter) next(now time.Time) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.queue, func(r *request) bool { return r.scheduled || !s.tooSoon(r.kind, now) })
	if i < 0 {
		return nil
	}
	r := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	r.begun = now
	return r
}

// tooSoon reports whether MinInterval since the last requested snapshot of a kind has not passed. A clock that was set back
// delays nothing. The caller holds the lock.
func (s *Snapshotter) tooSoon(kind backup.Kind, now time.Time) bool {
	since := now.Sub(s.asked[kind])
	return since >= 0 && since < s.config.MinInterval
}

// finish completes a request. If it succeeded, the store has everything until it began.
func (s *Snapshotter) finish(r *request, snapshot *backup.Snapshot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.snapshot, r.err = snapshot, err
	if snapshot != nil && err == nil && !r.scheduled {
		s.asked[r.kind] = s.config.Clock.Now()
	}
	delete(s.pending, r.want)
	s.failure = err
	if err == nil {
		s.current = r.begun
	}
	close(r.done)
}

// start accepts requests from now on.
func (s *Snapshotter) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
}

// stop accepts no more requests, and fails the pending ones.
func (s *Snapshotter) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	s.fail(err)
	s.failure, s.distrusted, s.unreadable = nil, nil, nil
	// Another member may lead next, and have reported more by the time at which this one leads again.
	s.current, s.restorable, s.locked = time.Time{}, nil, ""
}

// fail fails all pending requests. The caller holds the lock.
func (s *Snapshotter) fail(err error) {
	for w, r := range s.pending {
		r.err = err
		delete(s.pending, w)
		close(r.done)
	}
	s.queue = nil
	s.failure = err
}

// retryPeriod is the time until the next attempt after the store or etcd failed.
const retryPeriod = 10 * time.Second

// Run takes snapshots until the context ends, and returns its error. Call it while this member leads. Failures are retried.
func (s *Snapshotter) Run(ctx context.Context) error {
	s.start()
	defer s.stop(ErrNotRunning)
	for {
		err := s.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.metrics.failed()
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
