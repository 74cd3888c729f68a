// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

// agents makes a client of the agents of an Etcd: a connection is a pipe, and each request a call.
func (o *operator) agents(_ context.Context, etcd *v1alpha1.Etcd) (api.Client, error) {
	name := etcd.Name
	return api.Client{BaseURL: "http://" + name, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		who, _ := ctx.Value(whoKey{}).(string)
		near, far := net.Pipe()
		go o.serve(far, who+" asks agents", name)
		return near, nil
	}}, nil
}

// serve answers the request that comes by a connection; without an answer, that is cut.
func (o *operator) serve(conn net.Conn, who, etcd string) {
	defer conn.Close() //nolint:errcheck // it is a pipe
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	var answer *httptest.ResponseRecorder
	carried := o.world.Call(o.actor, who, request.Method+" "+request.URL.RequestURI(), func(release func()) {
		o.world.faults.askAgents(o, who, etcd, request, func(a *httptest.ResponseRecorder) {
			answer = a
			release()
		})
	})
	if carried && answer != nil {
		_ = answer.Result().Write(conn) // who asked has given up otherwise
	}
}

// askAgents carries a request to the agents of an Etcd out: that of the leader answers, after a while. An answer may be lost.
func (f *faults) askAgents(o *operator, who, etcd string, r *http.Request, answer func(*httptest.ResponseRecorder)) {
	w := o.world
	j := w.judges[slices.IndexFunc(w.judges, func(j *judge) bool { return j.name == etcd })]
	w.After(w.between(50, 3000), who, "", func() {
		leader, _ := j.leader()
		recorder := httptest.NewRecorder()
		switch {
		case o.dead || f.sight != nil || leader != nil && w.podOf(leader).node.silent():
			answer(nil)
			return
		case j.backups == nil:
			api.WriteError(recorder, http.StatusNotFound, api.CodeNoStore, "there is no store")
		case leader == nil:
			api.WriteError(recorder, http.StatusServiceUnavailable, api.CodeNoLeader, "no member leads")
		case f.storeless:
			api.WriteError(recorder, http.StatusInternalServerError, api.CodeSnapshotFailed, "the store does not answer")
		default:
			_, _ = recorder.Write(j.backups.answer(j, r)) // in memory
		}
		if f.random.IntN(1000) < f.rate {
			f.injected["answer of an agent lost"]++
			w.Log(who, "  fault: answer of an agent lost")
			recorder = nil
		}
		answer(recorder)
	})
}

// answer is what the agent of the leader says, in JSON.
func (b *backups) answer(j *judge, r *http.Request) []byte {
	leader, _ := j.leader()
	query := r.URL.Query()
	var said any
	switch r.URL.Path {
	case api.PathFull:
		said = b.take(leader.Disk, backup.Full, query.Get("final") == "true").Snapshot
	case api.PathDelta:
		if s := b.take(leader.Disk, backup.Delta, false); s != nil {
			said = s.Snapshot
		}
	case api.PathLatest:
		said, _ = backup.Newest(b.snapshots()) // without a snapshot, the chain is empty
	case api.PathKeep:
		if s := b.named(query.Get("name")); s != nil {
			s.Kept = true
			said = s.Snapshot
		}
	case api.PathHold:
		if s := b.named(query.Get("base")); s != nil {
			said = s.Snapshot
		}
	}
	text, err := json.Marshal(said)
	b.world.must(err)
	return text
}

// storeDown has the store not answer.
func (c *chaos) storeDown() func() { return c.set(&c.faults.storeless) }
