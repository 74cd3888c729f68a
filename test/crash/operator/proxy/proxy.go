// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package proxy stands between one operator and a real API server. At each write of the operator, a test decides what becomes of it: it is
// carried out, or not, and answered, or not, or the operator is killed, which no request survives. Watches can be held, kind by kind, and
// what a new cache begins with can be from an older revision.
package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Proxy is the API server as one operator sees it.
type Proxy struct {
	decide func(disturb.Write) disturb.Fate
	server *http.Server
	pass   *httputil.ReverseProxy
	config *rest.Config

	mu     sync.Mutex
	killed bool
	// held are the kinds whose watches deliver nothing; changed is closed when that changes.
	held    map[string]bool
	changed chan struct{}
	// past is the revision that lists of caches are served from, those of some kinds or of all; empty for the present.
	past   string
	pastOf []string
}

// Start starts a proxy before the API server of a configuration, which asks for the fate of each write.
func Start(server *rest.Config, decide func(disturb.Write) disturb.Fate) (*Proxy, error) {
	target, err := url.Parse(server.Host)
	if err != nil {
		return nil, fmt.Errorf("proxying the API server: %w", err)
	}
	transport, err := rest.TransportFor(server)
	if err != nil {
		return nil, fmt.Errorf("proxying the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxying the API server: %w", err)
	}
	p := &Proxy{decide: decide, changed: make(chan struct{})}
	p.pass = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.age(r.Out)
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			if isWatch(r.Request) {
				r.Body = &stream{ReadCloser: r.Body, proxy: p, ctx: r.Request.Context(), kind: parse(r.Request).kind}
			}
			return nil
		},
	}
	// Clients send JSON, so that the name of what they create can be read.
	p.config = &rest.Config{Host: "http://" + listener.Addr().String(), QPS: server.QPS, Burst: server.Burst, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Config is that of a client whose requests go through the proxy.
func (p *Proxy) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Close stops the proxy.
func (p *Proxy) Close() error {
	p.kill()
	return p.server.Close()
}

// Killed reports whether the operator was killed.
func (p *Proxy) Killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// kill lets no request through any more, nor answers or events of earlier ones.
func (p *Proxy) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	p.change()
}

func (p *Proxy) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Hold holds the watches of kinds, in the plural. Without kinds, everything is delivered again, in order.
func (p *Proxy) Hold(kinds ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = map[string]bool{}
	for _, k := range kinds {
		p.held[k] = true
	}
	p.change()
}

// FromThePast has lists that a cache may begin with served from an older revision, as an API server does that lags behind the others. Reads of
// the present are not affected: no API server answers those from the past. With kinds, in the plural, only lists of these are.
func (p *Proxy) FromThePast(revision string, kinds ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past, p.pastOf = revision, kinds
}

// isPast reports whether a list of a kind is from the past. The caller holds the lock.
func (p *Proxy) isPast(r *http.Request) bool {
	return p.past != "" && (len(p.pastOf) == 0 || slices.Contains(p.pastOf, parse(r).kind))
}

// Write decides about a write, and carries it out as it is fated. An error is that of do, or says that the operator does not hear of it.
func (p *Proxy) Write(w disturb.Write, do func() error) error {
	if p.Killed() {
		return disturb.ErrKilled
	}
	fate := p.decide(w)
	if fate == disturb.KilledBefore {
		p.kill()
	}
	if p.Killed() {
		return disturb.ErrKilled
	}
	if fate == disturb.NotSent {
		return errLost
	}
	err := do()
	switch fate {
	case disturb.KilledAfter:
		p.kill()
		return disturb.ErrKilled
	case disturb.AnswerLost:
		return errLost
	}
	return err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Killed() {
		panic(http.ErrAbortHandler)
	}
	request := parse(r)
	if !request.writes {
		if p.refusesStream(r) {
			refuse(w)
			return
		}
		p.pass.ServeHTTP(w, r)
		return
	}
	answer := &recorder{header: http.Header{}}
	err := p.Write(request.write(), func() error {
		// What has arrived is carried out, whatever becomes of the operator.
		p.pass.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		return nil
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	answer.copyTo(w)
}

// refusesStream reports whether a cache asks for its beginning as a stream, which would be of the present.
func (p *Proxy) refusesStream(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isPast(r) && r.URL.Query().Get("sendInitialEvents") == "true"
}

// refuse has a cache ask for a list instead.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "this API server has no streams of lists",
	})
}

// age changes a request for a list of any age into one for a list of the past.
func (p *Proxy) age(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	if !p.isPast(r) || r.Method != http.MethodGet || isWatch(r) || query.Get("resourceVersion") != "0" {
		return
	}
	query.Set("resourceVersion", p.past)
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	r.URL.RawQuery = query.Encode()
}

// isHeld reports whether events of a kind are held, and returns a channel that is closed when that may have changed.
func (p *Proxy) isHeld(kind string) (held, killed bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[kind], p.killed, p.changed
}

// stream is the events of a watch.
type stream struct {
	io.ReadCloser
	proxy *Proxy
	ctx   context.Context
	kind  string
}

// Read delivers nothing while the watch is held, and nothing more once the operator is killed.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	for {
		held, killed, changed := s.proxy.isHeld(s.kind)
		switch {
		case killed:
			return 0, disturb.ErrKilled
		case !held:
			return n, err
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
}
