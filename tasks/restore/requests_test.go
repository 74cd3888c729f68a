// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

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
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unobserved observes nothing.
type unobserved struct{ error }

func (u unobserved) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return nil, u.error
}

// run executes a task, after each of the requests for it has failed once, and carries out its step likewise.
func run(t *testing.T, there client.WithWatch, s *cluster.Snapshot, task tasks.Typed[Config]) tasks.Verdict {
	t.Helper()
	g := NewWithT(t)
	execute := func(api client.WithWatch) (tasks.Verdict, error) {
		h := handlerOf(api, s)
		h.Observer = apitest.Members(func() *cluster.Snapshot { return s })
		return h.Execute(t.Context(), task)
	}
	apitest.EachRequestFails(t, there, func(api client.WithWatch) error {
		_, err := execute(api)
		return err
	})
	v, err := execute(there)
	g.Expect(err).NotTo(HaveOccurred())
	if v.Step != nil {
		apitest.EachRequestFails(t, there, func(api client.WithWatch) error {
			again, err := execute(there)
			g.Expect(err).NotTo(HaveOccurred())
			return handlerOf(api, s).Perform(t.Context(), task.Task, *again.Step)
		})
		g.Expect(handlerOf(there, s).Perform(t.Context(), task.Task, *v.Step)).To(Succeed())
	}
	return v
}

// A restore is previewed by a Job, whose result begins it, or ends a task that only previews.
func TestPreviewJob(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	// What is at another prefix is not held.
	task := taskOf(etcd, Config{To: &Target{Latest: true}, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}}, nil)
	there := apitest.API(etcd, task.Object)
	in := at(saving)
	for i, version := range []string{"3.6.1", "3.5.21", ""} {
		in.Snapshot.Ordinals[i].Versions.Etcd = version
	}
	v := run(t, there, in.Snapshot, task)
	g.Expect(v.Outcome).To(Equal(tasks.Continue))
	key := client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object)}
	j := &batchv1.Job{}
	g.Expect(there.Get(t.Context(), key, j)).To(Succeed())
	g.Expect(j.Spec.Template.Spec.Containers[0].Args).To(ContainElements(
		"restore-preview", "--latest", "--etcd-uid=etcd", "--cluster-id=cafe", "--quota=8589934592", "--accept-auth=false", "--etcd-version=3.5.21",
	))
	g.Expect(j.Spec.Template.Spec.Volumes).To(ContainElement(Or(HaveField("EmptyDir", Not(BeNil())), HaveField("Ephemeral", Not(BeNil())))), "a database takes space")
	said := func(base, digest, more string) string {
		return `{"base":"` + base + `","digest":"` + digest + `","revision":40,"end":{"revision":40}` + more + `}`
	}
	for result, code := range map[string]v1alpha1.ErrorCode{
		said(full, digest, ""):                             "",
		said(full, digest, `,"confirm":"$(evil)"`):         "",
		`{"refused":{"code":"NoBackup","message":"none"}}`: v1alpha1.ErrRestoreRefused,
		`{"refused":{"code":"SnapshotCorrupt","message":"none","older":"` + full + `"},"confirm":"$(evil)"}`: v1alpha1.ErrRestoreRefused,
		`{"revision":40}`: v1alpha1.ErrJob,
		`[]`:              v1alpha1.ErrJob,
		// The image of the Job may be a tenant's choice, and people paste the command of a preview into a shell.
		said("$(evil)", digest, ""):                         v1alpha1.ErrJob,
		said(full+"; evil", digest, ""):                     v1alpha1.ErrJob,
		said("", digest, ""):                                v1alpha1.ErrJob,
		said(full, "a", ""):                                 v1alpha1.ErrJob,
		said(full, digest[:63]+"`", ""):                     v1alpha1.ErrJob,
		said(full, digest[:63]+"F", ""):                     v1alpha1.ErrJob,
		said(full, "$(evil)"+digest[:57], ""):               v1alpha1.ErrJob,
		said(full, digest, `,"bytes":-1`):                   v1alpha1.ErrJob,
		said(full, digest, `,"end":{"revision":"$(evil)"}`): v1alpha1.ErrJob,
		`{"refused":{"code":"SnapshotCorrupt","message":"none","older":"$(evil)"}}`: v1alpha1.ErrJob,
		`{"digest":"a","refused":{"code":"NoBackup","message":"none"}}`:             v1alpha1.ErrJob,
	} {
		done := apitest.Copy(t, there)
		apitest.Run(t, done, key)
		apitest.Complete(t, done, key, result)
		v = run(t, done, in.Snapshot, task)
		g.Expect(v.Code).To(Equal(code), result)
		if strings.Contains(v.Message, "kubectl") {
			g.Expect(v.Message).NotTo(ContainSubstring("$("), "nothing that a shell would run is beside a command")
		}
		if code == "" {
			g.Expect(v.Outcome).To(Equal(tasks.Done))
			g.Expect(v.Result["confirm"]).To(Equal(digest[:32] + "@40"))
		} else {
			g.Expect(v.Result).NotTo(HaveKey("confirm"), result)
		}
		if code == v1alpha1.ErrJob {
			g.Expect(v.Message).To(And(ContainSubstring("left no readable result: "), Not(ContainSubstring("--base"))), result)
		}
	}
}

