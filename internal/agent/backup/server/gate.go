// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
)

const (
	// maxBody bounds the body of a request, in bytes. Requests have no body.
	maxBody = 1 << 10
	// maxWaiting is how many requests may wait for a snapshot or a listing at a time.
	maxWaiting = 64
	// patience is how long a request may wait for its snapshot: the longest deadline of a task.
	patience = 4 * time.Hour
	// writeTimeout bounds the writing of an answer.
	writeTimeout = 30 * time.Second
)

// gate authenticates requests and limits how many wait at a time.
type gate struct {
	Config
	waiting chan struct{}
}

// guard runs a handler for authenticated requests. Where authentication is off, GET and POST are the same.
func (g gate) guard(method string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		open, err := g.admit(r)
		switch {
		case err != nil:
			refuse(w, err)
			return
		case r.Method != method && (!open || r.Method != http.MethodGet && r.Method != http.MethodPost):
			w.Header().Set("Allow", method)
			api.WriteError(w, http.StatusMethodNotAllowed, api.CodeMethodNotAllowed, "use "+method)
			return
		}
		select {
		case g.waiting <- struct{}{}:
			defer func() { <-g.waiting }()
		default:
			api.WriteError(w, http.StatusTooManyRequests, api.CodeTooManyRequests, "too many requests are waiting for a snapshot")
			return
		}
		// The server's own timeout is for responses without a wait.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		handle(w, r)
	}
}

// refuse answers a request that is not authenticated.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	api.WriteError(w, http.StatusUnauthorized, api.CodeUnauthorized, err.Error())
}

// signed refuses what is not signed, also where authentication is off: the handler tells of keys, which are tenants' data.
func (g gate) signed(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := errors.New("this takes a request that the operator has signed")
		if g.Trust != nil {
			var trust auth.Trust
			if trust, err = g.Trust(); err == nil {
				err = trust.Verify(r, g.Clock.Now())
			}
		}
		if err != nil {
			refuse(w, err)
			return
		}
		handle(w, r)
	}
}

// admit returns an error if a request is refused; open reports whether authentication is off.
func (g gate) admit(r *http.Request) (open bool, err error) {
	if g.Trust == nil {
		return true, nil
	}
	trust, err := g.Trust()
	if err != nil || trust.AllowUnauthenticated {
		return err == nil, err
	}
	return false, trust.Verify(r, g.Clock.Now())
}

// Metrics serves metrics to clients with a certificate of the agents' CA, and to those with the token whose hash is in the
// Trust.
func Metrics(config Config, metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hasCertificate := r.TLS != nil && len(r.TLS.VerifiedChains) > 0
		if config.Trust != nil && !hasCertificate {
			trust, err := config.Trust()
			if err == nil {
				err = trust.VerifyScrape(r)
			}
			if err != nil {
				refuse(w, err)
				return
			}
		}
		metrics.ServeHTTP(w, r)
	})
}
