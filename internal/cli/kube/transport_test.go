// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A request to a server that does not answer is canceled; a watch, which keeps the answer open, is not.
func TestAnswerTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watch" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		<-release
		_, _ = io.WriteString(w, "news")
	}))
	defer server.Close()
	client := &http.Client{Transport: timeoutTransport{http.DefaultTransport, 200 * time.Millisecond}}

	watch, err := client.Get(server.URL + "/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Body.Close() }()
	if answer, err := client.Get(server.URL + "/silent"); !errors.Is(err, errNoAnswer) {
		if err == nil {
			_ = answer.Body.Close()
		}
		t.Errorf("a server that does not answer: %v", err)
	}
	close(release)
	if news, err := io.ReadAll(watch.Body); err != nil || string(news) != "news" {
		t.Errorf("a watch is cut off: %q, %v", news, err)
	}
}
