// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package disturb

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

// Agent is the leading agent: it takes snapshots, and shows the newest. Its clock is that of the machine, ahead of every bubble.
type Agent struct {
	*httptest.Server
	mu    sync.Mutex
	chain backup.Chain
	count int
}

// NewAgent starts an agent; the caller closes it.
func NewAgent() *Agent {
	a := &Agent{}
	mux := http.NewServeMux()
	mux.HandleFunc(api.PathFull, func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.count++
		a.chain = backup.Chain{Full: &backup.Snapshot{
			Kind: backup.Full, LastRevision: int64(a.count), Created: time.Now().Truncate(time.Second), Final: r.URL.Query().Get("final") == "true",
		}}
		answer(w, a.chain.Full)
	})
	mux.HandleFunc(api.PathKeep, func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer(w, a.chain.Full)
	})
	mux.HandleFunc(api.PathHold, func(w http.ResponseWriter, r *http.Request) {
		held, _ := backup.ParseName(r.URL.Query().Get("base"))
		answer(w, held)
	})
	mux.HandleFunc(api.PathLatest, func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer(w, a.chain)
	})
	a.Server = httptest.NewServer(mux)
	return a
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

// Taken counts the snapshots.
func (a *Agent) Taken() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}
