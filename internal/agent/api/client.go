// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP API of the agents: its paths, its errors, and its client, which trusts no answer.
package api

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
)

// Paths of an agent's HTTP API.
const (
	PathFull   = "/snapshot/full"
	PathDelta  = "/snapshot/delta"
	PathLatest = "/snapshot/latest"
	PathHealth = "/healthz"
	// PathKeep marks a snapshot, by its name, so that retention does not remove it.
	PathKeep = "/snapshot/keep"
	// PathHold keeps what leads from a full snapshot, by its name, to a revision from retention, for a while; revision 0 is the full
	// snapshot alone.
	PathHold = "/snapshot/hold"
	// PathHotPrefixes is which prefixes of keys are written most.
	PathHotPrefixes = "/hot-prefixes"
)

// Client asks an agent for snapshots. Requests that change something are POSTs. Canceling a request does not cancel the
// snapshot: the agent answers the next request with the snapshot in progress.
//
// The client trusts no answer: anyone who can change a Service or its endpoints, or sits in between, can answer in place of an
// agent.
type Client struct {
	// BaseURL of the agent, such as http://etcd-main-client.shoot-a.svc:8080.
	BaseURL string
	// TLS verifies the agent; nil for plain HTTP.
	TLS *tls.Config
	// Authorize authenticates a request; nil for anonymous requests.
	Authorize func(*http.Request) error
	// Dial makes connections, through a port-forward for example; nil for the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeouts of a request.
	Timeouts Timeouts
}

// Full asks for a full snapshot.
func (c Client) Full(ctx context.Context, final bool) (backup.Snapshot, error) {
	var s backup.Snapshot
	err := c.ask(ctx, http.MethodPost, PathFull+"?final="+strconv.FormatBool(final), snapshotLimit, &s)
	return s, err
}

// Delta asks for a delta snapshot. It returns nil without an error if nothing has changed since the last one.
func (c Client) Delta(ctx context.Context) (*backup.Snapshot, error) {
	var s *backup.Snapshot
	err := c.ask(ctx, http.MethodPost, PathDelta, snapshotLimit, &s)
	return s, err
}

// Latest asks for the snapshots that a restore would use.
func (c Client) Latest(ctx context.Context) (backup.Chain, error) {
	var chain backup.Chain
	c.Timeouts.Header = min(c.Timeouts.header(), latestTimeout)
	err := c.ask(ctx, http.MethodGet, PathLatest, latestLimit, &chain)
	return chain, err
}

// Keep asks to mark a snapshot, so that retention never removes it.
func (c Client) Keep(ctx context.Context, name string) (backup.Snapshot, error) {
	var s backup.Snapshot
	c.Timeouts.Header = min(c.Timeouts.header(), latestTimeout)
	err := c.ask(ctx, http.MethodPost, PathKeep+"?name="+url.QueryEscape(name), snapshotLimit, &s)
	return s, err
}

// Hold asks to keep what leads from a full snapshot to a revision from retention, for backup.HoldFor.
func (c Client) Hold(ctx context.Context, base string, revision int64) (backup.Snapshot, error) {
	var s backup.Snapshot
	c.Timeouts.Header = min(c.Timeouts.header(), latestTimeout)
	query := url.Values{"base": {base}, "revision": {strconv.FormatInt(revision, 10)}}
	err := c.ask(ctx, http.MethodPost, PathHold+"?"+query.Encode(), snapshotLimit, &s)
	return s, err
}

// HotPrefixes asks which prefixes of keys were written most in the last minute or two, and which whole keys if withKeys is true.
func (c Client) HotPrefixes(ctx context.Context, withKeys bool) (hotprefix.Report, error) {
	var report hotprefix.Report
	c.Timeouts.Header = min(c.Timeouts.header(), latestTimeout)
	err := c.ask(ctx, http.MethodGet, PathHotPrefixes+"?keys="+strconv.FormatBool(withKeys), hotLimit, &report)
	return report, err
}

// Limits of what is read of an answer, in bytes.
const (
	// snapshotLimit is for one snapshot.
	snapshotLimit = 64 << 10
	// hotLimit is for the prefixes and keys of two turns.
	hotLimit = 512 << 10
	// latestLimit is for a full snapshot and its deltas: there is room for one every ten seconds, for two days.
	latestLimit = 8 << 20
)

// latestTimeout bounds the wait for a listing.
const latestTimeout = time.Minute

func (c Client) ask(ctx context.Context, method, path string, limit int64, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, nil)
	if err != nil {
		return fmt.Errorf("asking the agent: %w", err)
	}
	if c.Authorize != nil {
		if err := c.Authorize(request); err != nil {
			return fmt.Errorf("asking the agent: %w", err)
		}
	}
	response, err := c.httpClient().Do(request)
	if err != nil {
		return &requestError{WhyNoAnswer(err), err}
	}
	// Closing the body ends a read that never ends by itself.
	timer := time.AfterFunc(c.Timeouts.body(), func() { _ = response.Body.Close() })
	defer func() { timer.Stop(); _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return statusError(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return &requestError{fmt.Sprintf("its answer was cut off, or did not end within %s", c.Timeouts.body()), err}
	case int64(len(body)) > limit:
		return &requestError{fmt.Sprintf("its answer is longer than %d bytes", limit), nil}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &requestError{"this is not an answer of an agent", nil}
	}
	return nil
}
