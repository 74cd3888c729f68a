// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// agent is an HTTP API that answers what it is told to.
type agent struct {
	mu     sync.Mutex
	asked  []string
	code   int
	answer any
	// first are the answers before that.
	first  []any
	latest backup.Chain
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.URL.RequestURI())
	answer := a.answer
	switch {
	case r.URL.Path == api.PathLatest:
		answer = a.latest
	case a.code != 0:
		api.WriteError(w, a.code, api.CodeNoLeader, "no leader")
		return
	case len(a.first) > 0:
		answer, a.first = a.first[0], a.first[1:]
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (a *agent) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

type fixture struct {
	*machine.WithT
	handler *Handler
	agent   *agent
	clock   *testingclock.FakePassiveClock
	task    tasks.Typed[Config]
}

func newFixture(t *testing.T, config string) *fixture {
	f := &fixture{WithT: machine.Gomega(t), agent: &agent{}, clock: testingclock.NewFakePassiveClock(epoch)}
	server := httptest.NewServer(f.agent)
	t.Cleanup(server.Close)
	f.handler = &Handler{Clock: f.clock, Observer: at(42), Agent: func(context.Context, *v1alpha1.Etcd) (api.Client, error) {
		return api.Client{BaseURL: server.URL}, nil
	}}
	c, err := taskconfig.Decode[Config](config)
	f.Expect(err).NotTo(HaveOccurred())
	f.task = tasks.Typed[Config]{Config: c, Task: tasks.Task{Etcd: &v1alpha1.Etcd{}, Object: &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{UID: "1"}}}}
	f.task.Object.Status.InitiatedAt = &metav1.Time{Time: epoch}
	return f
}

// run does what the engine does, until a call of the handler brings an end or an error.
func (f *fixture) run(t *testing.T) (end tasks.Verdict, failure error) {
	t.Helper()
	f.Eventually(func() bool {
		var v tasks.Verdict
		if v, failure = f.handler.Execute(t.Context(), f.task); failure != nil || v.Outcome != tasks.Continue {
			end = v
			return true
		}
		if v.Result != nil {
			f.task.Object.Status.Result = v.Result
		}
		if v.Step != nil {
			f.task.Object.Status.LastOperation = &v1alpha1.LastOperation{Name: v.Step.Operation}
			f.Expect(f.handler.Perform(t.Context(), f.task.Task, *v.Step)).To(Succeed())
		}
		return false
	}).WithPolling(time.Millisecond).Should(BeTrue())
	return end, failure
}

func full(created time.Time) backup.Snapshot {
	return backup.Snapshot{Kind: backup.Full, LastRevision: 42, Created: created, Compression: backup.Gzip, Prefix: "a/main/v2", Size: 1000}
}

func TestFullSnapshot(t *testing.T) {
	f := newFixture(t, "{type: full, isFinal: false}")
	f.agent.answer = full(epoch)
	end, err := f.run(t)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(end.Outcome).To(Equal(tasks.Done))
	f.Expect(end.Result).To(Equal(map[string]string{
		"snapshot": "a/main/v2/Full-00000000-00000042-1767225600.gz", "revision": "42", "bytes": "1000", "createdOn": "2026-01-01T00:00:00Z",
	}))
	f.Expect(f.agent.requests()).To(Equal([]string{"/snapshot/full?final=false"}))
}

func TestDeltaSnapshotOfNothing(t *testing.T) {
	f := newFixture(t, "type: delta")
	end, err := f.run(t)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(end.Outcome).To(Equal(tasks.Done))
	f.Expect(end.Message).To(ContainSubstring("nothing has happened"))
}

