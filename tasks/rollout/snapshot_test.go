// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// store is an agent's HTTP API that answers as it is told to.
type store struct {
	mu     sync.Mutex
	asked  []string
	code   api.Code
	latest backup.Chain
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.RequestURI())
	switch {
	case r.URL.Path == api.PathLatest:
		_ = json.NewEncoder(w).Encode(s.latest)
	case s.code != "":
		api.WriteError(w, http.StatusMethodNotAllowed, s.code, "as told")
	default:
		_ = json.NewEncoder(w).Encode(full)
	}
}

func (s *store) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

var full = backup.Snapshot{Kind: backup.Full, LastRevision: 42, Created: noon, Compression: backup.Gzip, Prefix: "a/main/v2", Size: 1000}

// upgrade is a change to a template with the next minor version.
func upgrade(s *cluster.Snapshot) {
	s.StatefulSet.EtcdVersion = "3.7.3"
	for i := range s.Ordinals {
		s.Ordinals[i].Versions = cluster.Versions{Etcd: "3.6.16", Storage: "3.6.0"}
	}
}

// A rollout that changes the minor version takes a full snapshot, writes its name down, and only then removes the first pod.
func TestSnapshotComesFirst(t *testing.T) {
	const askFull, askLatest = api.PathFull + "?final=false", api.PathLatest
	asked := &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateInProgress, RequestedAt: metav1.Time{Time: noon}}
	// By the clock of its agent, it was taken after the request.
	older := full
	older.LastRevision, older.Created = 41, noon.Add(time.Hour)
	early, final := full, full
	early.Created, final.Final = noon.Add(-time.Hour), true
	at := func(revision int64) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) { s.Cluster.Revision = revision }
	}
	for name, c := range map[string]struct {
		store    *store
		recorded *v1alpha1.RolloutSnapshot
		sees     int64
		want     string // what the agent is asked for
		snapshot string // the name that is recorded
		held     bool
	}{
		"it is taken": {store: &store{}, want: askFull, snapshot: full.Name()},
		"the answer to an earlier request was lost":       {store: &store{latest: backup.Chain{Full: &full}}, recorded: asked, sees: 42, want: askLatest, snapshot: full.Name()},
		"an earlier request was lost":                     {store: &store{latest: backup.Chain{Full: &older}}, recorded: asked, sees: 42, want: askLatest + " " + askFull, snapshot: full.Name()},
		"an earlier request was lost, and there is none":  {store: &store{}, recorded: asked, sees: 42, want: askLatest + " " + askFull, snapshot: full.Name()},
		"an earlier request was lost, of an idle cluster": {store: &store{latest: backup.Chain{Full: &early}}, recorded: asked, sees: 42, want: askLatest + " " + askFull, snapshot: full.Name()},
		"another has taken a final one":                   {store: &store{latest: backup.Chain{Full: &final}}, recorded: asked, sees: 42, want: askLatest + " " + askFull, snapshot: full.Name()},
		"no member says what there is to have":            {store: &store{latest: backup.Chain{Full: &full}}, recorded: asked, want: askFull, snapshot: full.Name()},
		"it fails":                                        {store: &store{code: api.CodeSnapshotFailed}, want: askFull, held: true},
		"the running pods have no store yet":              {store: &store{code: api.CodeNoStore}, want: askFull},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, upgrade, at(c.sees)), observed(noon, upgrade, at(c.sees)))
			server := httptest.NewServer(c.store)
			t.Cleanup(server.Close)
			r.handler.Agent = func(context.Context, *v1alpha1.Etcd) (api.Client, error) {
				return api.Client{BaseURL: server.URL}, nil
			}
			r.task.Etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
			r.task.Object.Status.Rollout.Snapshot = c.recorded
			// As the engine does: write the status down, carry the step out, and look again.
			reconcile := func() tasks.Verdict {
				v, err := r.handler.Execute(t.Context(), r.task)
				r.Expect(err).NotTo(HaveOccurred())
				r.task.Object.Status.Rollout = v.Rollout
				if v.Step != nil {
					r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(Succeed())
				}
				return v
			}
			first := reconcile()
			r.Expect(first.Step.Operation).To(Equal("TakeSnapshot"))
			r.Expect(r.witness.confirmed).To(BeZero(), "it costs no member")
			r.Expect(first.Rollout.Snapshot.State).To(Equal(v1alpha1.OperationStateInProgress), "it is recorded first")
			r.Eventually(func() bool { call, _ := r.handler.snapshots.Of(""); return call.Running }).WithTimeout(machine.Patience()).Should(BeFalse())
			second := reconcile()
			got := ""
			for i, request := range c.store.requests() {
				if i > 0 {
					got += " "
				}
				got += request
			}
			r.Expect(got).To(Equal(c.want))
			if c.held {
				r.Expect(second.Message).To(ContainSubstring("SnapshotTaken: a full snapshot is taken first"))
				r.Expect(second.Message).To(ContainSubstring("as told"))
				r.Expect(r.deleted).To(BeEmpty())
				return
			}
			r.Expect(r.deleted).To(Equal([]string{"m-2"}))
			r.Expect(second.Rollout.Snapshot.Name).To(Equal(c.snapshot), "it is recorded with the intent")
		})
	}
}

