// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
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
	mu          sync.Mutex
	away        bool
	holder      string
	annotations map[string]string
	// reports is how often annotations were written.
	reports int
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

func (l *apiLease) Report(_ context.Context, annotations map[string]string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return false, errors.New("no API server")
	}
	l.reports++
	if l.annotations == nil {
		l.annotations = map[string]string{}
	}
	maps.Copy(l.annotations, annotations)
	return l.holder != "", nil
}

// become has another client write the lease.
func (l *apiLease) become(holder string, annotations map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.annotations = holder, annotations
}

// says returns the annotations with what is reported, and how often they were written.
func (l *apiLease) says() (annotations map[string]string, reports int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.annotations), l.reports
}

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

// idle is an etcd in which nothing is written.
type idle struct{}

func (idle) Revision(context.Context) (int64, error) { return 7, nil }
func (idle) Snapshot(context.Context) (io.ReadCloser, error) {
	content := bytes.Repeat([]byte("database"), 64)
	sum := sha256.Sum256(content)
	return io.NopCloser(bytes.NewReader(append(content, sum[:]...))), nil
}
func (idle) LeaseTTL(context.Context, int64) (int64, error)  { return 0, nil }
func (idle) Watch(context.Context, int64) clientv3.WatchChan { return nil }

// leadsBeside leads until the test ends, with deltas in a period, and reports by leases.
func leadsBeside(t *testing.T, to *store.Store, period time.Duration, full, delta *apiLease) *snapshots {
	s := &snapshots{full: full, delta: delta, log: logr.Discard(), restored: serve.AfterRestore{
		Log: logr.Discard(), Shared: func() (member.Shared, error) { return member.Shared{}, errors.New("there is no note") },
	}}
	s.open = func(context.Context) (*snapshotter.Snapshotter, error) {
		o := snapshotter.Options{Schedule: "0 0 1 1 *", DeltaPeriod: period, DeltaLimit: 1 << 20, Compression: backup.None, Timeout: time.Minute}
		return snapshotter.New(s.config(snapshotter.Config{Options: o, Etcd: idle{}, Store: to, Clock: clock.RealClock{}, Log: logr.Discard()}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var leading sync.WaitGroup
	leading.Go(func() { s.lead(ctx) })
	t.Cleanup(func() { cancel(); leading.Wait() })
	return s
}

// What the leader reports is right again within a period of deltas, also if nothing changes, after an agent that had led before has written late, and
// after the leases were made again. It takes no more requests than before.
func TestReportsAreRepeated(t *testing.T) {
	to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		full, delta := &apiLease{}, &apiLease{}
		const period = 5 * time.Minute
		s := leadsBeside(t, to, period, full, delta)
		<-time.After(2 * healthInterval)
		s.report(backup.Snapshot{Kind: backup.Delta, StartRevision: 8, LastRevision: 9, Created: time.Now()})
		isWell := func() {
			t.Helper()
			said, _ := full.says()
			g.Expect(said).To(HaveKeyWithValue(v1alpha1.AnnotationBackupError, ""))
			g.Expect(said).To(HaveKeyWithValue(v1alpha1.AnnotationRestorable, ContainSubstring(`"revision":7`)))
			g.Expect(said).To(HaveKeyWithValue(v1alpha1.AnnotationUndecryptable, ""))
			g.Expect(said).To(HaveKeyWithValue(v1alpha1.AnnotationBackupsCurrent, Not(BeEmpty())))
			g.Expect([]string{full.records(), delta.records()}).To(Equal([]string{"7", "9"}))
		}
		isWell()

		full.become("7", map[string]string{v1alpha1.AnnotationBackupError: "late", v1alpha1.AnnotationRestorable: "[]", v1alpha1.AnnotationUndecryptable: "late"})
		<-time.After(period + 2*healthInterval)
		isWell()
		full.become("", nil)
		delta.become("", nil)
		<-time.After(period + 2*healthInterval)
		isWell()
		_, before := full.says()
		<-time.After(time.Hour)
		_, after := full.says()
		g.Expect(after - before).To(BeNumerically("~", time.Hour/period, 1))
	})
}

// So it is within six minutes where there are no deltas, and while no snapshot can be written.
func TestReportsAreRepeatedWithoutSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		period time.Duration
		// refuses has a directory of the store refuse writes.
		refuses bool
		failure types.GomegaMatcher
	}{
		"without deltas":        {failure: BeEmpty()},
		"while snapshots fail":  {period: time.Minute, refuses: true, failure: Not(BeEmpty())},
		"both":                  {refuses: true, failure: Not(BeEmpty())},
		"with rare deltas only": {period: 24 * time.Hour, failure: BeEmpty()},
	} {
		t.Run(name, func(t *testing.T) {
			container := t.TempDir()
			to, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: container, Prefix: "a"})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			if c.refuses {
				NewWithT(t).Expect(os.WriteFile(filepath.Join(container, "a"), nil, 0o600)).To(Succeed())
			}
			synctest.Test(t, func(t *testing.T) {
				g, full := NewWithT(t), &apiLease{}
				s := leadsBeside(t, to, c.period, full, &apiLease{})
				<-time.After(2 * healthInterval)
				s.report(backup.Snapshot{Kind: backup.Full, LastRevision: 7, Created: time.Now()})
				full.become("", nil)
				<-time.After(repeatInterval + 2*healthInterval)
				said, before := full.says()
				g.Expect(said).To(HaveKeyWithValue(v1alpha1.AnnotationBackupError, c.failure))
				g.Expect(full.records()).To(Equal("7"))
				<-time.After(time.Hour)
				_, after := full.says()
				g.Expect(after-before).To(BeNumerically("~", time.Hour/repeatInterval, 1), "no more often than with deltas")
			})
		})
	}
}
