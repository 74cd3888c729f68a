// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var created = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func etcdOf(uid types.UID) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: uid, CreationTimestamp: created}}
}

// taskOf is a task of an Etcd, owned by those of some UIDs.
func taskOf(state v1alpha1.TaskState, age time.Duration, owners ...types.UID) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "task", UID: "task", CreationTimestamp: metav1.NewTime(created.Add(-age))},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: state},
	}
	if state == v1alpha1.TaskStateInProgress {
		t.Status.InitiatedAt = &created
	}
	for _, uid := range owners {
		t.OwnerReferences = append(t.OwnerReferences, metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: uid})
	}
	return t
}

func TestForeign(t *testing.T) {
	change := func(t *v1alpha1.EtcdOperatorTask, change func(*metav1.OwnerReference)) *v1alpha1.EtcdOperatorTask {
		change(&t.OwnerReferences[0])
		return t
	}
	for name, tc := range map[string]struct {
		task *v1alpha1.EtcdOperatorTask
		says string
	}{
		"owned":                        {taskOf("", -time.Minute, "new"), ""},
		"owned, and older":             {taskOf("", time.Minute, "new"), ""},
		"not owned yet":                {taskOf("", -time.Minute), ""},
		"of the same second":           {taskOf("", 0), ""},
		"created before the Etcd":      {taskOf("", time.Second), "created at 2026-01-01T11:59:59Z, before the present Etcd main"},
		"of an earlier Etcd":           {taskOf("", time.Minute, "old"), "belongs to an earlier Etcd main, with UID old"},
		"younger, of an earlier Etcd":  {taskOf("", -time.Minute, "old"), "UID old"},
		"of both":                      {taskOf("", time.Minute, "new", "old"), "UID old"},
		"of an earlier API version":    {change(taskOf("", 0, "old"), func(o *metav1.OwnerReference) { o.APIVersion = "druid.gardener.cloud/v1" }), "UID old"},
		"of an Etcd of another name":   {change(taskOf("", 0, "old"), func(o *metav1.OwnerReference) { o.Name = "other" }), ""},
		"of another kind":              {change(taskOf("", 0, "old"), func(o *metav1.OwnerReference) { o.Kind = "Shoot" }), ""},
		"of a kind of the same name":   {change(taskOf("", 0, "old"), func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" }), ""},
		"of another kind, and earlier": {change(taskOf("", time.Hour, "old"), func(o *metav1.OwnerReference) { o.Kind = "Shoot" }), "created at"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			why := etcdtasks.Foreign(tc.task, etcdOf("new"))
			if tc.says == "" {
				g.Expect(why).To(BeEmpty())
				return
			}
			g.Expect(why).To(ContainSubstring(tc.says))
		})
	}
}

// scribe is a handler that writes down what it is asked for, and for which Etcd.
type scribe struct {
	tasks.Handler
	ran []types.UID
	// back says, of each admission and execution, whether etcd-druid had its finalizer on the Etcd.
	back    []bool
	cleaned []*v1alpha1.Etcd
	// stuck is why it cannot clean up.
	stuck error
}

func (h *scribe) Decode(string) (any, error)   { return nil, nil }
func (h *scribe) Recorded(string) (any, error) { return nil, nil }
func (h *scribe) WorkKey(context.Context, tasks.Task) (string, error) {
	return "the same for all", nil
}
func (h *scribe) Superseded(context.Context, tasks.Task) (string, error) { return "", nil }
func (h *scribe) Admit(_ context.Context, task tasks.Task) (tasks.Verdict, error) {
	h.back = append(h.back, ownership.DruidIsBack(task.Etcd))
	return tasks.Verdict{Outcome: tasks.Continue}, nil
}
func (h *scribe) Execute(_ context.Context, task tasks.Task) (tasks.Verdict, error) {
	h.ran, h.back = append(h.ran, task.Etcd.UID), append(h.back, ownership.DruidIsBack(task.Etcd))
	return tasks.Verdict{Outcome: tasks.Continue}, nil
}
func (h *scribe) Cleanup(_ context.Context, task tasks.Task) error {
	h.cleaned = append(h.cleaned, task.Etcd)
	return h.stuck
}

// stale is a cache that shows an Etcd of the past.
type stale struct {
	client.Client
	etcd *v1alpha1.Etcd
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if e, ok := into.(*v1alpha1.Etcd); ok && s.etcd != nil {
		s.etcd.DeepCopyInto(e)
		return nil
	}
	return s.Client.Get(ctx, key, into, options...)
}

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

// run has the engine look some times, with a cache that shows an Etcd, at an API server that has another one.
func (h *scribe) run(t *testing.T, cached, live *v1alpha1.Etcd, all ...*v1alpha1.EtcdOperatorTask) client.Client {
	t.Helper()
	g, scheme := NewWithT(t), runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.EtcdOperatorTask{}).WithObjects(live)
	g.Expect(etcdtasks.Index(t.Context(), indexer{builder})).To(Succeed())
	for _, task := range all {
		builder.WithObjects(task)
	}
	c := builder.Build()
	r := &Reconciler{
		Client: stale{c, cached}, Live: c, Registry: tasks.Registry{v1alpha1.OnDemandSnapshot: {Handler: h}}, Locker: &lock.Locks{},
		Recorder: &events.FakeRecorder{}, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: clock.RealClock{},
	}
	for range 5 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(live)})
		g.Expect(err).NotTo(HaveOccurred())
	}
	return c
}

