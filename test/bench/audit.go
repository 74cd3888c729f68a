// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// operatorUser is the user whose requests are counted.
const operatorUser = "system:serviceaccount:etcd-foreman-system:etcd-foreman"

const (
	// quiet is how long the operator must send no request to count as done.
	quiet = 2 * time.Second
	// quietTimeout is how long that may take.
	quietTimeout = 20 * time.Second
)

// request is a kind of request: a verb and a resource with its subresource.
type request struct{ Verb, Resource string }

// requests are numbers of requests.
type requests map[request]int

func (r requests) total() int {
	n := 0
	for _, count := range r {
		n += count
	}
	return n
}

// writes returns the requests that change something.
func (r requests) writes() requests {
	writes := requests{}
	for request, n := range r {
		switch request.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			writes[request] = n
		}
	}
	return writes
}

// audit reads the API server's audit log from its end at the time of opening.
type audit struct {
	path      string
	namespace string // of the requests that are counted
	offset    int64
}

func (b *bench) openAudit(namespace string) (*audit, error) {
	info, err := os.Stat(b.stage.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("finding the API server's audit log: %w", err)
	}
	return &audit{path: b.stage.AuditLog(), namespace: namespace, offset: info.Size()}, nil
}

// untilQuiet waits until the operator has sent no request for a while, and returns all its requests.
func (a *audit) untilQuiet(ctx context.Context) (requests, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, quietTimeout, fmt.Errorf("the operator still sends requests %s after the rollout", quietTimeout))
	defer cancel()
	ticker := time.NewTicker(quiet)
	defer ticker.Stop()
	all, err := a.read()
	for err == nil {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("counting the operator's requests: %w", context.Cause(ctx))
		case <-ticker.C:
		}
		before := all.total()
		if all, err = a.read(); err == nil && all.total() == before {
			return all, nil
		}
	}
	return nil, err
}

// read counts all requests since the log was opened.
func (a *audit) read() (requests, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the API server's audit log: %w", err)
	}
	return countRequests(file, a.namespace)
}

// countRequests counts the operator's requests for objects in a namespace. Leases and events are left out:
// leader election continues anyway, and events are bounded by the API server. So are watches, which the cache renews
// regardless of a rollout.
func countRequests(log io.Reader, namespace string) (requests, error) {
	counted := requests{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // what follows the last line break is being written
			return counted, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the API server's audit log: %w", err)
		}
		var entry struct {
			Stage, Verb string
			User        struct{ Username string }
			ObjectRef   struct{ Resource, Subresource, Namespace string }
		}
		if err := json.Unmarshal(bytes.TrimSpace(line), &entry); err != nil {
			return nil, fmt.Errorf("decoding a line of the API server's audit log: %w", err)
		}
		object := entry.ObjectRef
		if entry.Stage != "ResponseComplete" || entry.User.Username != operatorUser || entry.Verb == "watch" ||
			object.Namespace != namespace || object.Resource == "leases" || object.Resource == "events" {
			continue
		}
		if object.Subresource != "" {
			object.Resource += "/" + object.Subresource
		}
		counted[request{entry.Verb, object.Resource}]++
	}
}