// A snapshot that had begun when the task asked for it, and lacks what was written until then, does for no task: the next one has that. A revision that no
// snapshot reaches is asked for once.
func TestASnapshotThatHadBegun(t *testing.T) {
	begun, next := full(epoch), full(epoch.Add(time.Minute))
	begun.LastRevision = 41
	delta := backup.Snapshot{Kind: backup.Delta, StartRevision: 42, LastRevision: 42, Created: epoch, Compression: backup.Gzip, Prefix: "a/main/v2"}
	early := delta
	early.StartRevision, early.LastRevision = 41, 41
	for name, c := range map[string]struct {
		config   string
		first    []any
		answer   any
		requests int
		revision string
	}{
		"that has everything":          {"type: full", nil, next, 1, "42"},
		"that had begun":               {"type: full", []any{begun}, next, 2, "42"},
		"a delta that had begun":       {"type: delta", []any{early}, delta, 2, "42"},
		"and nothing came after that":  {"type: delta", []any{early}, nil, 2, ""},
		"an unchanged cluster's delta": {"type: delta", nil, nil, 2, ""},
		"that never has everything":    {"type: full", []any{begun, begun}, next, 2, "41"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.config)
			f.agent.first, f.agent.answer = c.first, c.answer
			end, err := f.run(t)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(end.Outcome).To(Equal(tasks.Done))
			f.Expect(end.Result["revision"]).To(Equal(c.revision))
			f.Expect(f.agent.requests()).To(HaveLen(c.requests))
		})
	}
}

// at returns an observer of a cluster at a revision.
func at(revision int64) observed {
	s := clustertest.Healthy(3)
	s.Cluster.Revision = revision
	return observed{snapshot: s}
}

// An operator that takes over finds what was taken since the task asked for it first, and asks only when there is nothing. The revision
// says so, since clocks differ, and so does the time, since the revision of an idle cluster stays.
func TestResume(t *testing.T) {
	snapshot := func(revision int64, final bool) *backup.Snapshot {
		s := full(epoch.Add(time.Hour))
		s.LastRevision, s.Final = revision, final
		return &s
	}
	early := full(epoch.Add(-time.Hour))
	for name, c := range map[string]struct {
		recorded string
		sees     observed
		latest   *backup.Snapshot
		asks     []string
	}{
		"nothing was taken":                  {"42", at(50), nil, []string{api.PathLatest, api.PathFull}},
		"one of before, by a clock ahead":    {"42", at(50), snapshot(41, false), []string{api.PathLatest, api.PathFull}},
		"one that is not what is asked":      {"42", at(50), snapshot(42, true), []string{api.PathLatest, api.PathFull}},
		"the answer was lost":                {"42", at(50), snapshot(42, false), []string{api.PathLatest}},
		"one of before, of an idle cluster":  {"42", at(42), &early, []string{api.PathLatest, api.PathFull}},
		"it is not known at which revision":  {"", observed{err: errors.New("no answer")}, snapshot(99, false), []string{api.PathFull}},
		"what an earlier operator asked for": {"", at(50), snapshot(49, false), []string{api.PathLatest, api.PathFull}},
		"has everything that there is":       {"", at(50), snapshot(50, false), []string{api.PathLatest}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "type: full")
			f.handler.Observer = c.sees
			f.task.Object.Status.LastOperation = &v1alpha1.LastOperation{Name: takeSnapshot}
			if c.recorded != "" {
				f.task.Object.Status.Result = map[string]string{keyRequested: c.recorded}
			}
			f.agent.latest.Full, f.agent.answer = c.latest, snapshot(50, false)
			end, err := f.run(t)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(end.Outcome).To(Equal(tasks.Done))
			var asked []string
			for _, request := range f.agent.requests() {
				path, _, _ := strings.Cut(request, "?")
				asked = append(asked, path)
			}
			f.Expect(asked).To(Equal(c.asks))
		})
	}
}

// The revision at the first request is recorded with it, and stays when that is repeated.
func TestTheRevisionAtTheFirstRequest(t *testing.T) {
	f := newFixture(t, "type: full")
	f.agent.code = http.StatusMethodNotAllowed
	_, err := f.run(t)
	f.Expect(err).To(HaveOccurred())
	f.handler.Observer = at(50)
	_, err = f.run(t)
	f.Expect(err).To(HaveOccurred())
	f.Expect(f.task.Object.Status.Result).To(Equal(map[string]string{keyRequested: "42"}))
	f.Expect(f.agent.requests()).To(Equal([]string{"/snapshot/full?final=false", "/snapshot/latest", "/snapshot/full?final=false"}))
}

func TestTheAgentRefuses(t *testing.T) {
	f := newFixture(t, "{type: full, timeout: 1m}")
	f.agent.code = http.StatusMethodNotAllowed
	_, err := f.run(t)
	f.Expect(err).To(MatchError(ContainSubstring("no leader")))
	f.agent.code, f.agent.answer = 0, full(epoch.Add(-time.Hour))
	end, err := f.run(t)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(end.Outcome).To(Equal(tasks.Done), "it is asked again")
}

