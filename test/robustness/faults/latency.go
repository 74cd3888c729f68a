// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"golang.org/x/sys/unix"
)

// late is a port of a member whose answers are late.
type late struct {
	port, proxy int
	// of are those whose questions are answered late, for nft; everybody's if empty.
	of string
	by time.Duration
}

// lateAnswers are those to a member's clients but the test's own, and those to the kubelet's probes, which time out after five
// seconds. Peers are not affected, so the member serves as well as before.
var lateAnswers = []late{
	{port: 2379, proxy: 12379, of: "ip saddr != " + nodeIP, by: 400 * time.Millisecond},
	{port: 9095, proxy: 19095, by: 6 * time.Second},
}

// latePeers is what a member says to its peers: they connect to it, and it sends the messages of raft as an answer that has
// no end. The delay is below the election timeout of one second, and above the interval of heartbeats.
var latePeers = []late{{port: 2380, proxy: 12380, by: 300 * time.Millisecond}}

func answersLate() []Kind {
	const byLatency = "proxies before members"
	return []Kind{
		{Name: "member answers late and fails its probes", Longest: 90 * time.Second, by: byLatency, choose: anyMember, inject: delayAnswers(lateAnswers)},
		{Name: "all members answer late and fail their probes", Longest: 90 * time.Second, by: byLatency, choose: allMembers, inject: delayAnswers(lateAnswers)},
		{Name: "messages of a member to the others are late", Longest: 60 * time.Second, by: byLatency, choose: anyMember, inject: delayAnswers(latePeers)},
		{Name: "messages between members are late", Longest: 60 * time.Second, by: byLatency, choose: allMembers, inject: delayAnswers(latePeers)},
	}
}

func delayAnswers(ports []late) func(context.Context, *Machine, target) (heal, error) {
	return func(ctx context.Context, m *Machine, t target) (heal, error) {
		return m.delay(ctx, t.members, ports)
	}
}

// delay delays the answers of members, also of pods that come meanwhile.
func (m *Machine) delay(ctx context.Context, members []string, ports []late) (heal, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var answers atomic.Int64
	var all sync.WaitGroup
	for _, member := range members {
		all.Go(func() {
			var of node.Process
			undo := func() {}
			for ctx.Err() == nil {
				if p, err := m.process(ctx, member); err == nil && p != of {
					undo()
					if undo, err = delayOne(ctx, p, ports, &answers); err == nil {
						of = p
					} else {
						undo = func() {}
					}
				}
				wait(ctx, 200*time.Millisecond)
			}
			undo()
		})
	}
	begun := time.Now()
	return func(context.Context) (string, error) {
		cancel()
		all.Wait()
		if answers.Load() < int64(time.Since(begun).Seconds()) {
			return "", nil
		}
		return fmt.Sprintf("%d parts of answers were late", answers.Load()), nil
	}, nil
}

// delayOne leads what arrives at a pod's ports through proxies in the pod's network, until it is undone. Connections that
// exist are reset, then and at the end, so that all go through the proxies meanwhile, and none afterwards.
func delayOne(ctx context.Context, p node.Process, ports []late, answers *atomic.Int64) (undo func(), err error) {
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.PID()))
	if err != nil {
		return nil, err
	}
	const table = "robustness-late"
	proxied := &connections{}
	closers := []io.Closer{network}
	undo = func() {
		_ = inNetwork(network, func() error { return nft(context.WithoutCancel(ctx), "delete table ip "+table+"\n") })
		for _, c := range append(closers, proxied) {
			_ = c.Close()
		}
	}
	var redirect, reset strings.Builder
	for _, l := range ports {
		to := fmt.Sprintf("    iifname eth0 %s tcp dport %d", l.of, l.port)
		fmt.Fprintf(&redirect, "%s redirect to :%d\n", to, l.proxy)
		fmt.Fprintf(&reset, "%s reject with tcp reset\n", to) // what is redirected has another port there
		var listener net.Listener
		err := inNetwork(network, func() (err error) {
			listener, err = net.Listen("tcp4", fmt.Sprintf(":%d", l.proxy))
			return err
		})
		if err != nil {
			undo()
			return nil, err
		}
		closers = append(closers, listener)
		go serve(listener, network, fmt.Sprintf("127.0.0.1:%d", l.port), l.by, answers, proxied)
	}
	script := fmt.Sprintf("table ip %s {\n  chain late {\n    type nat hook prerouting priority -100;\n%s  }\n  chain earlier {\n    type filter hook input priority 0;\n%s  }\n}\n",
		table, redirect.String(), reset.String())
	if err := inNetwork(network, func() error { return nft(ctx, script) }); err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// inNetwork runs something in another network namespace: on a thread that ends with it.
func inNetwork(network *os.File, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// connections are those that are open, and are closed together.
type connections struct {
	mutex  sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// hold remembers a connection until it is let go; false if all are closed already.
func (c *connections) hold(conn net.Conn) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open == nil {
		c.open = map[net.Conn]bool{}
	}
	c.open[conn] = true
	return !c.closed
}

func (c *connections) letGo(conn net.Conn) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.open, conn)
	_ = conn.Close()
}

// Close closes all.
func (c *connections) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close()
	}
	return nil
}

// serve proxies connections until the listener is closed.
func serve(listener net.Listener, network *os.File, to string, delay time.Duration, answers *atomic.Int64, proxied *connections) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer proxied.letGo(client)
			if !proxied.hold(client) {
				return
			}
			var server net.Conn
			err := inNetwork(network, func() (err error) {
				server, err = net.DialTimeout("tcp4", to, time.Second)
				return err
			})
			if err != nil {
				return
			}
			defer proxied.letGo(server)
			if !proxied.hold(server) {
				return
			}
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			delayed(client, server, delay, answers)
		}()
	}
}

// delayed passes on what a server says, each part later by the delay.
func delayed(client io.Writer, server io.Reader, delay time.Duration, answers *atomic.Int64) {
	type part struct {
		data []byte
		due  time.Time
	}
	parts := make(chan part, 1024)
	go func() {
		defer close(parts)
		for {
			data := make([]byte, 1<<14)
			n, err := server.Read(data)
			if n > 0 {
				parts <- part{data[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for p := range parts {
		<-time.After(time.Until(p.due))
		if failed {
			continue // until the reader has ended
		}
		_, err := client.Write(p.data)
		failed = err != nil
		answers.Add(1)
	}
}