// Clients are not kept away, and no snapshot is taken, if the members could not be stopped by the time that the preview has run.
func TestAForeignObjectOnceThePreviewHasRun(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	task := taskOf(etcd, Config{To: &Target{Latest: true}, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}, Confirm: digest[:32] + "@40"}, nil)
	there, key := apitest.API(etcd, task.Object), client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object)}
	run(t, there, at(saving).Snapshot, task)
	apitest.Run(t, there, key)
	apitest.Complete(t, there, key, `{"base":"`+full+`","digest":"`+digest+`","revision":40,"end":{"revision":40}}`)
	g.Expect(run(t, there, at(saving).Snapshot, task).Recovery.Phase).To(Equal(fencing))

	g.Expect(there.Create(t.Context(), foreigners()["Lease ns/main-1"])).To(Succeed())
	v := run(t, there, at(saving).Snapshot, task)
	g.Expect(v.Outcome).To(Equal(tasks.Fail), v.Message)
	g.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))
	g.Expect(v.Message).To(MatchRegexp("^Lease ns/main-1 is controlled by Shop front .*Nothing was changed$"))
	g.Expect(v.Recovery).To(BeNil())
}

// What the Job is told of the target, of the members, and of what may be used.
func TestArguments(t *testing.T) {
	signed := func(e *v1alpha1.Etcd) {
		e.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
	}
	until := metav1.NewTime(epoch)
	for name, c := range map[string]struct {
		config Config
		undone *Undone
		etcd   func(*v1alpha1.Etcd)
		want   []string
		not    string
	}{
		"revision":       {Config{To: &Target{Revision: 40, Base: "full"}}, nil, nil, []string{"--revision=40", "--base=full", "--accept-auth=false"}, "--store-plain-until=2026-01-01T00:00:00Z"},
		"time":           {Config{To: &Target{Time: &until}, AcceptAuth: true}, nil, nil, []string{"--time=2026-01-01T00:00:00Z", "--accept-auth=true"}, "--base="},
		"snapshot":       {Config{To: &Target{Snapshot: "one"}}, nil, nil, []string{"--snapshot=one"}, "--latest"},
		"another prefix": {Config{To: &Target{Revision: 40}, From: &v1alpha1.StoreSpec{Prefix: "ns/copy"}}, nil, nil, []string{"--revision=40", "--from-prefix=ns/copy", "--store-prefix=ns/main"}, "--store-prefix=ns/copy"},
		"an undo":        {Config{Undo: "r1"}, &Undone{FinalSnapshot: "final"}, nil, []string{"--snapshot=final", "--accept-auth=true"}, "--latest"},
		"signed":         {Config{To: &Target{Latest: true}}, nil, signed, []string{"--recorded-revision=7777", "--recorded-created=2026-01-01T00:00:00Z"}, "--base="},
		"not signed":     {Config{To: &Target{Latest: true}}, nil, nil, []string{"--latest"}, "--recorded-revision=7777"},
		"encrypted": {Config{To: &Target{Latest: true}}, nil, func(e *v1alpha1.Etcd) {
			e.Spec.Backup.Encryption = &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"}, AcceptPlainUntil: &until}
		}, []string{"--store-plain-until=2026-01-01T00:00:00Z"}, "--base="},
		"encrypted, all of it": {Config{To: &Target{Latest: true}}, nil, func(e *v1alpha1.Etcd) {
			e.Spec.Backup.Encryption = &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"}}
		}, []string{"--latest"}, "--store-plain-until=2026-01-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := newEtcd()
			if c.etcd != nil {
				c.etcd(etcd)
			}
			h := handlerOf(apitest.API(etcd, leaseOf(etcd)), at(saving).Snapshot)
			j, err := h.job(t.Context(), taskOf(etcd, c.config, nil), c.undone)
			g.Expect(err).NotTo(HaveOccurred())
			args := j.Spec.Template.Spec.Containers[0].Args
			g.Expect(args).To(ContainElements(c.want))
			g.Expect(args).NotTo(ContainElement(c.not))
			g.Expect(args).NotTo(ContainElement(HavePrefix("--etcd-version")), "no member has a version")
			h.Observer = unobserved{observe.ErrNoStatefulSet}
			_, err = h.job(t.Context(), taskOf(etcd, c.config, nil), c.undone)
			g.Expect(err).NotTo(HaveOccurred())
			h.Observer = unobserved{errors.New("away")}
			_, err = h.job(t.Context(), taskOf(etcd, c.config, nil), c.undone)
			g.Expect(err).To(MatchError("away"))
		})
	}
	g := NewWithT(t)
	etcd := newEtcd(func(e *v1alpha1.Etcd) { e.Spec.Backup.Store.Provider = "Tape" })
	_, err := handlerOf(apitest.API(etcd), at(saving).Snapshot).job(t.Context(), taskOf(etcd, Config{To: &Target{Latest: true}}, nil), nil)
	g.Expect(err).To(HaveOccurred())
}

