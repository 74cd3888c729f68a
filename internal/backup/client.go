// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Paths of an agent's HTTP API.
const (
	PathFull   = "/snapshot/full"
	PathDelta  = "/snapshot/delta"
	PathLatest = "/snapshot/latest"
	PathHealth = "/healthz"
)

// Client asks an agent for snapshots. Either GET or POST is understood there; it posts what changes something.
// A request that is canceled does not cancel the snapshot: asked again, the agent answers with the one that it
// is taking.
type Client struct {
	// BaseURL of the agent, such as http://etcd-main-client.shoot-a.svc:8080.
	BaseURL string
	// HTTP client; the default one when nil. Its timeout has to be long: a snapshot is answered when it is done.
	HTTP *http.Client
}

// StatusError is an answer that is no success.
type StatusError struct {
	// Code is 405 when there is no store or no healthy leader, and 500 when the snapshot failed.
	Code int
	// Message for people.
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the agent answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// Full asks for a full snapshot.
func (c Client) Full(ctx context.Context, final bool) (Snapshot, error) {
	var s Snapshot
	err := c.ask(ctx, http.MethodPost, PathFull+"?final="+strconv.FormatBool(final), &s)
	return s, err
}

// Delta asks for a delta snapshot. Nil without an error says that nothing has happened since the last one.
func (c Client) Delta(ctx context.Context) (*Snapshot, error) {
	var s *Snapshot
	err := c.ask(ctx, http.MethodPost, PathDelta, &s)
	return s, err
}

// Latest asks which snapshots a restore would use.
func (c Client) Latest(ctx context.Context) (Chain, error) {
	var chain Chain
	err := c.ask(ctx, http.MethodGet, PathLatest, &chain)
	return chain, err
}

// answerLimit bounds what is read of an answer; a list of deltas is the longest one.
const answerLimit = 16 << 20

func (c Client) ask(ctx context.Context, method, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, nil)
	if err != nil {
		return fmt.Errorf("asking the agent: %w", err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the agent: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("reading the agent's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return &StatusError{Code: response.StatusCode, Message: string(bytes.TrimSpace(body))}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the agent's answer: %w", err)
	}
	return nil
}
