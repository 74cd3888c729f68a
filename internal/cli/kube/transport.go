// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// connectTimeout is how long the API server may take to accept a connection.
	connectTimeout = 10 * time.Second
	// answerTimeout is how long the first byte of an answer may take. A watch is answered at once, too.
	answerTimeout = 20 * time.Second
)

var errNoAnswer = errors.New("no answer within " + answerTimeout.String())

// withTimeouts limits how long a command waits for an API server that does not answer; kubectl has no limit. Warnings of
// the API server go to the error stream.
func withTimeouts(config *rest.Config, warnings io.Writer) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = 50, 100
	c.WarningHandlerWithContext = nil
	c.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return timeoutTransport{next, answerTimeout} })
	return c
}

// timeoutTransport cancels a request that is not answered in time.
type timeoutTransport struct {
	next    http.RoundTripper
	timeout time.Duration
}

func (t timeoutTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	var late atomic.Bool
	timer := time.AfterFunc(t.timeout, func() { late.Store(true); cancel() })
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	timer.Stop()
	if err != nil {
		cancel()
		if late.Load() {
			err = errNoAnswer
		}
		return nil, err
	}
	response.Body = &cancelingBody{response.Body, cancel}
	return response, nil
}

// cancelingBody releases the context of a request once the body of the answer is closed.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *cancelingBody) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}