// Each request of each phase fails once, and nothing is done after it.
func TestRequestsOfPhases(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: newEtcd().ClaimName(0), UID: "claim", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
	}}
	claim.Status.Phase = corev1.ClaimBound
	for name, c := range map[string]struct {
		config Config
		in     Input
		there  []client.Object
		want   v1alpha1.RecoveryPhase
	}{
		"without a Service":      {Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, at(fencing), nil, fencing},
		"the final snapshot":     {Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, at(stopping, stopped), nil, surveying},
		"the volumes":            {Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, at(surveying, stopped), nil, starting},
		"a volume":               {Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, at(surveying, stopped), []client.Object{claim}, surveying},
		"the volumes of an undo": {Config{Undo: "r1"}, at(surveying, stopped), []client.Object{earlier()}, starting},
		"the start":              {Config{Undo: "r1"}, at(starting, source(v1alpha1.RecoverFromTarget)), []client.Object{earlier()}, starting},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := newEtcd()
			task := taskOf(etcd, c.config, &c.in.Recorded)
			v := run(t, apitest.API(append(c.there, etcd, task.Object)...), c.in.Snapshot, task)
			g.Expect(v.Recovery.Phase).To(Equal(c.want), v.Message)
		})
	}
}

// What Execute tells a decision: whether the members are told, whether a snapshot was asked for, and how much may be lost.
func TestInput(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	h := handlerOf(apitest.API(etcd), at(saving).Snapshot)
	confirmed := Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}
	input := func(c Config, recorded Input, change func(*tasks.Typed[Config])) Input {
		task := taskOf(etcd.DeepCopy(), c, &recorded.Recorded)
		change(&task)
		in, err := h.input(t.Context(), task, recorded.Snapshot)
		g.Expect(err).NotTo(HaveOccurred())
		return in
	}
	none := func(*tasks.Typed[Config]) {}
	in := input(confirmed, at(saving), none)
	g.Expect(in.Known).To(BeEquivalentTo(90))
	g.Expect(in.MaxWrites).To(BeEquivalentTo(100))
	g.Expect(in.Members).To(BeEquivalentTo(3))
	g.Expect(in.ClusterID).To(Equal("cafe"))
	g.Expect(in.Hibernates || in.Configured).To(BeFalse())
	g.Expect(in.Call).To(BeNil())
	g.Expect(input(Config{Undo: "r1"}, at(saving), none).MaxWrites).To(BeEquivalentTo(-1))
	g.Expect(input(confirmed, at(surveying, stopped), none).MaxWrites).To(BeEquivalentTo(100), "what is on the volumes is judged too")
	g.Expect(input(confirmed, at(saving), func(task *tasks.Typed[Config]) { task.Etcd.Spec.Replicas = 0 }).Hibernates).To(BeTrue())
	for by, want := range map[string]bool{"task": true, "other": false} {
		g.Expect(input(confirmed, at(starting), func(task *tasks.Typed[Config]) {
			task.Etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "other"}
			if by == "task" {
				task.Etcd.Status.Recovery.TaskUID = "task"
			}
		}).Configured).To(Equal(want), by)
	}
	g.Expect(input(Config{Undo: "r1"}, at(surveying, stopped), none).Undone).To(Equal(&Undone{TaskName: "r1"}), "it is gone, and nothing else is restored in its place")
	for _, change := range []func(*v1alpha1.EtcdOperatorTask){
		func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.QuorumLossRecovery },
		func(t *v1alpha1.EtcdOperatorTask) { t.Status.Recovery = nil },
	} {
		there := handlerOf(apitest.API(etcd, earlier(change)), nil)
		undone, why, err := there.undone(t.Context(), taskOf(etcd, Config{Undo: "r1"}, nil), etcd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(why).NotTo(BeEmpty())
		g.Expect(undone).To(Equal(&Undone{TaskName: "r1"}))
	}
	// A snapshot of one phase is not that of the next.
	g.Expect(input(confirmed, at(saving), none).Call).To(BeNil())
	started := make(chan struct{})
	h.calls.Start(t.Context(), "task", "asked", time.Minute, func(ctx context.Context) (backup.Snapshot, error) {
		close(started)
		<-ctx.Done()
		return backup.Snapshot{}, ctx.Err()
	})
	<-started
	for _, phase := range []v1alpha1.RecoveryPhase{saving, stopping} {
		g.Expect(input(confirmed, at(phase), none).Call).To(HaveValue(HaveField("Name", "asked")))
	}
	g.Expect(input(confirmed, at(reopening), none).Call).To(BeNil())
	_, known := h.calls.Of("task")
	g.Expect(known).To(BeFalse(), "it is forgotten")
}