// An impostor of an agent does not write the status of a task.
func TestAnotherServerAnswers(t *testing.T) {
	f := newFixture(t, "type: full")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "password: hunter2", http.StatusForbidden) }))
	t.Cleanup(other.Close)
	f.handler.Agent = func(context.Context, *v1alpha1.Etcd) (api.Client, error) {
		return api.Client{BaseURL: other.URL}, nil
	}
	_, err := f.run(t)
	f.Expect(err).To(MatchError(And(ContainSubstring("403"), Not(ContainSubstring("hunter2")))))
}

func TestTimeout(t *testing.T) {
	f := newFixture(t, "{type: full, timeout: 1m}")
	f.task.Elapsed = 2 * time.Minute
	end, err := f.run(t)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(end.Outcome).To(Equal(tasks.Fail))
	f.Expect(end.Code).To(Equal(v1alpha1.ErrSnapshot))
	f.Expect(f.agent.requests()).To(BeEmpty())
}

func TestConfig(t *testing.T) {
	for config, says := range map[string]string{
		"":                             `type is ""`,
		"type: Full":                   `type is "Full"`,
		"{type: delta, isFinal: true}": "isFinal belongs to type full",
		"{type: full, timeout: 0s}":    "timeout has to be",
		"{type: full, timeout: 100h}":  "timeout has to be",
		"{type: full, final: true}":    `unknown field "final"`,
	} {
		_, err := taskconfig.Decode[Config](config)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), config)
	}
}

// observed is what an observation shows.
type observed struct {
	snapshot *cluster.Snapshot
	err      error
}

func (o observed) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return o.snapshot, o.err
}

