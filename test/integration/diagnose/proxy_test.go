// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy passes connections on, late.
type proxy struct {
	net.Listener
	to string
	by time.Duration

	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func newProxy(t testing.TB, to string, by time.Duration) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, by: by}
	go p.serve()
	t.Cleanup(func() { _ = l.Close(); p.refuse() })
	return p
}

func (p *proxy) address() string { return p.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		if err != nil || p.cut {
			_ = in.Close()
		} else {
			p.open = append(p.open, in, out)
			go p.pass(out, in)
			go p.pass(in, out)
		}
		p.mu.Unlock()
	}
}

// refuse ends all connections, and lets none in.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for _, c := range p.open {
		_ = c.Close()
	}
}

// pass copies what arrives, each part as late as it was asked for.
func (p *proxy) pass(to io.WriteCloser, from io.Reader) {
	type part struct {
		data []byte
		at   time.Time
	}
	parts := make(chan part, 1<<12)
	go func() {
		defer close(parts)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				parts <- part{data[:n], time.Now().Add(p.by)}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range parts {
		pauseFor(time.Until(next.at))
		if _, err := to.Write(next.data); err != nil {
			break
		}
	}
	_ = to.Close()
	for range parts {
		// The reader must not wait for a writer that is gone.
		continue
	}
}