// An Etcd that cannot be observed is tried again, and so is one that is gone.
func TestUnobserved(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	h := handlerOf(apitest.API(etcd), nil)
	h.Observer = unobserved{errors.New("away")}
	in := at(saving)
	_, err := h.Execute(t.Context(), taskOf(etcd, Config{Undo: "r1"}, &in.Recorded))
	g.Expect(err).To(MatchError(ContainSubstring("away")))
	_, err = h.Admit(t.Context(), taskOf(etcd, Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, nil))
	g.Expect(err).To(MatchError(ContainSubstring("away")))
	_, err = handlerOf(apitest.API(), nil).Execute(t.Context(), taskOf(etcd, Config{Undo: "r1"}, &in.Recorded))
	g.Expect(err).To(HaveOccurred())
	there := apitest.API(etcd, earlier())
	apitest.EachRequestFails(t, there, func(api client.WithWatch) error {
		_, err := handlerOf(api, in.Snapshot).Admit(t.Context(), taskOf(etcd, Config{Undo: "r1"}, nil))
		return err
	})
}

// A StatefulSet that is missing for a while, as one with another claim template is replaced, ends no restore while the members are to start from what
// was chosen. Before, it does: while the task keeps all members stopped, none is created. Later, it does too: clients are not kept away from a cluster
// that has begun.
func TestWithoutAStatefulSet(t *testing.T) {
	chosen := func(in *Input) { in.Recorded.Source = v1alpha1.RecoverFromTarget }
	for _, c := range []struct {
		in      Input
		outcome tasks.Outcome
	}{
		{at(fencing), tasks.Fail}, {at(saving), tasks.Fail}, {at(stopping), tasks.Fail}, {at(surveying), tasks.Fail},
		{at(starting, chosen), tasks.Continue}, {at(growing, chosen), tasks.Fail}, {at(reopening, chosen), tasks.Fail},
	} {
		t.Run(string(c.in.Recorded.Phase), func(t *testing.T) {
			g := NewWithT(t)
			etcd := newEtcd()
			h := handlerOf(apitest.API(etcd), nil)
			h.Observer = unobserved{observe.ErrNoStatefulSet}
			v, err := h.Execute(t.Context(), taskOf(etcd, Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, &c.in.Recorded))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(c.outcome), v.Message)
			if c.outcome == tasks.Fail {
				g.Expect(v.Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
				goesOn := ContainSubstring(". The members go on to start from what it has chosen. ")
				if c.in.Recorded.Source == "" {
					goesOn = Not(goesOn)
				}
				g.Expect(v.Message).To(goesOn)
			} else {
				g.Expect(v.RequeueAfter).To(BeNumerically(">", 0))
			}
		})
	}
}