func TestAdmit(t *testing.T) {
	lost := clustertest.Healthy(3)
	clustertest.Away(lost, 0, v1alpha1.ClassUnready, "")
	clustertest.Away(lost, 1, v1alpha1.ClassUnready, "")
	foreign := clustertest.Healthy(3)
	foreign.StatefulSet.Foreign = "it is etcd-druid's: stop that"
	broken := errors.New("no answer")
	store := &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	for name, tc := range map[string]struct {
		backup   *v1alpha1.BackupSpec
		observer observed
		want     tasks.Verdict
		err      error
	}{
		"no backups": {nil, observed{}, tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrNoBackup, Message: "Etcd main has no spec.backup.store"}, nil},
		"no StatefulSet": {store, observed{err: observe.ErrNoStatefulSet},
			tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrStatefulSetNotFound, Message: observe.ErrNoStatefulSet.Error()}, nil},
		"no answer": {store, observed{err: broken}, tasks.Verdict{}, broken},
		"another operator's cluster": {store, observed{snapshot: foreign},
			tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrForeignObject, Message: "it is etcd-druid's: stop that"}, nil},
		"no quorum": {store, observed{snapshot: lost},
			tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrNoQuorum, Message: "the cluster has no quorum: 1 of 3 voters serve, and it takes 2"}, nil},
		"a quorum": {store, observed{snapshot: clustertest.Healthy(3)}, tasks.Verdict{Outcome: tasks.Continue, Message: "backups are configured, and 3 of 3 voters serve"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "type: full")
			f.task.Etcd.Name, f.task.Etcd.Spec.Backup, f.handler.Observer = "main", tc.backup, tc.observer
			v, err := f.handler.Admit(t.Context(), f.task)
			f.Expect(v).To(Equal(tc.want))
			if tc.err == nil {
				f.Expect(err).NotTo(HaveOccurred())
			} else {
				f.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}

func TestConfigOfASnapshot(t *testing.T) {
	h := &Handler{}
	for config, ok := range map[string]bool{
		"type: full\ntimeout: 1s": true, "type: full\ntimeout: 999ms": false, "type: delta\ntimeout: 4h": true, "type: delta\ntimeout: 4h1s": false, "type: full\ntimeout: null": false,
		"type: delta\nisFinal: true": false, "type: full\nisFinal: true": true,
	} {
		_, err := taskconfig.Decode[Config](config)
		NewWithT(t).Expect(err == nil).To(Equal(ok), "%s: %v", config, err)
	}
	g := NewWithT(t)
	c, err := taskconfig.Recorded[Config](`{"type":"delta","since":"v9"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c).To(Equal(Config{Type: Delta, Timeout: &metav1.Duration{Duration: 15 * time.Minute}}))
	_, err = taskconfig.Recorded[Config]("x")
	g.Expect(err).To(MatchError(ContainSubstring("status.config: ")))
	key, err := h.WorkKey(t.Context(), tasks.Typed[Config]{Config: Config{Type: Full, IsFinal: true}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(Equal("full, final: true"))
}

// An answer that was lost is found in the store, if it is what was asked for.
func TestTakenSince(t *testing.T) {
	g := NewWithT(t)
	began := epoch.Add(time.Second - 1)
	delta := func(revision int64) backup.Snapshot {
		return backup.Snapshot{Kind: backup.Delta, LastRevision: revision, Created: epoch}
	}
	chain := backup.Chain{Full: &backup.Snapshot{Kind: backup.Full, LastRevision: 5, Created: epoch}, Deltas: []backup.Snapshot{delta(7), delta(9)}}
	g.Expect(takenSince(chain, Config{Type: Delta}, 8, began)).To(HaveValue(Equal(chain.Deltas[1])))
	g.Expect(takenSince(chain, Config{Type: Delta}, 10, began)).To(BeNil())
	g.Expect(takenSince(chain, Config{Type: Full}, 5, began)).To(HaveValue(Equal(*chain.Full)))
	g.Expect(takenSince(chain, Config{Type: Full}, 6, began)).To(BeNil())
	g.Expect(takenSince(chain, Config{Type: Full, IsFinal: true}, 5, began)).To(BeNil())
	g.Expect(takenSince(chain, Config{Type: Full}, 5, epoch.Add(time.Second))).To(BeNil(), "it was taken before")
	chain.Deltas = nil
	g.Expect(takenSince(chain, Config{Type: Delta}, 5, began)).To(BeNil(), "a full one is no delta")
}

func TestTaken(t *testing.T) {
	g := NewWithT(t)
	s := &backup.Snapshot{Kind: backup.Full, LastRevision: 7, Created: epoch}
	v := taken(s, epoch)
	g.Expect(v.Message).To(Equal(s.Name() + " holds everything up to revision 7"))
	g.Expect(v.LastOperation).To(HaveValue(Equal(v1alpha1.LastOperation{Name: "TakeSnapshot", State: v1alpha1.OperationStateCompleted, LastTransitionTime: metav1.Time{Time: epoch}, Reason: v.Message})))
	g.Expect(taken(nil, epoch).Message).To(ContainSubstring("no delta snapshot was needed"))
}

// Time that has passed fails the task, with the last failure where there is one; what is forgotten is not known again.
func TestTimeIsUp(t *testing.T) {
	f := newFixture(t, "type: full\ntimeout: 1m")
	execute := func(elapsed time.Duration) (tasks.Verdict, error) {
		f.task.Elapsed = elapsed
		return f.handler.Execute(t.Context(), f.task)
	}
	v, err := execute(time.Minute)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(v.Outcome).To(Equal(tasks.Fail))
	f.Expect(v.Message).To(Equal("no full snapshot was taken within 1m0s"))
	fails := func() {
		done := make(chan struct{})
		f.handler.calls.Start(t.Context(), "1", "x", time.Minute, func(context.Context) (*backup.Snapshot, error) {
			defer close(done)
			return nil, errors.New("no space")
		})
		<-done
		f.Eventually(func() bool { call, _ := f.handler.calls.Of("1"); return call.Running }).Should(BeFalse())
	}
	fails()
	v, err = execute(time.Minute)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(v.Message).To(Equal("no full snapshot was taken within 1m0s: no space"))
	_, err = execute(time.Second)
	f.Expect(err).To(MatchError("no space"))
	v, err = execute(time.Second)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(v.Step).NotTo(BeNil(), "it is asked again")

	running, end := make(chan struct{}), make(chan struct{})
	f.handler.calls.Start(t.Context(), "1", "waiting", time.Minute, func(context.Context) (*backup.Snapshot, error) {
		close(running)
		<-end
		return nil, nil
	})
	<-running
	v, err = execute(time.Second)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(v).To(Equal(tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Message: "waiting", RequeueAfter: time.Second}))
	f.Expect(f.handler.Cleanup(t.Context(), f.task.Task)).To(Succeed())
	_, known := f.handler.calls.Of("1")
	f.Expect(known).To(BeFalse())
	close(end)
}
