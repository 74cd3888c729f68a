// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"crypto/tls"
	"sync"
	"time"
)

// idleTimeout is how long a connection that nobody uses is kept. A rollout looks at its members more often than
// that, and members that are gone are soon forgotten. Clusters that are well are looked at less often: a connection to
// each of their members, which takes tens of kilobytes, would be most of what an operator with many clusters needs.
const idleTimeout = 10 * time.Second

// maxIdle is how many connections are kept at most, whatever the number of clusters that are worked on.
const maxIdle = 256

// Pool is a Dialer that keeps connections to members that are asked again and again, so that looking at a cluster once
// more costs no handshakes. A connection that may be broken is not used again: the next request does not wait for it to
// come back.
type Pool struct {
	now func() time.Time

	mu   sync.Mutex
	idle map[target][]idler
	// kept is how many connections idle holds.
	kept int
	// asked is how often each member was asked for since turned, and before how often in the idleTimeout until then.
	asked, before map[target]int
	turned        time.Time
}

// target is what connections are interchangeable for.
type target struct {
	endpoint string
	tls      *tls.Config
}

type idler struct {
	connection *connection
	since      time.Time
}

// NewPool makes a Pool that holds no connection.
func NewPool(now func() time.Time) *Pool {
	return &Pool{now: now, idle: map[target][]idler{}, asked: map[target]int{}, turned: now()}
}

// Dial is Dialer's. Closing the client gives its connection back. TLS configurations are told apart by their
// address: another configuration never gets a connection that was made with this one.
func (p *Pool) Dial(endpoint string, tls *tls.Config) (Client, error) {
	to := target{endpoint, tls}
	c := p.take(to)
	if c == nil {
		var err error
		if c, err = connect(endpoint, tls); err != nil {
			return nil, err
		}
	}
	return &client{connection: c, giveBack: func(c *connection) error { return p.put(to, c) }}, nil
}

// take takes the connection that was used last; nil when there is none.
func (p *Pool) take(to target) *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	p.asked[to]++
	idle := p.idle[to]
	if len(idle) == 0 {
		return nil
	}
	last := len(idle) - 1
	p.drop(to, idle[:last])
	return idle[last].connection
}

func (p *Pool) put(to target, c *connection) error {
	if !c.isGood() {
		return c.close()
	}
	p.mu.Lock()
	if p.asked[to]+p.before[to] < 2 {
		p.mu.Unlock()
		return c.close()
	}
	p.idle[to] = append(p.idle[to], idler{connection: c, since: p.now()})
	p.kept++
	var surplus *connection
	if p.kept > maxIdle {
		surplus = p.takeOldest()
	}
	p.mu.Unlock()
	if surplus != nil {
		return surplus.close()
	}
	return nil
}

// takeOldest takes the connection that has been idle for longest. The caller holds the mutex.
func (p *Pool) takeOldest() *connection {
	var oldest target
	var since time.Time
	for to, idle := range p.idle {
		if since.IsZero() || idle[0].since.Before(since) {
			oldest, since = to, idle[0].since
		}
	}
	c := p.idle[oldest][0].connection
	p.drop(oldest, p.idle[oldest][1:])
	return c
}

// drop leaves but some of the connections to a target, of which one has gone. The caller holds the mutex.
func (p *Pool) drop(to target, left []idler) {
	p.kept--
	if p.idle[to] = left; len(left) == 0 {
		delete(p.idle, to)
	}
}

// expire closes what has been idle for too long, the oldest first, and forgets who was asked for. The caller holds the
// mutex.
func (p *Pool) expire() {
	if passed := p.now().Sub(p.turned); passed >= 2*idleTimeout {
		p.before, p.asked, p.turned = nil, map[target]int{}, p.now()
	} else if passed >= idleTimeout {
		p.before, p.asked, p.turned = p.asked, map[target]int{}, p.now()
	}
	for to, idle := range p.idle {
		for len(idle) > 0 && p.now().Sub(idle[0].since) >= idleTimeout {
			// Nothing depends on how a connection that is not needed any more ends.
			_ = idle[0].connection.close()
			idle = idle[1:]
			p.drop(to, idle)
		}
	}
}