// asked is an agent that records what it is asked.
type asked struct {
	mu     sync.Mutex
	urls   []string
	latest backup.Chain
	fails  map[string]bool
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.urls = append(a.urls, r.URL.Path)
	if a.fails[r.URL.Path] {
		api.WriteError(w, http.StatusInternalServerError, api.CodeNoLeader, "no leader")
		return
	}
	var answer any = backup.Snapshot{Kind: backup.Full, LastRevision: 9, Created: epoch, Kept: r.URL.Path == api.PathKeep}
	if r.URL.Path == api.PathLatest {
		answer = a.latest
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// A snapshot that has all that is asked for is not taken again: the answer was lost. Its revision says so, whatever the clock of its agent is. The
// final one is kept from retention.
func TestAsk(t *testing.T) {
	snapshot := func(revision int64, final bool) backup.Chain {
		return backup.Chain{Full: &backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: epoch.Add(time.Hour), Final: final}}
	}
	for name, c := range map[string]struct {
		request  request
		latest   backup.Chain
		fails    map[string]bool
		want     []string
		revision int64
		err      bool
	}{
		"for the first time":            {request{final: true, atLeast: 8}, backup.Chain{}, nil, []string{api.PathLatest, api.PathFull, api.PathKeep}, 9, false},
		"one that is not kept":          {request{atLeast: 8}, backup.Chain{}, nil, []string{api.PathLatest, api.PathFull}, 9, false},
		"it was taken":                  {request{final: true, atLeast: 8}, snapshot(8, true), nil, []string{api.PathLatest, api.PathKeep}, 9, false},
		"it was taken, and is not kept": {request{atLeast: 8}, snapshot(8, false), nil, []string{api.PathLatest}, 8, false},
		"it lacks what was written":     {request{final: true, atLeast: 8}, snapshot(7, true), nil, []string{api.PathLatest, api.PathFull, api.PathKeep}, 9, false},
		"one of another kind":           {request{atLeast: 8}, snapshot(8, true), nil, []string{api.PathLatest, api.PathFull}, 9, false},
		"the members do not say":        {request{}, snapshot(8, false), nil, []string{api.PathFull}, 9, false},
		"it is not known":               {request{atLeast: 8}, snapshot(8, false), map[string]bool{api.PathLatest: true}, []string{api.PathLatest, api.PathFull}, 9, false},
		"it fails":                      {request{final: true, atLeast: 8}, backup.Chain{}, map[string]bool{api.PathFull: true}, []string{api.PathLatest, api.PathFull}, 0, true},
		"it cannot be kept":             {request{final: true, atLeast: 8}, backup.Chain{}, map[string]bool{api.PathKeep: true}, []string{api.PathLatest, api.PathFull, api.PathKeep}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := machine.Gomega(t)
			a := &asked{latest: c.latest, fails: c.fails}
			server := httptest.NewServer(a)
			defer server.Close()
			h := handlerOf(apitest.API(), nil)
			h.Agent = func(context.Context, *v1alpha1.Etcd) (api.Client, error) { return api.Client{BaseURL: server.URL}, nil }
			task := taskOf(newEtcd(), Config{}, nil).Task
			g.Expect(h.Perform(t.Context(), task, tasks.Step{Operation: requestSnapshot, Detail: c.request})).To(Succeed())
			g.Eventually(func() bool { call, known := h.calls.Of("task"); return known && !call.Running }).WithTimeout(time.Minute).Should(BeTrue())
			call, _ := h.calls.Of("task")
			g.Expect(call.Err != nil).To(Equal(c.err))
			g.Expect(call.Result.LastRevision).To(Equal(c.revision))
			g.Expect(a.urls).To(Equal(c.want))
			g.Expect(h.Cleanup(t.Context(), task)).To(Succeed())
			_, known := h.calls.Of("task")
			g.Expect(known).To(BeFalse())
		})
	}
	g := machine.Gomega(t)
	h := handlerOf(apitest.API(), nil)
	h.Agent = func(context.Context, *v1alpha1.Etcd) (api.Client, error) { return api.Client{}, errors.New("no key") }
	err := h.Perform(t.Context(), taskOf(newEtcd(), Config{}, nil).Task, tasks.Step{Detail: request{}})
	g.Expect(err).To(MatchError(ContainSubstring("no key")))
}

