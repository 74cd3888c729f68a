// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"time"
)

// The API server shows no certificate by default, so any client that reaches the webhook can send a request. Its cost is bounded before it is
// read.
const (
	// maxBody has a StatefulSet twice, with room for the annotations and managed fields of others.
	maxBody = 1 << 20
	// maxAtOnce bounds the requests that are in memory; others wait.
	maxAtOnce = 8
	// maxRead is how long a request may take to arrive. The API server's timeout is not longer.
	maxRead = 3 * time.Second
)

// Bounded serves at most maxAtOnce requests at a time, of at most maxBody bytes. What it refuses, the API server ignores, as
// the failurePolicy of the webhook says.
func Bounded(next http.Handler) http.Handler { return bounded(next, maxRead) }

func bounded(next http.Handler, maxRead time.Duration) http.Handler {
	turns := make(chan struct{}, maxAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
			return
		}
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-time.After(maxRead):
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			return
		case <-r.Context().Done():
			return
		}
		// A sender that is slow would keep the turn of others.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxRead))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}
