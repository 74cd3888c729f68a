// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package server is the agent's HTTP API, with the paths, bodies and codes of Gardener's etcd-backup-restore.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Snapshots takes and lists snapshots: a *snapshotter.Snapshotter.
type Snapshots interface {
	Full(ctx context.Context, final bool) (backup.Snapshot, error)
	Delta(ctx context.Context) (*backup.Snapshot, error)
	Latest(ctx context.Context) (backup.Chain, error)
	Keep(ctx context.Context, name string) (backup.Snapshot, error)
	Hold(ctx context.Context, base string, revision int64) (backup.Snapshot, error)
	HotPrefixes(withKeys bool) hotprefix.Report
}

// Leader is the agent that takes the snapshots.
type Leader struct {
	// Self: this agent's member leads.
	Self bool
	// URL of the leading member's agent, when it is another.
	URL string
}

// Config of the API.
type Config struct {
	// Snapshots, or nil without a backup store.
	Snapshots Snapshots
	// Leader is called for each request. It returns an error if there is no healthy leader.
	Leader func(context.Context) (Leader, error)
	// Trust is called for each request; if it returns an error, the request is refused. A nil Trust switches
	// authentication off, for an operator that does not sign.
	Trust func() (auth.Trust, error)
	// Health returns nil if snapshots succeed.
	Health func() error
	// Clock by which a signature is verified.
	Clock clock.PassiveClock
	// Transport to the other agents; the default one when nil.
	Transport http.RoundTripper
	Log       logr.Logger
}

// forwarded marks a request that another agent has forwarded. It is not forwarded again: during a change of leader, two
// agents may each consider the other the leader.
const forwarded = "X-Etcd-Agent-Forwarded"

// maxReason bounds what is logged of an error, in bytes.
const maxReason = 1 << 10

// Handler serves the API. Requests for snapshots are authenticated; the health check is not.
func Handler(config Config) http.Handler {
	g := gate{Config: config, waiting: make(chan struct{}, maxWaiting)}
	mux := http.NewServeMux()
	mux.HandleFunc(api.PathFull, g.guard(http.MethodPost, config.onLeader(config.full)))
	mux.HandleFunc(api.PathDelta, g.guard(http.MethodPost, config.onLeader(config.delta)))
	mux.HandleFunc(api.PathLatest, g.guard(http.MethodGet, config.latest))
	mux.HandleFunc(api.PathKeep, g.guard(http.MethodPost, g.signed(config.onLeader(config.keep))))
	mux.HandleFunc(api.PathHold, g.guard(http.MethodPost, g.signed(config.onLeader(config.hold))))
	mux.HandleFunc(api.PathHotPrefixes, g.guard(http.MethodGet, g.signed(config.onLeader(config.hotPrefixes))))
	mux.HandleFunc(api.PathHealth, config.health)
	return http.MaxBytesHandler(mux, maxBody)
}

// onLeader runs a handler on the agent of the leader, forwarding the request if necessary.
func (c Config) onLeader(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c.Snapshots == nil {
			api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoStore, "there is no backup store")
			return
		}
		leader, err := c.Leader(r.Context())
		switch {
		case err != nil:
			api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoLeader, "there is no healthy leader: "+err.Error())
		case leader.Self:
			handle(w, r)
		case r.Header.Get(forwarded) != "":
			api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoLeader, "the leader is changing")
		default:
			c.forward(w, r, leader.URL)
		}
	}
}

func (c Config) forward(w http.ResponseWriter, r *http.Request, to string) {
	target, err := url.Parse(to)
	if err != nil {
		api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoLeader, "the address of the leader is not valid")
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			// Requests have no body.
			p.Out.Body, p.Out.ContentLength = http.NoBody, 0
			p.Out.Header.Set(forwarded, "true")
		},
		Transport: c.Transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			c.Log.Info("The agent of the leader is not answering", "leader", to, "reason", sanitize.Text(err.Error(), maxReason))
			api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoLeader, "the agent of the leader is not answering: "+api.WhyNoAnswer(err))
		},
	}
	proxy.ServeHTTP(w, r)
}