// What a task has begun ends with it: its Job, and those that look at volumes.
func TestCleanupOfJobs(t *testing.T) {
	g := NewWithT(t)
	etcd := newEtcd()
	task := taskOf(etcd, Config{To: &Target{Latest: true}}, nil)
	there := apitest.API(etcd, task.Object)
	run(t, there, at(saving).Snapshot, task)
	key := client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object)}
	g.Expect(there.Get(t.Context(), key, &batchv1.Job{})).To(Succeed())
	apitest.EachRequestFails(t, there, func(api client.WithWatch) error { return handlerOf(api, nil).Cleanup(t.Context(), task.Task) })
	g.Expect(handlerOf(there, nil).Cleanup(t.Context(), task.Task)).To(Succeed())
	g.Expect(client.IgnoreNotFound(there.Get(t.Context(), key, &batchv1.Job{}))).To(Succeed())
	g.Expect(there.Get(t.Context(), key, &batchv1.Job{})).NotTo(Succeed())
}

// The previews of an undo, and of a cluster with signed snapshots, read more, and each of that may fail.
func TestRequestsOfPreviews(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		there  []client.Object
		etcd   func(*v1alpha1.Etcd)
	}{
		"an undo": {Config{Undo: "r1"}, []client.Object{earlier()}, func(*v1alpha1.Etcd) {}},
		"signed": {Config{To: &Target{Latest: true}}, nil, func(e *v1alpha1.Etcd) {
			e.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := newEtcd(c.etcd)
			task := taskOf(etcd, c.config, nil)
			v := run(t, apitest.API(append(c.there, etcd, task.Object)...), at(saving).Snapshot, task)
			NewWithT(t).Expect(v.Outcome).To(Equal(tasks.Continue))
		})
	}
	_, err := at(surveying, stopped).choose()
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("no member has a volume")))
}
