// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	agent "github.com/etcd-foreman/etcd-foreman/internal/agent/backup/server"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// Only the operator can request snapshots, so no other client can make the agent remove backups.
func TestUnauthorizedClientsRemoveNoBackups(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e, s := startEtcd(t, filepath.Join(t.TempDir(), "data")), folder(t)
	r := run(t, e, s, options())
	r.begin(g)
	before, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
	served := httptest.NewServer(agent.Handler(agent.Config{
		Snapshots: r, Log: logOf(t), Clock: clock.RealClock{},
		Leader: func(context.Context) (agent.Leader, error) { return agent.Leader{Self: true}, nil },
		Trust: func() (auth.Trust, error) {
			return auth.Trust{Audience: "uid", PublicKey: key.Public().(ed25519.PublicKey)}, nil
		},
	}))
	t.Cleanup(served.Close)
	for range 7 {
		response, err := http.Get(served.URL + api.PathFull)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
	}
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(Equal(before))

	sign := func(r *http.Request) error { return auth.Sign(key, "uid", r, time.Now()) }
	second, err := api.Client{BaseURL: served.URL, Authorize: sign}.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second.Created).To(BeTemporally(">", before[len(before)-1].Created))
	chain, err := api.Client{BaseURL: served.URL, Authorize: sign}.Latest(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chain.Full.Name()).To(Equal(second.Name()))
}
