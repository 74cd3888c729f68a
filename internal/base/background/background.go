// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package background runs requests that take longer than a reconcile may. A task handler starts one, and checks it in later reconciles.
// Requests are kept in memory, so a handler must be prepared for one that an earlier operator started and that this one does not know. It
// imports only the standard library and the type of a UID.
package background

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Requests holds at most one request for each task. R is its result. The zero value is ready for use.
type Requests[R any] struct {
	mu    sync.Mutex
	calls map[types.UID]*entry[R]
}

type entry[R any] struct {
	Request[R]
	cancel context.CancelFunc
}

// Request is one request.
type Request[R any] struct {
	// Name describes the request.
	Name string
	// Running: it has not returned yet.
	Running bool
	// Result and Err are what it returned.
	Result R
	Err    error
}

// Start starts the request of a task, unless one of the task is still running. The request has the values of the context but
// outlives it: it ends by itself, or after the timeout.
func (c *Requests[R]) Start(ctx context.Context, task types.UID, name string, timeout time.Duration, do func(context.Context) (R, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.calls[task]; ok && e.Running {
		return
	}
	if c.calls == nil {
		c.calls = map[types.UID]*entry[R]{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	e := &entry[R]{Request: Request[R]{Name: name, Running: true}, cancel: cancel}
	c.calls[task] = e
	go func() {
		defer cancel()
		result, err := do(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		e.Running, e.Result, e.Err = false, result, err
	}()
}

// Of returns the newest request of a task; false if there is none.
func (c *Requests[R]) Of(task types.UID) (Request[R], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.calls[task]; ok {
		return e.Request, true
	}
	return Request[R]{}, false
}

// Forget cancels the request of a task and removes it.
func (c *Requests[R]) Forget(task types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.calls[task]; ok {
		e.cancel()
		delete(c.calls, task)
	}
}
