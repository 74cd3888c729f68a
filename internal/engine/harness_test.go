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
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// actor is a handler that does as it is told. Without orders it waits, and cleans up.
type actor struct {
	execute func() tasks.Verdict
	// executes takes the place of execute where the task matters.
	executes func(tasks.Task) tasks.Verdict
	// onExecute is asked before either; an error takes the place of a verdict.
	onExecute func() error
	cleanUp   func() error
	// onAdmit and onPerform are what it answers. keys counts the work keys that it was asked for, and noKey is the task for which it has none.
	onAdmit   func() (tasks.Verdict, error)
	onPerform func() error
	keys      int
	noKey     string
	// undecodable is a config that it cannot decode.
	undecodable string
	// restore is why the config of a task that was admitted cannot be read.
	restore error
	// superseded says by what every task is; failure is why it cannot say.
	superseded string
	failure    error
	// shown is the status of the last task that it carried a step out for.
	shown v1alpha1.EtcdOperatorTaskStatus
	// The names of the tasks that it was asked to admit, to carry a step out for, and to clean up after.
	admitted, performed, cleaned []string
}

var _ tasks.Handler = (*actor)(nil)

func (a *actor) Decode(config string) (any, error) {
	if config != "" && config == a.undecodable {
		return nil, errors.New("it cannot be decoded")
	}
	return config, nil
}
func (a *actor) Recorded(config string) (any, error) { return config, a.restore }
func (a *actor) WorkKey(_ context.Context, task tasks.Task) (string, error) {
	a.keys++
	if a.noKey == task.Object.Name {
		return "", errors.New("the API server is away")
	}
	return task.Config.(string), nil
}
func (a *actor) Superseded(context.Context, tasks.Task) (string, error) {
	return a.superseded, a.failure
}
func (a *actor) Admit(_ context.Context, task tasks.Task) (tasks.Verdict, error) {
	a.admitted = append(a.admitted, task.Object.Name)
	if a.onAdmit != nil {
		return a.onAdmit()
	}
	return tasks.Verdict{Outcome: tasks.Continue, Message: "nothing is in its way"}, nil
}
func (a *actor) Execute(_ context.Context, task tasks.Task) (tasks.Verdict, error) {
	if _, ok := task.Config.(string); !ok {
		return tasks.Verdict{}, errors.New("the task has no config")
	}
	if a.onExecute != nil {
		if err := a.onExecute(); err != nil {
			return tasks.Verdict{}, err
		}
	}
	if a.executes != nil {
		return a.executes(task), nil
	}
	if a.execute == nil {
		return tasks.Verdict{Outcome: tasks.Continue, Message: "it waits"}, nil
	}
	return a.execute(), nil
}
func (a *actor) Perform(_ context.Context, task tasks.Task, _ tasks.Step) error {
	a.performed, a.shown = append(a.performed, task.Object.Name), *task.Object.Status.DeepCopy()
	if a.onPerform != nil {
		return a.onPerform()
	}
	return nil
}
func (a *actor) Cleanup(_ context.Context, task tasks.Task) error {
	a.cleaned = append(a.cleaned, task.Object.Name)
	if a.cleanUp == nil {
		return nil
	}
	return a.cleanUp()
}

// step is a verdict with a step.
func step() tasks.Verdict {
	return tasks.Verdict{Outcome: tasks.Continue, Step: &tasks.Step{Operation: "Try", Reason: "it is time"}}
}

// mainKey is the Etcd that all tasks of these tests are for.
var mainKey = types.NamespacedName{Namespace: "ns", Name: "main"}

// server is an API server in memory.
type server struct {
	client.Client
	tracker client.WithWatch
	// beforeStatus is asked before a status is written; an error refuses it.
	beforeStatus func() error
	// beforeDelete and beforePatch refuse every deletion and patch; nil refuses none.
	beforeDelete, beforePatch error
	created                   int
	// now is the time by its clock. ended is when statuses became final, by that clock; zero if it is not known.
	now   func() time.Time
	ended time.Time
	asked int
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{tracker: storage(t)}
	s.Client = interceptor.NewClient(s.tracker, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
				s.asked++
				review.CreationTimestamp = metav1.NewTime(s.now())
				return nil
			}
			return c.Create(ctx, o, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if task, ok := o.(*v1alpha1.EtcdOperatorTask); ok && !s.ended.IsZero() {
				task.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: s.ended.Add(-time.Minute)}, Subresource: "status"}, {Time: &metav1.Time{Time: s.ended}, Subresource: "status"}, {Time: &metav1.Time{Time: s.ended.Add(time.Hour)}}}
			}
			return err
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if s.beforeStatus != nil {
				if err := s.beforeStatus(); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if s.beforePatch != nil {
				return s.beforePatch
			}
			return c.Patch(ctx, o, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if s.beforeDelete != nil {
				return s.beforeDelete
			}
			if err := s.sameUID(ctx, o, options); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
	})
	return s
}

// sameUID checks the precondition of a deletion that the fake does not: there, resourceVersions begin again with each object.
func (s *server) sameUID(ctx context.Context, o client.Object, options []client.DeleteOption) error {
	given := (&client.DeleteOptions{}).ApplyOptions(options)
	task := &v1alpha1.EtcdOperatorTask{}
	if given.Preconditions == nil || given.Preconditions.UID == nil || s.tracker.Get(ctx, client.ObjectKeyFromObject(o), task) != nil {
		return nil
	}
	if task.UID != *given.Preconditions.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "etcdoperatortasks"}, task.Name, errors.New("the UID in the precondition does not match"))
	}
	return nil
}

