// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// slowAfter is the least duration of a slow reconcile, such as one that waits for members that hang. One that waits for nothing takes
// milliseconds.
const slowAfter = time.Second

// fairQueue is a priority queue that gives each namespace its share of the workers, and slow objects another one. An object that has to
// wait for its share is held back, and later ones overtake it. In the metrics of the queue, it counts as being worked on.
type fairQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	now    func() time.Time
	mu     sync.Mutex
	shares shares
	// working are the objects that have a worker. An object that was held back gets its worker before it is resumed.
	working map[reconcile.Request]work
	held    []heldBack
	// slow are the objects that took long the last time.
	slow map[reconcile.Request]bool
}

// work is an object that has a worker.
type work struct {
	look
	since time.Time
}

func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], workers int) *fairQueue {
	return &fairQueue{
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
		now:           time.Now, shares: shares{free: workers, all: workers, of: map[string]int{}},
		working: map[reconcile.Request]work{}, slow: map[reconcile.Request]bool{},
	}
}

// Add implements workqueue.TypedInterface.
func (q *fairQueue) Add(object reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, object) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *fairQueue) AddAfter(object reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, object)
}

// AddWithOpts implements priorityqueue.PriorityQueue. What is held back gets a higher priority, too, also if it is added for later: it
// has waited already.
func (q *fairQueue) AddWithOpts(o priorityqueue.AddOpts, objects ...reconcile.Request) {
	q.PriorityQueue.AddWithOpts(o, objects...)
	if q.raise(ptr.Deref(o.Priority, 0), objects) {
		q.resume()
	}
}

// raise gives objects that are held back a higher priority, and reports whether there are any.
func (q *fairQueue) raise(priority int, objects []reconcile.Request) (raised bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.held {
		if h := &q.held[i]; h.priority < priority && slices.Contains(objects, h.object) {
			h.priority, h.look, raised = priority, q.lookAt(h.object, priority), true
		}
	}
	return raised
}

// lookAt returns what counts for the share of an object. The caller holds the mutex.
func (q *fairQueue) lookAt(object reconcile.Request, priority int) look {
	unhurried := priority == Unhurried
	return look{object.Namespace, q.slow[object] && !unhurried, unhurried}
}

// GetWithPriority implements priorityqueue.PriorityQueue: it waits for an object whose share permits.
func (q *fairQueue) GetWithPriority() (object reconcile.Request, priority int, shutdown bool) {
	for {
		object, priority, shutdown = q.PriorityQueue.GetWithPriority()
		if shutdown || q.begin(object, priority) {
			return object, priority, shutdown
		}
	}
}

// Get implements workqueue.TypedInterface.
func (q *fairQueue) Get() (object reconcile.Request, shutdown bool) {
	object, _, shutdown = q.GetWithPriority()
	return object, shutdown
}

// begin gives a worker to an object, or holds the object back.
func (q *fairQueue) begin(object reconcile.Request, priority int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, taken := q.working[object]
	if !taken {
		w.look = q.lookAt(object, priority)
		if !q.shares.admits(w.look) {
			q.held = append(q.held, heldBack{w.look, object, priority})
			return false
		}
		q.shares.take(w.look)
	}
	w.since = q.now()
	q.working[object] = w
	return true
}

// Done implements workqueue.TypedInterface.
func (q *fairQueue) Done(object reconcile.Request) {
	q.end(object)
	q.PriorityQueue.Done(object)
	q.resume()
}

func (q *fairQueue) end(object reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.working[object]
	delete(q.working, object)
	delete(q.slow, object)
	if q.now().Sub(w.since) >= slowAfter {
		q.slow[object] = true
	}
	q.shares.giveBack(w.look)
}

// resume enqueues the objects that were held back and now have their share. Each has its worker already.
func (q *fairQueue) resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := q.shares.next(q.held); i >= 0; i = q.shares.next(q.held) {
		h := q.held[i]
		q.held = slices.Delete(q.held, i, i+1)
		q.shares.take(h.look)
		q.working[h.object] = work{look: h.look}
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &h.priority}, h.object)
		q.PriorityQueue.Done(h.object)
	}
}
