// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
)

// leaseServer is an API server that has the lease of full snapshots, and takes patches of its annotations.
func leaseServer(t *testing.T) *rest.Config {
	lease := coordinationv1.Lease{}
	lease.APIVersion, lease.Kind, lease.Name, lease.Annotations = "coordination.k8s.io/v1", "Lease", "full", map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var change coordinationv1.Lease
		if r.Method == http.MethodPatch && json.NewDecoder(r.Body).Decode(&change) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		maps.Copy(lease.Annotations, change.Annotations)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(lease)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// The agents of a recovered cluster take one full snapshot before any delta, whichever of them leads, and however often one restarts.
func TestOneFullSnapshotAfterARecovery(t *testing.T) {
	g := NewWithT(t)
	config := leaseServer(t)
	local, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = local.Close() }()
	agent := func(dir string) snapshotter.Config {
		s, err := newSnapshots(logr.Discard(), serveOptions{sharedDir: dir, leases: leaseNames{"n", "full", "delta"}}, config, local, prometheus.NewRegistry())
		g.Expect(err).NotTo(HaveOccurred())
		return s.config(snapshotter.Config{})
	}
	volume := func() string {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		g.Expect(os.WriteFile(filepath.Join(dir, member.KeyConfig), []byte("data-dir: "+data), 0o600)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, member.KeyBootstrap), nil, 0o600)).To(Succeed())
		g.Expect(os.WriteFile(data+".restored", []byte("recovered b2"), 0o600)).To(Succeed())
		return dir
	}
	first, second := volume(), volume()
	g.Expect(agent(first).FullFirst(t.Context())).To(BeTrue())
	g.Expect(agent(second).FullFirst(t.Context())).To(BeTrue(), "none was taken yet")
	agent(first).OnSnapshot(backup.Snapshot{Kind: backup.Delta, Created: time.Now()})
	g.Expect(agent(first).FullFirst(t.Context())).To(BeTrue(), "a delta is not it")
	agent(first).OnSnapshot(backup.Snapshot{Kind: backup.Full, Created: time.Now()})
	g.Expect(agent(first).FullFirst(t.Context())).To(BeFalse(), "after a restart")
	g.Expect(agent(second).FullFirst(t.Context())).To(BeFalse(), "when another member leads")
}
