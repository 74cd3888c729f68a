// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
)

// The lease of full snapshots records full ones, and that of deltas records deltas: by them the operator decides what a restore
// must reach, and whether a compaction is due.
func TestEachKindOfSnapshotHasItsLease(t *testing.T) {
	g := NewWithT(t)
	recorded := map[string]string{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease := coordinationv1.Lease{}
		if err := json.NewDecoder(r.Body).Decode(&lease); err == nil && lease.Spec.HolderIdentity != nil {
			recorded[r.Method+" "+r.URL.Path] = *lease.Spec.HolderIdentity
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}`))
	}))
	defer api.Close()
	local, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://localhost:1"}})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = local.Close() }()
	options := serveOptions{leases: leaseNames{"ns", "main-full-snap", "main-delta-snap"}}
	s, err := newSnapshots(logr.Discard(), options, &rest.Config{Host: api.URL}, local, prometheus.NewRegistry())
	g.Expect(err).NotTo(HaveOccurred())
	s.report(backup.Snapshot{Kind: backup.Full, LastRevision: 7, Created: time.Unix(1, 0)})
	s.report(backup.Snapshot{Kind: backup.Delta, StartRevision: 8, LastRevision: 9, Created: time.Unix(2, 0)})
	const leases = "PATCH /apis/coordination.k8s.io/v1/namespaces/ns/leases/"
	g.Expect(recorded).To(Equal(map[string]string{leases + "main-full-snap": "7", leases + "main-delta-snap": "9"}))
}
