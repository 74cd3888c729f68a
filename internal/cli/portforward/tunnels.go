// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // deprecated, and what package portforward takes
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tunnels are port-forwards to the pods of a cluster, one for each address, opened on demand, and again if they end: the API server that
// they pass may start again, and a container whose port refuses a connection ends its tunnel.
type tunnels struct {
	// dialer dials a pod's portforward subresource.
	dialer func(pod client.ObjectKey) (httpstream.Dialer, error)
	// pods are the pods by their IP addresses.
	pods map[string]client.ObjectKey

	mu        sync.Mutex
	byAddress map[string]*tunnel
	// lost is why the last tunnel to an address ended that had worked.
	lost map[string]error
}

// tunnel is the port-forward to one address.
type tunnel struct {
	ready chan struct{}
	local string
	err   error
	stop  chan struct{}
	// ended is when it ended; zero if it has not. The mutex of the tunnels guards it.
	ended time.Time
}

// pause is the time between two port-forwards to one address.
const pause = time.Second

func newTunnels(dialer func(client.ObjectKey) (httpstream.Dialer, error), pods map[string]client.ObjectKey) *tunnels {
	return &tunnels{dialer: dialer, pods: pods, byAddress: map[string]*tunnel{}, lost: map[string]error{}}
}

// connect connects to a member.
func (t *tunnels) connect(ctx context.Context, address string) (net.Conn, error) {
	tunnel, err := t.to(address)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-tunnel.ready:
	}
	if tunnel.err != nil {
		return nil, tunnel.err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", tunnel.local)
}

// open opens the tunnels to addresses in advance, so that opening them does not count towards the members' time to answer.
func (t *tunnels) open(ctx context.Context, addresses []string) {
	var all sync.WaitGroup
	for _, address := range addresses {
		all.Go(func() {
			if conn, err := t.connect(ctx, address); err == nil {
				_ = conn.Close()
			}
		})
	}
	all.Wait()
}

// failure returns why no tunnel could be opened; nil if one was.
func (t *tunnels) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last error
	for _, tunnel := range t.byAddress {
		if last = tunnel.opened(); last == nil {
			return nil
		}
	}
	return last
}

// opened returns why a tunnel could not be opened; nil if it was.
func (t *tunnel) opened() error {
	select {
	case <-t.ready:
		return t.err
	default:
		return errors.New("the port-forward takes too long")
	}
}

// whyNone returns why there is no tunnel to an address that was asked for; nil if there is one.
func (t *tunnels) whyNone(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("reading the address %s: %w", address, err)
	}
	if _, ok := t.pods[host]; !ok {
		return noPod(address)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tunnel := t.byAddress[address]; tunnel != nil {
		return tunnel.opened()
	}
	return nil
}

func noPod(address string) error { return fmt.Errorf("%s is the address of no member pod", address) }

func (t *tunnels) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// None is opened again.
	clear(t.lost)
	for _, tunnel := range t.byAddress {
		close(tunnel.stop)
	}
}

// to returns the tunnel to an address.
func (t *tunnels) to(address string) (*tunnel, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address %s: %w", address, err)
	}
	pod, ok := t.pods[host]
	if !ok {
		return nil, noPod(address)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.byAddress[address]; ok && (last.ended.IsZero() || t.lost[address] == nil || time.Since(last.ended) < pause) {
		return last, nil
	}
	next := &tunnel{ready: make(chan struct{}), stop: make(chan struct{})}
	t.byAddress[address] = next
	go func() {
		err := next.forward(t.dialer, pod, port)
		t.mu.Lock()
		defer t.mu.Unlock()
		if next.ended = time.Now(); err != nil && next.err == nil {
			t.lost[address] = err
		}
	}()
	return next, nil
}

// whyLost returns why a tunnel to an address ended that had worked; nil if none did.
func (t *tunnels) whyLost(address string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost[address]
}

// forward forwards until the tunnel is stopped, or returns why it ended. It closes ready once it is known whether forwarding works.
func (t *tunnel) forward(dial func(client.ObjectKey) (httpstream.Dialer, error), pod client.ObjectKey, port string) error {
	var once sync.Once
	settle := func(err error) { once.Do(func() { t.err = err; close(t.ready) }) }
	dialer, err := dial(pod)
	if err != nil {
		settle(err)
		return err
	}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + port}, t.stop, ready, io.Discard, io.Discard)
	if err != nil {
		err = fmt.Errorf("forwarding a port of pod %s: %w", pod, err)
		settle(err)
		return err
	}
	go func() {
		select {
		case <-ready:
			ports, err := forwarder.GetPorts()
			if err == nil {
				t.local = fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
			}
			settle(err)
		case <-t.ready:
		}
	}()
	if err = forwarder.ForwardPorts(); err != nil {
		err = fmt.Errorf("forwarding a port of pod %s: %w", pod, err)
		settle(err)
	}
	return err
}

// dialerTo dials a pod's portforward subresource: over a websocket, or over SPDY for API servers before 1.31.
func dialerTo(config *rest.Config, pod client.ObjectKey) (httpstream.Dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	u := (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path}).JoinPath("api", "v1", "namespaces", pod.Namespace, "pods", pod.Name, "portforward")
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a port-forward to pod %s: %w", pod, err)
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	newer, err := portforward.NewSPDYOverWebsocketDialer(u, config)
	if err != nil {
		return nil, fmt.Errorf("making a port-forward to pod %s: %w", pod, err)
	}
	return portforward.NewFallbackDialer(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
