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
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"
	"k8s.io/client-go/rest"
)

const (
	// connectTimeout is how long the API server may take to accept a connection.
	connectTimeout = 10 * time.Second
	// answerTimeout is how long it may take to begin an answer. A watch is answered at once, too.
	answerTimeout = 20 * time.Second
)

var errSilent = errors.New("no answer within " + answerTimeout.String())

// patient bounds how long an API server that does not answer is waited for; kubectl's own bound is none at all.
// Warnings of the API server go to the error stream.
func patient(config *rest.Config, warnings io.Writer) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = 50, 100
	c.WarningHandlerWithContext = nil
	c.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next, answerTimeout} })
	return c
}

// bounded gives up on a request that is not answered in time.
type bounded struct {
	next    http.RoundTripper
	timeout time.Duration
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	var late atomic.Bool
	timer := time.AfterFunc(b.timeout, func() { late.Store(true); cancel() })
	response, err := b.next.RoundTrip(r.WithContext(ctx))
	timer.Stop()
	if err != nil {
		cancel()
		if late.Load() {
			err = errSilent
		}
		return nil, err
	}
	response.Body = &canceling{response.Body, cancel}
	return response, nil
}

// canceling releases the context of a request once its body is closed.
type canceling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *canceling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

// sizeOf is the size of the terminal that a stream goes to.
func sizeOf(stream io.Writer) (width, height int, ok bool) {
	file, isFile := stream.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return width, height, err == nil && width > 0
}

// WidthOf is the width of the terminal that a stream goes to; 0 where it is none.
func WidthOf(stream io.Writer) int {
	width, _, ok := sizeOf(stream)
	if !ok {
		return 0
	}
	return width
}
