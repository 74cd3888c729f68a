// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agentapi"
	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// agent is an HTTP API that answers what it is told to.
type agent struct {
	mu     sync.Mutex
	asked  []string
	code   int
	answer any
	latest backup.Chain
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.URL.RequestURI())
	answer := a.answer
	switch {
	case r.URL.Path == agentapi.PathLatest:
		answer = a.latest
	case a.code != 0:
		agentapi.WriteError(w, a.code, agentapi.CodeNoLeader, "no leader")
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (a *agent) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

type fixture struct {
	*WithT
	handler *Handler
	agent   *agent
	clock   *testingclock.FakePassiveClock
	task    tasks.Task
}

func newFixture(t *testing.T, config string) *fixture {
	f := &fixture{WithT: NewWithT(t), agent: &agent{}, clock: testingclock.NewFakePassiveClock(epoch)}
	server := httptest.NewServer(f.agent)
	t.Cleanup(server.Close)
	f.handler = &Handler{Clock: f.clock, Agent: func(context.Context, *v1alpha1.Etcd) (agentapi.Client, error) {
		return agentapi.Client{BaseURL: server.URL}, nil
	}}
	c, err := f.handler.Decode(config)
	f.Expect(err).NotTo(HaveOccurred())
	f.task = tasks.Task{Config: c, Etcd: &v1alpha1.Etcd{}, Object: &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{UID: "1"}}}
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
		if v.Step != nil {
			f.task.Object.Status.LastOperation = &v1alpha1.LastOperation{Name: v.Step.Operation}
			f.Expect(f.handler.Perform(t.Context(), f.task, *v.Step)).To(Succeed())
		}
		return false
	}).WithTimeout(10 * time.Second).WithPolling(time.Millisecond).Should(BeTrue())
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

// An operator that takes over finds what was taken since the task began, and asks only when there is nothing.
func TestResume(t *testing.T) {
	older, newer := full(epoch.Add(-time.Minute)), full(epoch.Add(time.Minute))
	final := newer
	final.Final = true
	for name, c := range map[string]struct {
		latest *backup.Snapshot
		asks   int
	}{
		"nothing was taken":             {nil, 2},
		"an older one":                  {&older, 2},
		"one that is not what is asked": {&final, 2},
		"the answer was lost":           {&newer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "type: full")
			f.task.Object.Status.LastOperation = &v1alpha1.LastOperation{Name: takeSnapshot}
			f.agent.latest.Full, f.agent.answer = c.latest, full(epoch.Add(time.Hour))
			end, err := f.run(t)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(end.Outcome).To(Equal(tasks.Done))
			f.Expect(f.agent.requests()).To(HaveLen(c.asks))
		})
	}
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
	f.handler.Agent = func(context.Context, *v1alpha1.Etcd) (agentapi.Client, error) {
		return agentapi.Client{BaseURL: other.URL}, nil
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
		_, err := (&Handler{}).Decode(config)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), config)
	}
}