// A task runs for the Etcd that it belongs to, and for no other of that name, whatever the cache shows.
func TestTaskRunsForItsOwnEtcdAlone(t *testing.T) {
	const pending, running = v1alpha1.TaskStatePending, v1alpha1.TaskStateInProgress
	for name, tc := range map[string]struct {
		task   *v1alpha1.EtcdOperatorTask
		cached types.UID
		// owner that the task runs for; empty when it is rejected.
		owner types.UID
	}{
		"of this Etcd":                                   {taskOf(running, -time.Minute, "new"), "new", "new"},
		"that has just been created":                     {taskOf("", -time.Minute), "new", "new"},
		"of this Etcd, and the cache shows the last one": {taskOf(running, -time.Minute, "new"), "old", "new"},
		"just created, and the cache shows the last one": {taskOf("", -time.Minute), "old", "new"},
		"of the last Etcd, pending":                      {taskOf(pending, time.Minute, "old"), "new", ""},
		"of the last Etcd, running":                      {taskOf(running, time.Minute, "old"), "new", ""},
		"of the last Etcd, on arrival":                   {taskOf("", time.Minute, "old"), "new", ""},
		"of the last Etcd, pending, as the cache shows":  {taskOf(pending, time.Minute, "old"), "old", ""},
		"of the last Etcd, running, as the cache shows":  {taskOf(running, time.Minute, "old"), "old", "old"},
		"created before the Etcd":                        {taskOf("", time.Minute), "new", ""},
		"created before, and the cache shows the last":   {taskOf("", time.Minute), "old", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cached := etcdOf(tc.cached)
			if tc.cached == "old" {
				cached.CreationTimestamp = metav1.NewTime(created.Add(-time.Hour))
			}
			h := &scribe{}
			c := h.run(t, cached, etcdOf("new"), tc.task)
			after := &v1alpha1.EtcdOperatorTask{}
			g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(tc.task), after)).To(Succeed())
			if tc.owner != "" {
				g.Expect(h.ran).NotTo(BeEmpty())
				g.Expect(h.ran).To(HaveEach(tc.owner))
				g.Expect(after.OwnerReferences).To(HaveLen(1))
				g.Expect(after.OwnerReferences[0].UID).To(Equal(tc.owner))
				return
			}
			g.Expect(h.ran).To(BeEmpty())
			g.Expect(after.Status.State).To(Equal(v1alpha1.TaskStateRejected))
			g.Expect(after.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrEtcdReplaced))
			g.Expect(after.Status.LastErrors[0].Description).To(ContainSubstring("create it again"))
			g.Expect(after.OwnerReferences).To(Equal(tc.task.OwnerReferences), "the present Etcd does not adopt it")
			g.Expect(after.Status.ArrivalResourceVersion == "").To(Equal(tc.task.Status.State != ""), "it has arrived")
			if tc.task.Status.State == running {
				g.Expect(h.cleaned).To(Equal([]*v1alpha1.Etcd{nil}), "what it leaves behind is not the present Etcd's")
			}
		})
	}
}

// A task is admitted, and takes its first step, for the Etcd as the API server has it: right after an adoption, a cache that lags still has the
// finalizer of etcd-druid, for which the task would end.
func TestTaskIsAdmittedForTheLiveEtcd(t *testing.T) {
	for _, back := range []bool{false, true} {
		cached, live, h := etcdOf("new"), etcdOf("new"), &scribe{}
		if back {
			live.Finalizers = []string{v1alpha1.FinalizerDruid}
		} else {
			cached.Finalizers = []string{v1alpha1.FinalizerDruid}
		}
		h.run(t, cached, live, taskOf(v1alpha1.TaskStatePending, -time.Minute, "new"))
		NewWithT(t).Expect(h.back[:2]).To(HaveExactElements(back, back))
	}
}

// A task of the last Etcd neither goes before those of this one, nor makes one of them a duplicate, even while it cannot be
// ended.
func TestTaskOfTheLastEtcdStandsInNobodysWay(t *testing.T) {
	for _, state := range []v1alpha1.TaskState{v1alpha1.TaskStatePending, v1alpha1.TaskStateInProgress} {
		g := NewWithT(t)
		before, next := taskOf(state, time.Minute, "old"), taskOf("", -time.Minute)
		next.Name, next.UID = "next", "next"
		h := &scribe{stuck: errors.New("something is left")}
		c := h.run(t, etcdOf("new"), etcdOf("new"), before, next)
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(next), next)).To(Succeed())
		g.Expect(next.Status.State).To(Equal(v1alpha1.TaskStateInProgress))
		g.Expect(h.ran).To(HaveEach(types.UID("new")))
	}
}
