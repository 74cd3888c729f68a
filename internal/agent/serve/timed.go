// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// readPeriod is how often each kind of read is timed.
	readPeriod = 2 * time.Second
	// wakeupPeriod is how long the timers run whose delay is measured.
	wakeupPeriod = 100 * time.Millisecond
)

// time times reads and timers until the context ends or stop is called. It has goroutines of its own: a lease does not wait for a read.
// It uses the monotonic clock, whatever the clock of a test.
func (s *Server) time(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { every(ctx, readPeriod, func(time.Duration) { s.timeRead(ctx, "linearizable", true) }) })
	all.Go(func() { every(ctx, readPeriod, func(time.Duration) { s.timeRead(ctx, "serializable", false) }) })
	all.Go(func() {
		every(ctx, wakeupPeriod, func(late time.Duration) { s.Metrics.wakeups.Observe(late.Seconds()) })
	})
	return func() { cancel(); all.Wait() }
}

// every calls a function a period after it returned, with how late that is.
func every(ctx context.Context, period time.Duration, do func(late time.Duration)) {
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
			do(time.Since(began) - period)
		}
	}
}

// timeRead times a read. One that is refused, such as for want of a right where etcd has users, is not slow.
func (s *Server) timeRead(ctx context.Context, kind string, linearizable bool) {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	began := time.Now()
	err := s.Member.Read(ask, linearizable)
	if err == nil || errors.Is(ask.Err(), context.DeadlineExceeded) {
		s.Metrics.reads.WithLabelValues(kind).Observe(time.Since(began).Seconds())
	}
}