// storage keeps an Etcd and other objects.
func storage(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: mainKey.Namespace, Name: mainKey.Name, UID: "etcd", CreationTimestamp: metav1.Time{Time: epoch}}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.EtcdOperatorTask{}).WithObjects(append(objects, etcd)...)
	if err := etcdtasks.Index(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

// add creates a task that has arrived, a second after the one before it.
func (s *server) add(t *testing.T, name string, state v1alpha1.TaskState, change ...func(*v1alpha1.EtcdOperatorTask)) {
	t.Helper()
	s.created++
	task := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mainKey.Namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Time{Time: epoch.Add(time.Duration(s.created) * time.Second)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: mainKey.Name, UID: "etcd"}},
		},
		Spec:   v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot, Config: name, OwnerEtcdReference: v1alpha1.EtcdReference{Name: mainKey.Name}},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: state, ArrivalResourceVersion: "1"},
	}
	if state == v1alpha1.TaskStateInProgress {
		task.Status.InitiatedAt = &metav1.Time{Time: epoch}
	}
	for _, c := range change {
		c(task)
	}
	status := task.Status
	if err := s.tracker.Create(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	task.Status = status
	if err := s.tracker.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
}

// get returns a task; nil when there is none of that name.
func (s *server) get(t *testing.T, name string) *v1alpha1.EtcdOperatorTask {
	t.Helper()
	task := &v1alpha1.EtcdOperatorTask{}
	err := s.tracker.Get(t.Context(), types.NamespacedName{Namespace: mainKey.Namespace, Name: name}, task)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// change changes the spec of a task.
func (s *server) change(t *testing.T, name string, set func(*v1alpha1.EtcdOperatorTask)) {
	t.Helper()
	task := s.get(t, name)
	set(task)
	if err := s.tracker.Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
}

// deleteA deletes the task of that name, which is the first one in all of these tests.
func (s *server) deleteA(t *testing.T) {
	t.Helper()
	if err := s.tracker.Delete(t.Context(), s.get(t, "a")); err != nil {
		t.Fatal(err)
	}
}

// lagging is a client whose cache stands still.
type lagging struct {
	client.Client
	cache client.Reader
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return l.cache.Get(ctx, key, into, options...)
}

func (l lagging) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	return l.cache.List(ctx, into, options...)
}

// freeze returns a client that writes to the server, and reads what the server has now, whatever it has later.
func (s *server) freeze(t *testing.T) client.Client {
	t.Helper()
	all := &v1alpha1.EtcdOperatorTaskList{}
	if err := s.tracker.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for i := range all.Items {
		objects = append(objects, &all.Items[i])
	}
	return lagging{Client: s.Client, cache: storage(t, objects...)}
}

// engine is a task engine before a server.
type engine struct {
	*WithT
	t *testing.T
	*actor
	server *server
	clock  *clocktesting.FakePassiveClock
	events chan string
	// gatherer has the metrics.
	gatherer prometheus.Gatherer
	*Reconciler
}

func newEngine(t *testing.T, s *server) *engine {
	t.Helper()
	registry := prometheus.NewRegistry()
	e := &engine{
		WithT: NewWithT(t), t: t, actor: &actor{}, server: s, gatherer: registry,
		clock: clocktesting.NewFakePassiveClock(epoch.Add(time.Minute)), events: make(chan string, 1000),
	}
	s.now = e.clock.Now
	e.Reconciler = &Reconciler{
		Client: s.Client, Live: s.Client, Registry: tasks.Registry{v1alpha1.OnDemandSnapshot: {Handler: e.actor}}, Locker: &lock.Locks{},
		Recorder: &events.FakeRecorder{Events: e.events}, Metrics: NewMetrics(registry), Clock: e.clock,
	}
	return e
}

// look has the engine look once, and returns when it wants to look again.
func (e *engine) look() time.Duration {
	e.t.Helper()
	result, err := e.Reconcile(e.t.Context(), ctrl.Request{NamespacedName: mainKey})
	e.Expect(err).NotTo(HaveOccurred())
	return result.RequeueAfter
}

func (e *engine) pass(d time.Duration) { e.clock.SetTime(e.clock.Now().Add(d)) }

// told are the events since it was last asked.
func (e *engine) told() []string {
	var all []string
	for len(e.events) > 0 {
		all = append(all, <-e.events)
	}
	return all
}

// progress is the reason and the message of a task's condition Progressing.
func (e *engine) progress(name string) string {
	e.t.Helper()
	task := e.server.get(e.t, name)
	return task.Status.Progressing().Reason + ": " + task.Status.Progressing().Message
}

// runs is how many tasks the engine remembers to run.
func (e *engine) runs() (n int) {
	for _, r := range e.books.etcds[mainKey] {
		if r.run != nil {
			n++
		}
	}
	return n
}

// state is that of a task.
func (e *engine) state(name string) v1alpha1.TaskState {
	e.t.Helper()
	return e.server.get(e.t, name).Status.State
}
