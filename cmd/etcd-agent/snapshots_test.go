// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
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

// apiLease is a lease on an API server that may not answer.
type apiLease struct {
	mu     sync.Mutex
	away   bool
	holder string
}

func (l *apiLease) Record(_ context.Context, s backup.Snapshot, _ time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return errors.New("no API server")
	}
	l.holder = strconv.FormatInt(s.LastRevision, 10)
	return nil
}

func (l *apiLease) Annotate(context.Context, string, string) error { return nil }

func (l *apiLease) answers(does bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = !does
}

func (l *apiLease) records() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder
}

// A snapshot that is taken while the API server does not answer is recorded once it does, even if nothing is written any more: a recovery chooses
// between the backup and what is left on volumes by what is recorded. The next leader records what the store has, and not this one.
func TestASnapshotIsRecordedOnceTheAPIServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		full, delta := &apiLease{}, &apiLease{}
		s := &snapshots{full: full, delta: delta, log: logr.Discard(), restored: serve.AfterRestore{
			Log: logr.Discard(), Shared: func() (member.Shared, error) { return member.Shared{}, errors.New("there is no note") },
		}}
		s.open = func(context.Context) (*snapshotter.Snapshotter, error) { return nil, errors.New("not yet") }
		leads := func() (ends func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var leading sync.WaitGroup
			leading.Go(func() { s.lead(ctx) })
			synctest.Wait()
			return func() { cancel(); leading.Wait() }
		}
		ends := leads()
		full.answers(false)
		delta.answers(false)
		s.report(backup.Snapshot{Kind: backup.Full, LastRevision: 7, Created: time.Unix(1, 0)})
		s.report(backup.Snapshot{Kind: backup.Delta, StartRevision: 8, LastRevision: 9, Created: time.Unix(2, 0)})
		s.report(backup.Snapshot{Kind: backup.Delta, StartRevision: 10, LastRevision: 10, Created: time.Unix(3, 0)})
		<-time.After(2 * healthInterval)
		g.Expect(full.records() + delta.records()).To(BeEmpty())
		full.answers(true)
		<-time.After(2 * healthInterval)
		g.Expect([]string{full.records(), delta.records()}).To(Equal([]string{"7", ""}))
		ends()
		full.answers(false)
		ends = leads()
		s.report(backup.Snapshot{Kind: backup.Full, LastRevision: 11, Created: time.Unix(4, 0)})
		full.answers(true)
		delta.answers(true)
		<-time.After(2 * healthInterval)
		g.Expect([]string{full.records(), delta.records()}).To(Equal([]string{"11", ""}), "what was taken before this term may not be the newest")
		ends()
	})
}
