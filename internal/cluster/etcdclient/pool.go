// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"container/list"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// idleTimeout is how long an unused connection is kept. A rollout asks its members more often than that, and members
// that are gone are soon forgotten. Clusters that are healthy are asked less often: a connection to each of their members,
// which takes tens of kilobytes, would be most of what an operator with many clusters needs.
const idleTimeout = 10 * time.Second

// maxIdle is how many unused connections are kept at most, whatever the number of clusters.
const maxIdle = 256

// Pool is a Dialer that keeps connections to members that are asked again and again, so that observing a cluster once more
// costs no handshakes. All who ask a member share its connection. One that broke is not used again. Under its lock nothing is made, closed or
// searched for: every look at every cluster takes it.
type Pool struct {
	now func() time.Time

	mu sync.Mutex
	// connections are those that the next request may use, and idle the unused ones of them: the one that has been unused for longest first.
	connections map[target]*pooled
	idle        *list.List
	// asked is how often each member was asked for since turned, and before how often in the idleTimeout until then.
	asked, before map[target]int
	turned        time.Time
}

// target is what connections are interchangeable for.
type target struct {
	endpoint string
	tls      *tls.Config
}

// pooled is a connection that its first user makes, while the others wait for it.
type pooled struct {
	to   target
	make sync.Once
	// made is nil until then, and remains so if err is not nil.
	made atomic.Pointer[connection]
	err  error

	users int
	// idleSince is when the last user was done, and place where it is among the unused ones; nil while it is used.
	idleSince time.Time
	place     *list.Element
}

func (c *pooled) connection() (*connection, error) {
	c.make.Do(func() {
		var made *connection
		made, c.err = connect(c.to.endpoint, c.to.tls)
		c.made.Store(made)
	})
	return c.made.Load(), c.err
}

func (c *pooled) isReusable() bool {
	made := c.made.Load()
	return made == nil || made.isReusable()
}

// end closes a connection that is not needed any more. Nothing depends on how that ends, and the pool does not wait for it: gRPC waits for its
// own goroutines, and up to five seconds for a member that does not read.
func (c *pooled) end() {
	if made := c.made.Load(); made != nil {
		go func() { _ = made.close() }()
	}
}

// NewPool makes a Pool without connections.
func NewPool(now func() time.Time) *Pool {
	return &Pool{now: now, connections: map[target]*pooled{}, idle: list.New(), asked: map[target]int{}, turned: now()}
}

// Dial implements Dialer. TLS configurations are told apart by their address: another configuration never gets a connection
// that was made with this one.
func (p *Pool) Dial(endpoint string, tls *tls.Config) (Client, error) {
	c := p.take(target{endpoint, tls})
	var once sync.Once
	giveBack := func(*connection) error {
		once.Do(func() { p.giveBack(c) })
		return nil
	}
	made, err := c.connection()
	if err != nil {
		_ = giveBack(nil)
		return nil, err
	}
	return &client{connection: made, giveBack: giveBack}, nil
}

// take begins one use of the connection to a target.
func (p *Pool) take(to target) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	p.asked[to]++
	c := p.connections[to]
	if c == nil || !c.isReusable() {
		p.drop(c)
		c = &pooled{to: to}
		p.connections[to] = c
	}
	if c.users++; c.place != nil {
		p.idle.Remove(c.place)
		c.place = nil
	}
	return c
}

// giveBack ends one use of a connection. After the last, it is kept for members that are asked often.
func (p *Pool) giveBack(c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	switch {
	case p.connections[c.to] != c:
		// It was replaced while it was in use.
		c.end()
	case p.asked[c.to]+p.before[c.to] < 2 || c.made.Load() == nil || !c.isReusable():
		p.drop(c)
	default:
		c.idleSince, c.place = p.now(), p.idle.PushBack(c)
		if p.idle.Len() > maxIdle {
			p.drop(p.unusedLongest())
		}
	}
}

// drop has no further request use a connection, if it is one. Its last user closes it. The caller holds the mutex.
func (p *Pool) drop(c *pooled) {
	if c == nil {
		return
	}
	delete(p.connections, c.to)
	if c.place != nil {
		p.idle.Remove(c.place)
	}
	if c.users == 0 {
		c.end()
	}
}

// unusedLongest is nil while all connections are used. The caller holds the mutex.
func (p *Pool) unusedLongest() *pooled {
	if first := p.idle.Front(); first != nil {
		return first.Value.(*pooled)
	}
	return nil
}

// expire drops what has been unused for too long, and forgets who was asked for. The caller holds the mutex.
func (p *Pool) expire() {
	now := p.now()
	if passed := now.Sub(p.turned); passed >= 2*idleTimeout {
		p.before, p.asked, p.turned = nil, map[target]int{}, now
	} else if passed >= idleTimeout {
		p.before, p.asked, p.turned = p.asked, map[target]int{}, now
	}
	for c := p.unusedLongest(); c != nil && now.Sub(c.idleSince) >= idleTimeout; c = p.unusedLongest() {
		p.drop(c)
	}
}
