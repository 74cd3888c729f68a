// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// fake answers with what it was given.
type fake struct {
	full  backup.Snapshot
	delta *backup.Snapshot
	chain backup.Chain
	err   error
}

func (f fake) Full(_ context.Context, final bool) (backup.Snapshot, error) {
	s := f.full
	s.Final = final
	return s, f.err
}
func (f fake) Delta(context.Context) (*backup.Snapshot, error) { return f.delta, f.err }
func (f fake) Latest(context.Context) (backup.Chain, error)    { return f.chain, f.err }
func (f fake) Keep(_ context.Context, name string) (backup.Snapshot, error) {
	s, err := backup.ParseName(name)
	s.Kept = true
	return s, errors.Join(err, f.err)
}
func (f fake) Hold(_ context.Context, base string, _ int64) (backup.Snapshot, error) {
	return f.Keep(context.Background(), base)
}
func (f fake) HotPrefixes(withKeys bool) hotprefix.Report {
	if withKeys {
		return hotprefix.Report{Keys: []hotprefix.Prefix{{Prefix: "/registry/pods/default/a", Events: 12, Bytes: 34}}}
	}
	return hotprefix.Report{Events: 12, Bytes: 34, Prefixes: []hotprefix.Prefix{{Prefix: "/registry/pods/…", Events: 12, Bytes: 34}}}
}

var full = backup.Snapshot{Kind: backup.Full, LastRevision: 42, Created: time.Unix(1_700_000_000, 0).UTC(), Compression: backup.Gzip}

func self(context.Context) (Leader, error) { return Leader{Self: true}, nil }

func serve(t *testing.T, c Config) string {
	c.Log = logr.Discard()
	if c.Health == nil {
		c.Health = func() error { return nil }
	}
	s := httptest.NewServer(Handler(c))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAnswers(t *testing.T) {
	failed := errors.New("the store cannot be reached")
	chain := backup.Chain{Full: &full, Deltas: []backup.Snapshot{}}
	for _, tc := range []struct {
		name   string
		config Config
		path   string
		code   int
		body   string // JSON that is contained, or a part of the text
	}{
		{"full", Config{Snapshots: fake{full: full}, Leader: self}, "/snapshot/full", 200, "Full-00000000-00000042-1700000000.gz\""},
		{"final", Config{Snapshots: fake{full: full}, Leader: self}, "/snapshot/full?final=true", 200, ".gz.final\""},
		{"bad final", Config{Snapshots: fake{full: full}, Leader: self}, "/snapshot/full?final=maybe", 400, "true or false"},
		{"delta of nothing", Config{Snapshots: fake{}, Leader: self}, "/snapshot/delta", 200, "null\n"},
		{"failure", Config{Snapshots: fake{err: failed}, Leader: self}, "/snapshot/full", 500, "cannot be reached"},
		{"gone", Config{Snapshots: fake{err: fmt.Errorf("the bucket %w: no base", store.ErrGone)}, Leader: self}, "/snapshot/full", 410, "\"Gone\",\"message\":\"the bucket does not have"},
		{"no backup store", Config{Leader: self}, "/snapshot/delta", 405, "no backup store"},
		{"no store to list", Config{Leader: self}, "/snapshot/latest", 405, "no backup store"},
		{"no leader", Config{Snapshots: fake{}, Leader: func(context.Context) (Leader, error) { return Leader{}, failed }}, "/snapshot/full", 405, "no healthy leader"},
		{"the leader is gone", Config{Snapshots: fake{err: snapshotter.ErrNotRunning}, Leader: self}, "/snapshot/full", 405, "is not the leader"},
		{"its agent does not answer", Config{Snapshots: fake{}, Leader: func(context.Context) (Leader, error) { return Leader{URL: "http://127.0.0.1:1"}, nil }}, "/snapshot/full", 405, "is not answering"},
		{"its agent has no valid address", Config{Snapshots: fake{}, Leader: func(context.Context) (Leader, error) { return Leader{URL: "http://[::1"}, nil }}, "/snapshot/full", 405, "the address of the leader is not valid"},
		{"latest", Config{Snapshots: fake{chain: chain}, Leader: self}, "/snapshot/latest", 200, `"deltaSnapshots":[]`},
		{"empty store", Config{Snapshots: fake{chain: backup.Chain{Deltas: []backup.Snapshot{}}, err: backup.ErrNoFull}, Leader: self}, "/snapshot/latest", 200, `{"fullSnapshot":null,"deltaSnapshots":[]}`},
		{"store with a gap", Config{Snapshots: fake{chain: chain, err: &backup.GapError{}}, Leader: self}, "/snapshot/latest", 200, `"lastRevision":42`},
		{"healthy", Config{}, "/healthz", 200, `{"health":true}`},
		{"ill", Config{Health: func() error { return failed }}, "/healthz", 503, `{"health":false}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			url := serve(t, tc.config)
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				request, err := http.NewRequestWithContext(t.Context(), method, url+tc.path, nil)
				g.Expect(err).NotTo(HaveOccurred())
				response, err := http.DefaultClient.Do(request)
				g.Expect(err).NotTo(HaveOccurred())
				body, err := io.ReadAll(response.Body)
				g.Expect(errors.Join(err, response.Body.Close())).To(Succeed())
				g.Expect(response.StatusCode).To(Equal(tc.code))
				g.Expect(string(body)).To(ContainSubstring(tc.body))
				if tc.code == http.StatusOK {
					g.Expect(json.Valid(body)).To(BeTrue())
				}
			}
		})
	}
}

// A follower forwards a request to the leader. Two agents that each consider the other the leader do not forward it forever.
func TestForwarding(t *testing.T) {
	g := NewWithT(t)
	leader := serve(t, Config{Snapshots: fake{full: full}, Leader: self})
	follower := serve(t, Config{Snapshots: fake{err: errors.New("not here")}, Leader: func(context.Context) (Leader, error) { return Leader{URL: leader}, nil }})
	got, err := api.Client{BaseURL: follower}.Full(t.Context(), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Name()).To(Equal("Full-00000000-00000042-1700000000.gz.final"))

	var other string
	first := serve(t, Config{Snapshots: fake{}, Leader: func(context.Context) (Leader, error) { return Leader{URL: other}, nil }})
	other = serve(t, Config{Snapshots: fake{}, Leader: func(context.Context) (Leader, error) { return Leader{URL: first}, nil }})
	_, err = api.Client{BaseURL: first + "/"}.Delta(t.Context())
	var status *api.StatusError
	g.Expect(errors.As(err, &status)).To(BeTrue(), "%v", err)
	g.Expect(status.Code).To(Equal(http.StatusMethodNotAllowed))
	g.Expect(status.Message).To(ContainSubstring("leader is changing"))
}

func TestClient(t *testing.T) {
	g := NewWithT(t)
	client := api.Client{BaseURL: serve(t, Config{Snapshots: fake{chain: backup.Chain{Full: &full}}, Leader: self})}
	nothing, err := client.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nothing).To(BeNil())
	chain, err := client.Latest(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chain.Full).To(HaveValue(Equal(full)))
	_, err = api.Client{BaseURL: "http://127.0.0.1:1"}.Full(t.Context(), false)
	g.Expect(err).To(HaveOccurred())
}
