// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"crypto/tls"
	"sync"
	"time"
)

// idleTimeout is how long an unused connection is kept. A rollout asks its members more often than that, and members
// that are gone are soon forgotten. Clusters that are healthy are asked less often: a connection to each of their members,
// which takes tens of kilobytes, would be most of what an operator with many clusters needs.
const idleTimeout = 10 * time.Second

// maxIdle is how many unused connections are kept at most, whatever the number of clusters.
const maxIdle = 256

// Pool is a Dialer that keeps connections to members that are asked again and again, so that observing a cluster once more
// costs no handshakes. All who ask a member share its connection. One that broke is not used again.
type Pool struct {
	now func() time.Time

	mu sync.Mutex
	// connections are those that the next request may use.
	connections map[target]*pooled
	// asked is how often each member was asked for since turned, and before how often in the idleTimeout until then.
	asked, before map[target]int
	turned        time.Time
}

// target is what connections are interchangeable for.
type target struct {
	endpoint string
	tls      *tls.Config
}

type pooled struct {
	*connection
	users int
	// idleSince is when the last user was done.
	idleSince time.Time
}

// end closes a connection that is not needed any more. Nothing depends on how that ends, and the pool does not wait for it: gRPC waits for its
// own goroutines, and up to five seconds for a member that does not read.
func (c *pooled) end() { go func() { _ = c.close() }() }

// NewPool makes a Pool without connections.
func NewPool(now func() time.Time) *Pool {
	return &Pool{now: now, connections: map[target]*pooled{}, asked: map[target]int{}, turned: now()}
}

// Dial implements Dialer. TLS configurations are told apart by their address: another configuration never gets a connection
// that was made with this one.
func (p *Pool) Dial(endpoint string, tls *tls.Config) (Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	to := target{endpoint, tls}
	p.asked[to]++
	c := p.connections[to]
	if c == nil || !c.isReusable() {
		p.drop(to)
		made, err := connect(endpoint, tls)
		if err != nil {
			return nil, err
		}
		c = &pooled{connection: made}
		p.connections[to] = c
	}
	c.users++
	var once sync.Once
	return &client{connection: c.connection, giveBack: func(*connection) error {
		once.Do(func() { p.giveBack(to, c) })
		return nil
	}}, nil
}

// giveBack ends one use of a connection. After the last, it is kept for members that are asked often.
func (p *Pool) giveBack(to target, c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	c.idleSince = p.now()
	switch {
	case p.connections[to] != c:
		// It was replaced while it was in use.
		c.end()
	case p.asked[to]+p.before[to] < 2 || !c.isReusable():
		p.drop(to)
	default:
		p.dropSurplus()
	}
}

// drop has no further request use the connection to a target, if there is one. The last user closes it. The caller holds the
// mutex.
func (p *Pool) drop(to target) {
	c := p.connections[to]
	delete(p.connections, to)
	if c != nil && c.users == 0 {
		c.end()
	}
}

// dropSurplus drops the connection that has been unused for longest, if there are too many. The caller holds the mutex.
func (p *Pool) dropSurplus() {
	idle, oldest := 0, target{}
	for to, c := range p.connections {
		if c.users > 0 {
			continue
		}
		idle++
		if o := p.connections[oldest]; o == nil || c.idleSince.Before(o.idleSince) {
			oldest = to
		}
	}
	if idle > maxIdle {
		p.drop(oldest)
	}
}

// expire drops what has been unused for too long, and forgets who was asked for. The caller holds the mutex.
func (p *Pool) expire() {
	if passed := p.now().Sub(p.turned); passed >= 2*idleTimeout {
		p.before, p.asked, p.turned = nil, map[target]int{}, p.now()
	} else if passed >= idleTimeout {
		p.before, p.asked, p.turned = p.asked, map[target]int{}, p.now()
	}
	for to, c := range p.connections {
		if c.users == 0 && p.now().Sub(c.idleSince) >= idleTimeout {
			p.drop(to)
		}
	}
}
