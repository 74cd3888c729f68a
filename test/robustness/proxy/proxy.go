// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package proxy is an API server that misbehaves: it passes the operator's requests on to the real one, and can delay them,
// refuse them, lose answers of what was carried out, carry removals out late, and hold back the events of watches.
package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mischief is what the proxy does to requests.
type Mischief struct {
	// Delay of every request.
	Delay time.Duration
	// Refuse is a status code for a part of the requests, which are not carried out.
	Refuse int
	// Lose is whether the answers to a part of the writes are lost after they were carried out.
	Lose bool
	// Hold is whether watches deliver nothing, so that caches grow stale: those of one resource, or of all if that is empty, and
	// those of clients at some addresses, or of all if there are none.
	Hold bool
	Of   string
	From []string
	// Late is how much later every second removal of a pod is carried out, also if the operator has given up by then.
	Late time.Duration
	// Share is the part of the requests that are refused or whose answers are lost, in percent.
	Share int
}

// Proxy is a running proxy.
type Proxy struct {
	server *http.Server
	real   *httputil.ReverseProxy

	mutex    sync.Mutex
	mischief Mischief
	changed  chan struct{} // closed at each change of mischief
	random   *rand.Rand
	affected int
	removals int
}

// Options say where the proxy is.
type Options struct {
	// Address to listen at, and the URL of the API server.
	Address, Server string
	// CA of the API server, and the certificate and key to serve with: files.
	CA, Certificate, Key string
	Seed                 uint64
}

// Start starts a proxy that does nothing to requests.
func Start(o Options) (*Proxy, error) {
	p, err := newProxy(o)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("proxying the API server: %w", err)
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.ServeTLS(listener, o.Certificate, o.Key) }()
	return p, nil
}

func newProxy(o Options) (*Proxy, error) {
	server, err := url.Parse(o.Server)
	if err != nil {
		return nil, fmt.Errorf("proxying the API server: %w", err)
	}
	authority, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("proxying the API server: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	p := &Proxy{changed: make(chan struct{}), random: rand.New(rand.NewPCG(o.Seed, 9))}
	p.real = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" {
				r.Body = &stream{ReadCloser: r.Body, proxy: p, request: r.Request}
			}
			return nil
		},
	}
	return p, nil
}

// Close stops the proxy.
func (p *Proxy) Close() error { return p.server.Close() }

// Set sets what is done from now on. It returns how many requests were affected by what was done before.
func (p *Proxy) Set(m Mischief) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	close(p.changed)
	affected := p.affected
	p.mischief, p.changed, p.affected = m, make(chan struct{}), 0
	return affected
}

// now returns what is to be done to a request, and a channel that is closed when that changes.
func (p *Proxy) now() (m Mischief, hit bool, changed <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.mischief, p.random.IntN(100) < p.mischief.Share, p.changed
}

func (p *Proxy) affect() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.affected++
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, hit, _ := p.now()
	if m.Delay > 0 {
		p.affect()
		if !pause(r.Context(), m.Delay) {
			return
		}
	}
	write := r.Method != http.MethodGet && r.Method != http.MethodHead
	switch {
	case m.Refuse != 0 && hit:
		p.affect()
		refuse(w, m.Refuse)
	case m.Lose && hit && write:
		p.affect()
		p.real.ServeHTTP(&nobody{header: http.Header{}}, r.WithContext(context.WithoutCancel(r.Context())))
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case m.Late > 0 && isRemoval(r) && p.everySecond():
		p.late(w, r, m.Late)
	default:
		p.real.ServeHTTP(w, r)
	}
}

// isRemoval reports whether a request deletes or evicts a pod, and does not only ask whether it may.
func isRemoval(r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // api/v1/namespaces/NAMESPACE/pods/NAME[/eviction]
	return len(parts) >= 6 && parts[4] == "pods" &&
		(r.Method == http.MethodDelete && len(parts) == 6 || r.Method == http.MethodPost && len(parts) == 7 && parts[6] == "eviction" && !r.URL.Query().Has("dryRun"))
}

// everySecond reports whether the removal is the first, third, and so on: the one in between arrives at once.
func (p *Proxy) everySecond() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.removals++
	return p.removals%2 == 1
}

// late carries a request out later. It is on its way: nobody can take it back.
func (p *Proxy) late(w http.ResponseWriter, r *http.Request, delay time.Duration) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.affect()
	pause(context.WithoutCancel(r.Context()), delay)
	request := r.WithContext(context.WithoutCancel(r.Context()))
	request.Body = io.NopCloser(bytes.NewReader(body))
	p.real.ServeHTTP(struct{ http.ResponseWriter }{w}, request) // without CloseNotify, which would take it back
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, code int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: "refused by the robustness test",
	})
}

// nobody swallows an answer.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (n *nobody) WriteHeader(int)             {}

// stream is the events of a watch.
type stream struct {
	io.ReadCloser
	proxy   *Proxy
	request *http.Request
}

// holds reports whether the events of a watch are held back.
func (m Mischief) holds(watch *http.Request) bool {
	host, _, _ := net.SplitHostPort(watch.RemoteAddr)
	return m.Hold && (m.Of == "" || m.Of == path.Base(watch.URL.Path)) && (len(m.From) == 0 || slices.Contains(m.From, host))
}

// Read delivers nothing while the watch is held.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	for held := false; ; held = true {
		m, _, changed := s.proxy.now()
		if !m.holds(s.request) {
			return n, err
		}
		if !held {
			s.proxy.affect()
		}
		select {
		case <-changed:
		case <-s.request.Context().Done():
			return n, errors.Join(err, s.request.Context().Err())
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