// A snapshot whose answer was lost has what there was when it was first requested, also if more was written since.
func TestASnapshotThatWasTakenForAnEarlierRequest(t *testing.T) {
	at := func(revision int64) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) { s.Cluster.Revision = revision }
	}
	agent := &store{code: api.CodeSnapshotFailed}
	server := httptest.NewServer(agent)
	t.Cleanup(server.Close)
	r := newTrial(t, observed(noon, upgrade, at(42)), observed(noon, upgrade, at(42)))
	r.handler.Agent = func(context.Context, *v1alpha1.Etcd) (api.Client, error) { return api.Client{BaseURL: server.URL}, nil }
	ask := func(revision int64) {
		d := detail{in: rollout.Input{Snapshot: observed(noon, upgrade, at(revision))}, step: rollout.Step{Reason: "first"}}
		d.in.Recorded.Snapshot = &v1alpha1.RolloutSnapshot{}
		r.Expect(r.handler.takeSnapshot(t.Context(), r.task.Task, d)).To(Succeed())
		r.Eventually(func() bool { call, _ := r.handler.snapshots.Of(""); return call.Running }).WithTimeout(machine.Patience()).Should(BeFalse())
	}
	ask(42)
	agent.mu.Lock()
	agent.code, agent.latest = "", backup.Chain{Full: &full}
	agent.mu.Unlock()
	ask(50)
	r.Expect(agent.requests()).To(Equal([]string{api.PathLatest, api.PathFull + "?final=false", api.PathLatest}))
}

// While the snapshot is being taken, nothing else is asked for and no pod is removed. A task that ends waits for none.
func TestNothingHappensWhileTheSnapshotIsTaken(t *testing.T) {
	r := newTrial(t, observed(noon, upgrade), observed(noon, upgrade))
	r.task.Etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	r.handler.snapshots.Start(t.Context(), "", "as told", time.Minute, func(ctx context.Context) (taken, error) {
		<-ctx.Done()
		return taken{}, ctx.Err()
	})
	v, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Step).To(BeNil())
	r.Expect(v.Message).To(HaveSuffix("it is being taken"))
	r.Expect(v.RequeueAfter).To(Equal(pollInterval))
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed())
	_, known := r.handler.snapshots.Of("")
	r.Expect(known).To(BeFalse())
}

// Versions that are never known must not mean a snapshot before every rollout.
func TestSnapshotsBeforeUnknownVersionsAreAskedFor(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}}}
	of := func(unknown bool, before rollout.SnapshotBefore) bool {
		config := rollout.DefaultConfig()
		config.SnapshotBefore = before
		h := &Handler{UnknownVersions: unknown}
		return h.backup(tasks.Typed[rollout.Config]{Task: tasks.Task{Object: &v1alpha1.EtcdOperatorTask{}, Etcd: etcd}, Config: config}).Configured
	}
	g.Expect(of(false, rollout.SnapshotForMinorVersion)).To(BeTrue())
	g.Expect(of(true, rollout.SnapshotForMinorVersion)).To(BeFalse())
	g.Expect(of(true, rollout.SnapshotAlways)).To(BeTrue())
}
