// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// secret is the answer of a server that is no agent.
const secret = "hunter2"

// serve answers every request with a handler.
func serve(t *testing.T, handle http.HandlerFunc) Client {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return Client{BaseURL: s.URL}
}

// raw answers every connection with fixed bytes.
func raw(t *testing.T, answer string) Client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	return Client{BaseURL: "http://" + l.Addr().String()}
}

// An agent never redirects. A redirect could abuse the operator's network access.
func TestClientFollowsNoRedirect(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		g := NewWithT(t)
		var reached atomic.Int32
		elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
		client := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.BaseURL+"/"+secret, code) })
		_, err := client.Full(t.Context(), false)
		var status *StatusError
		g.Expect(errors.As(err, &status)).To(BeTrue(), "%v", err)
		g.Expect(status.Code).To(Equal(code))
		g.Expect(err.Error()).NotTo(ContainSubstring(secret))
		g.Expect(reached.Load()).To(BeZero())
	}
}

// Only errors of an agent are repeated: others would end in the status of a task, for everyone to read.
func TestClientEchoesNothing(t *testing.T) {
	text := func(code int, body string) func(*testing.T) Client {
		return func(t *testing.T) Client {
			return serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
			})
		}
	}
	for name, open := range map[string]func(*testing.T) Client{
		"an error of another server":     text(500, "password: "+secret),
		"an error of many bytes":         text(403, strings.Repeat(secret, 1<<20)),
		"an error with another code":     text(500, `{"error":{"code":"`+secret+`","message":"x"}}`),
		"an error with more than it has": text(500, `{"error":{"code":"SnapshotFailed","message":"`+secret+`"},"data":1}`),
		"a page":                         text(200, "<html>"+secret),
		"an invalid snapshot name":       text(200, `{"snapName":"`+secret+`"}`),
		"a number":                       text(200, `{"snapName":1234567890}`),
		"a snapshot of a bad prefix":     text(200, `{"snapName":"Full-00000000-00000042-1700000000","prefix":"a/../`+secret+`"}`),
		"a prefix that moves the cursor": text(200, `{"snapName":"Full-00000000-00000042-1700000000","prefix":"\u001b[2J`+secret+`"}`),
		"a prefix of many bytes":         text(200, `{"snapName":"Full-00000000-00000042-1700000000","prefix":"`+strings.Repeat(secret, 1000)+`"}`),
		"another protocol":               func(t *testing.T) Client { return raw(t, secret+"\r\n") },
		"an invalid header":              func(t *testing.T) Client { return raw(t, "HTTP/1.1 200 OK\r\n"+secret+"\r\n\r\n") },
		"a transfer encoding of its own": func(t *testing.T) Client { return raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "+secret+"\r\n\r\n") },
		"a status line of its own":       func(t *testing.T) Client { return raw(t, "HTTP/1.1 500 "+secret+"\r\nContent-Length: 0\r\n\r\n") },
		"a header of more than a megabyte": func(t *testing.T) Client {
			return raw(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat(secret, 1<<18)+"\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := open(t).Full(t.Context(), false)
			g.Expect(err).To(HaveOccurred())
			g.Expect(err.Error()).NotTo(Or(ContainSubstring(secret), ContainSubstring("1234567890")))
			g.Expect(len(err.Error())).To(BeNumerically("<", 512))
		})
	}
}

// The error of an agent is returned in one short line.
func TestClientReturnsTheAgentsError(t *testing.T) {
	g := NewWithT(t)
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		WriteError(w, http.StatusInternalServerError, CodeSnapshotFailed, "writing the store:\n\x1b[2J"+strings.Repeat("no ", 1<<18))
	})
	_, err := client.Full(t.Context(), false)
	var status *StatusError
	g.Expect(errors.As(err, &status)).To(BeTrue(), "%v", err)
	g.Expect(status.Reason).To(Equal(CodeSnapshotFailed))
	g.Expect(err).To(MatchError(And(ContainSubstring("writing the store:  [2Jno no"), HaveSuffix("…"))))
	g.Expect(len(err.Error())).To(BeNumerically("<", 1200))
}

// The client gives up on a slow or endless answer.
func TestClientTimesOut(t *testing.T) {
	// Only the timeout under test is short.
	const soon = 200 * time.Millisecond
	later := machine.Patience()
	for name, c := range map[string]struct {
		timeouts Timeouts
		handle   http.HandlerFunc
		says     string
	}{
		"no header": {Timeouts{Header: soon, Body: later}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer in time"},
		"an endless body": {Timeouts{Header: later, Body: soon}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "did not end within"},
		"an oversized body": {Timeouts{Header: later, Body: later}, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, "is longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			client := serve(t, c.handle)
			client.Timeouts = c.timeouts
			began := time.Now()
			_, err := client.Full(t.Context(), false)
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(time.Since(began)).To(BeNumerically("<", later))
		})
	}
}

// The error says why an agent was not reached, and callers can match it.
func TestClientReportsWhyAnAgentIsUnreachable(t *testing.T) {
	g := NewWithT(t)
	_, err := Client{BaseURL: "http://127.0.0.1:1"}.Delta(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))
	_, err = Client{BaseURL: "https" + strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}).BaseURL, "http")}.Delta(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("does not speak TLS")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Client{BaseURL: "http://127.0.0.1:1"}.Delta(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
}
