// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package delay lets the answers of a pod be late: proxies in its network pass on what its processes say, later.
package delay

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults/nft"
	"golang.org/x/sys/unix"
)

// Port is a port of a pod whose answers are late, and the one of its proxy.
type Port struct {
	Port, Proxy int
	// Of are those whose questions are answered late, for nft; everybody's if empty.
	Of string
	By time.Duration
}

// Answers leads what arrives at ports of a process's pod through proxies in the pod's network, until it is undone, and calls
// something with the port for each part of an answer that is late. Connections that exist are reset, then and at the end, so that
// all go through the proxies meanwhile, and none afterwards.
func Answers(ctx context.Context, p node.Process, ports []Port, late func(port int)) (undo func(), err error) {
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.PID()))
	if err != nil {
		return nil, err
	}
	const table = "robustness-late"
	proxied := &connections{}
	closers := []io.Closer{network}
	undo = func() {
		_ = inNetwork(network, func() error { return nft.Run(context.WithoutCancel(ctx), "delete table ip "+table+"\n") })
		for _, c := range append(closers, proxied) {
			_ = c.Close()
		}
	}
	var redirect, reset strings.Builder
	for _, l := range ports {
		to := fmt.Sprintf("    iifname eth0 %s tcp dport %d", l.Of, l.Port)
		fmt.Fprintf(&redirect, "%s redirect to :%d\n", to, l.Proxy)
		fmt.Fprintf(&reset, "%s reject with tcp reset\n", to) // what is redirected has another port there
		var listener net.Listener
		err := inNetwork(network, func() (err error) {
			listener, err = net.Listen("tcp4", fmt.Sprintf(":%d", l.Proxy))
			return err
		})
		if err != nil {
			undo()
			return nil, err
		}
		closers = append(closers, listener)
		go serve(listener, network, fmt.Sprintf("127.0.0.1:%d", l.Port), l.By, func() { late(l.Port) }, proxied)
	}
	script := fmt.Sprintf("table ip %s {\n  chain late {\n    type nat hook prerouting priority -100;\n%s  }\n  chain earlier {\n    type filter hook input priority 0;\n%s  }\n}\n",
		table, redirect.String(), reset.String())
	if err := inNetwork(network, func() error { return nft.Run(ctx, script) }); err != nil {
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
func serve(listener net.Listener, network *os.File, to string, by time.Duration, late func(), proxied *connections) {
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
			delayed(client, server, by, late)
		}()
	}
}

// delayed passes on what a server says, each part later by the delay.
func delayed(client io.Writer, server io.Reader, by time.Duration, late func()) {
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
				parts <- part{data[:n], time.Now().Add(by)}
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
		late()
	}
}