func (c Config) full(w http.ResponseWriter, r *http.Request) {
	final := false
	if value := r.URL.Query().Get("final"); value != "" {
		var err error
		if final, err = strconv.ParseBool(value); err != nil {
			api.WriteError(w, http.StatusBadRequest, api.CodeBadRequest, "final must be true or false")
			return
		}
	}
	snapshot, err := c.Snapshots.Full(r.Context(), final)
	c.answer(w, snapshot, err)
}

func (c Config) delta(w http.ResponseWriter, r *http.Request) {
	snapshot, err := c.Snapshots.Delta(r.Context())
	c.answer(w, snapshot, err)
}

// keep marks a snapshot, so that retention does not remove it. The leader does it: its agent removes snapshots.
func (c Config) keep(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if _, err := backup.ParseName(name); err != nil {
		api.WriteError(w, http.StatusBadRequest, api.CodeBadRequest, "name must be that of a snapshot")
		return
	}
	snapshot, err := c.Snapshots.Keep(r.Context(), name)
	c.answer(w, snapshot, err)
}

// hold keeps what a restore takes from retention, for a while. The leader does it, for the same reason.
func (c Config) hold(w http.ResponseWriter, r *http.Request) {
	base := r.URL.Query().Get("base")
	revision, err := strconv.ParseInt(r.URL.Query().Get("revision"), 10, 64)
	if _, named := backup.ParseName(base); named != nil || err != nil || revision < 0 {
		api.WriteError(w, http.StatusBadRequest, api.CodeBadRequest, "base must be the name of a snapshot, and revision a number")
		return
	}
	snapshot, err := c.Snapshots.Hold(r.Context(), base, revision)
	c.answer(w, snapshot, err)
}

// hotPrefixes is answered by the leader, whose agent collects deltas.
func (c Config) hotPrefixes(w http.ResponseWriter, r *http.Request) {
	withKeys := r.URL.Query().Get("keys") == "true"
	if withKeys {
		c.Log.Info("Whole keys are told to a client that signed with the operator's key")
	}
	c.answer(w, c.Snapshots.HotPrefixes(withKeys), nil)
}

// latest is answered by any agent: all of them read the same store.
func (c Config) latest(w http.ResponseWriter, r *http.Request) {
	if c.Snapshots == nil {
		api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoStore, "there is no backup store")
		return
	}
	chain, err := c.Snapshots.Latest(r.Context())
	if gap := (*backup.GapError)(nil); errors.Is(err, backup.ErrNoFull) || errors.As(err, &gap) {
		err = nil // an empty store, or a chain up to the gap
	}
	c.answer(w, chain, err)
}

func (c Config) health(w http.ResponseWriter, _ *http.Request) {
	err := c.Health()
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	c.write(w, map[string]bool{"health": err == nil})
}

func (c Config) answer(w http.ResponseWriter, body any, err error) {
	switch {
	case errors.Is(err, snapshotter.ErrNotRunning):
		api.WriteError(w, http.StatusMethodNotAllowed, api.CodeNoLeader, err.Error())
	case errors.Is(err, store.ErrGone):
		api.WriteError(w, http.StatusGone, api.CodeGone, err.Error())
	case err != nil:
		c.Log.Error(err, "Request failed")
		api.WriteError(w, http.StatusInternalServerError, api.CodeSnapshotFailed, err.Error())
	default:
		w.Header().Set("Content-Type", "application/json")
		c.write(w, body)
	}
}

func (c Config) write(w http.ResponseWriter, body any) {
	// The wait for the snapshot is over, and the response is short.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := json.NewEncoder(w).Encode(body); err != nil {
		c.Log.V(1).Info("The client has gone", "reason", err.Error())
	}
}
