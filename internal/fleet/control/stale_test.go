// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// task reads the task of a cluster as the API server shows it now, and its Etcd.
func (w *world) task(i int) tasks.Task {
	w.t.Helper()
	task := tasks.Task{Object: &v1alpha1.EtcdOperatorTask{}, Etcd: &v1alpha1.Etcd{}}
	for name, object := range map[string]client.Object{"task": task.Object, "main": task.Etcd} {
		if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: namespaceOf(i), Name: name}, object); err != nil {
			w.t.Fatal(err)
		}
	}
	return task
}

// asks asks about a task as it was read.
func (o *operator) asks(task tasks.Task) *engine.Wait {
	o.world.t.Helper()
	wait, err := o.Ask(o.world.t.Context(), task)
	if err != nil {
		o.world.t.Fatal(err)
	}
	return wait
}

// counted returns how many writes an operator sends while it does something; more than a few are refused, so that this has an end.
func (o *operator) counted(do func()) (writes int) {
	before := o.write
	defer func() { o.write = before }()
	o.write = func(do func() error) error {
		if writes++; writes > 9 {
			return errLost
		}
		return do()
	}
	do()
	return writes
}

// mayStart expects that a task does not have to wait.
func (w *world) mayStart(wait *engine.Wait) {
	w.t.Helper()
	if wait != nil {
		w.t.Fatalf("%+v", wait)
	}
}

// waits expects that a task has to wait, with a reason and a part of the message; empty for any.
func (w *world) waits(wait *engine.Wait, reason, message string) {
	w.t.Helper()
	if wait == nil || reason != "" && wait.Reason != reason || !strings.Contains(wait.Message, message) {
		w.t.Fatalf("%+v", wait)
	}
}

// begin writes the start of a task on what was read of it.
func (w *world) begin(task tasks.Task) error {
	status.RecordAdmission(task.Object, "", "", w.clock.Now())
	return w.api.Status().Update(w.t.Context(), task.Object)
}

// An operator that has read an older task than its twin does not take over the slot: the start that the twin was granted can still be
// written.
func TestATwinThatHasReadAnOlderTask(t *testing.T) {
	w := newWorld(t, 2, 1)
	o, twin := w.operator(), w.operator()
	if _, err := twin.Store.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := w.task(0)
	changed := w.task(0).Object
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "a", "b")
	if err := w.api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	granted := w.task(0)
	w.mayStart(twin.asks(granted))
	if wait := o.asks(old); wait == nil || wait.RequeueAfter != stale || !strings.Contains(wait.Message, "the cache does not show the task") {
		t.Errorf("%+v", wait)
	}
	o.pass(interval)
	o.start(1)
	if err := w.begin(granted); err != nil {
		t.Fatal(err)
	}
	w.judge()
	// A grant that is void is replaced.
	w.finish()
	o.pass(interval)
	granted = w.task(1)
	w.mayStart(o.asks(granted))
	changed = w.task(1).Object
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "a", "b")
	if err := w.api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if wait := w.operator().asks(w.task(1)); wait != nil {
		t.Errorf("%+v", wait)
	}
	if w.begin(granted) == nil {
		t.Error("the first grant is void")
	}
}

// An operator whose cache does not show that a policy was replaced by another of its name, or that there is a further one, grants nothing
// by what it shows.
func TestAPolicyThatWasReplaced(t *testing.T) {
	strict := func(name string) *v1alpha1.EtcdFleetPolicy {
		p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "later", Generation: 1}}
		p.Spec.MaxConcurrent, p.Spec.Canary.Count, p.Spec.Soak = ptr.To(intstr.FromInt32(1)), ptr.To(int32(0)), &metav1.Duration{}
		return p
	}
	for name, change := range map[string]func(*world){
		"replaced": func(w *world) {
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
			if err := w.api.Create(t.Context(), strict("all")); err != nil {
				t.Fatal(err)
			}
		},
		"joined": func(w *world) {
			if err := w.api.Create(t.Context(), strict("more")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 3)
			o, twin := w.operator(), w.operator()
			// It is paused with this view of the cluster: its next ones show nothing newer.
			o.pass(interval)
			view, err := o.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			change(w)
			w.limit = 1
			twin.pass(interval)
			twin.start(0)
			o.seen, o.seenAt = view, w.clock.Now()
			w.waits(o.ask(1), "", "has changed, and the cache does not show how yet")
			// One that knows the ledger of its twin does not write it again.
			late := w.operator()
			late.seen, late.seenAt = view, w.clock.Now()
			if writes := late.counted(func() { w.waits(late.ask(1), "", "has changed, and the cache does not show how yet") }); writes > 0 {
				t.Errorf("%d writes that say nothing new", writes)
			}
			o.start(1)
			w.judge()
			// Its cache shows it.
			o.pass(interval)
			w.waits(o.ask(1), "", "no slot")
			w.finish()
			o.pass(interval)
			w.mayStart(o.ask(1))
		})
	}
}

// A stale operator does not record a policy that was replaced.
func TestAReplacedPolicyIsNotRecordedAgain(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	before := w.read()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopy()
	after.UID, after.ResourceVersion = "later", ""
	if err := w.api.Create(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	w.operator().pass(interval)
	l, err := w.operator().Store.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, err := o.replaced(t.Context(), v, l)
	if err != nil || len(gone) > 0 || l.Record(v.policies["all"]) || l.Recorded("all").UID != "later" {
		t.Errorf("%v %v %+v", gone, err, l.Policies)
	}
}

// The status of an Etcd follows what happens to its pods. A slot of a task that was deleted while it ran is released once the cluster has
// lacked no member for as long as that may take.
func TestADeletedTaskOfAnEtcdWhoseStatusLags(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	o.start(0)
	if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
		t.Fatal(err)
	}
	o.pass(settle - interval)
	w.waits(o.ask(1), "", "")
	w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
	o.pass(2 * settle)
	w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue))
	o.pass(settle)
	w.waits(o.ask(1), "", "")
	o.pass(2 * interval)
	w.mayStart(o.ask(1))
}

// Once the last policy is gone, all tasks that wait are told to ask again.
func TestTheLastPolicyGoes(t *testing.T) {
	w := newWorld(t, 3, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
	o := w.operator()
	for i := range w.n {
		if o.ask(i) == nil {
			t.Fatal("it is paused")
		}
	}
	if err := w.api.Delete(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	if result, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil || result.RequeueAfter != 0 {
		t.Errorf("%+v %v", result, err)
	}
	woken := map[string]bool{}
	for len(o.wakes) > 0 {
		woken[(<-o.wakes).Object.GetNamespace()] = true
	}
	if len(woken) != w.n || len(o.waiting) > 0 {
		t.Errorf("%v are woken, %d wait", woken, len(o.waiting))
	}
}

// The status of a policy names the first few clusters in which a change failed. A ledger that is made of it is paused as the lost one was.
func TestALostLedgerWithManyFailures(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxFailures = maxFailures + 1 })
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		for i := range maxFailures + 2 {
			name := fmt.Sprint("gone", i)
			l.Grant(fleet.Holder{Task: types.UID(name), TaskName: name, Namespace: "ns", Etcd: types.UID(name), EtcdName: name, Policies: []string{"all"}, Change: "A", Granted: w.clock.Now()})
			l.Failed(types.UID(name), "it crashes", w.clock.Now())
			l.Release(types.UID(name), w.clock.Now())
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	o.pass(interval)
	token := w.read().Status.Changes[0].ResumeToken
	if token == "" {
		t.Fatalf("%+v", w.read().Status)
	}
	w.lose()
	w.clock.Step(time.Hour)
	o = w.operator()
	o.pass(interval)
	if s := w.read().Status; s.Changes[0].Paused == "" || s.Changes[0].ResumeToken != token {
		t.Errorf("%+v", s.Changes)
	}
	// One that is not paused has no token, and none from before resumes it.
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.MaxFailures = 0
		p.Annotations = map[string]string{v1alpha1.AnnotationResumeChange: token}
	})
	o.pass(interval)
	w.lose()
	o = w.operator()
	o.pass(interval)
	fail := func() {
		t.Helper()
		if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
			l.Grant(fleet.Holder{Task: "again", TaskName: "again", Namespace: "ns", Etcd: "again", EtcdName: "again", Policies: []string{"all"}, Change: "A", Granted: w.clock.Now()})
			l.Failed("again", "it crashes", w.clock.Now())
			return true
		}); err != nil {
			t.Fatal(err)
		}
		o.pass(interval)
		if s := w.read().Status; s.Changes[0].Paused == "" {
			t.Errorf("an old decision resumes it: %+v", s.Changes)
		}
	}
	fail()
	// Nor does one of a ledger that was made before, and lost.
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationResumeChange: p.Status.Changes[0].ResumeToken}
	})
	o.pass(interval)
	if s := w.read().Status; s.Changes[0].Paused != "" {
		t.Errorf("it is not resumed: %+v", s.Changes)
	}
	w.lose()
	w.clock.Step(time.Hour)
	o = w.operator()
	o.pass(interval)
	fail()
}

// An operator that works in some namespaces alone does not read, count or fence tasks of others, whatever namespaces a policy selects: there
// it may lack the right, and another operator has a ledger of its own.
func TestAnOperatorOfSomeNamespaces(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	o.Namespaces = []string{namespaceOf(0)}
	o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if in := (&client.ListOptions{}).ApplyOptions(options); in.Namespace == namespaceOf(1) {
				return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("etcdoperatortasks").GroupResource(), "", nil)
			}
			return c.List(ctx, list, options...)
		},
	})
	before := w.task(1).Object.ResourceVersion
	o.pass(2 * interval)
	w.mayStart(o.ask(0))
	if after := w.task(1).Object.ResourceVersion; after != before {
		t.Error("a task of another operator was fenced")
	}
}

// labeled sets the labels of the namespace of a cluster.
func (w *world) labeled(i int, labels map[string]string) {
	w.t.Helper()
	ns := &corev1.Namespace{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: namespaceOf(i)}, ns); err != nil {
		w.t.Fatal(err)
	}
	ns.Labels = labels
	if err := w.api.Update(w.t.Context(), ns); err != nil {
		w.t.Fatal(err)
	}
}

// An operator whose cache does not show a policy yet, its present spec, or that it selects a namespace, starts nothing there: neither a
// task that needs no slot by what it shows, nor one that would get a slot.
func TestWhatTheCacheDoesNotShowYet(t *testing.T) {
	prod := map[string]string{"tier": "prod"}
	pausing := func(name string) *v1alpha1.EtcdFleetPolicy {
		p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "later", Generation: 1}}
		p.Spec.MaxConcurrent, p.Spec.Canary.Count = ptr.To(intstr.FromInt32(0)), ptr.To(int32(0))
		return p
	}
	remove := func(w *world) {
		if err := w.api.Delete(t.Context(), w.read()); err != nil {
			t.Fatal(err)
		}
	}
	create := func(p *v1alpha1.EtcdFleetPolicy) func(*world) {
		return func(w *world) {
			if err := w.api.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	selecting := func(p *v1alpha1.EtcdFleetPolicy) *v1alpha1.EtcdFleetPolicy {
		p.Spec.NamespaceSelector.MatchLabels = prod
		return p
	}
	for name, c := range map[string]struct{ before, then func(*world) }{
		"the first policy":           {remove, create(pausing("all"))},
		"a further policy":           {func(*world) {}, create(pausing("more"))},
		"one that was created again": {func(*world) {}, func(w *world) { remove(w); create(pausing("all"))(w) }},
		"no slots any more": {func(*world) {}, func(w *world) {
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(0)) })
		}},
		"paused":                          {func(*world) {}, func(w *world) { w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true }) }},
		"a namespace that gets a label":   {func(w *world) { remove(w); create(selecting(pausing("prod")))(w) }, func(w *world) { w.labeled(0, prod) }},
		"one that another policy selects": {create(selecting(pausing("prod"))), func(w *world) { w.labeled(0, prod) }},
		"a selector that cannot be read": {func(*world) {}, func(w *world) {
			p := pausing("x")
			p.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Likes"}}
			create(p)(w)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1)
			c.before(w)
			o := w.operator()
			o.pass(interval)
			view, err := o.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.then(w)
			shows := func() {
				o.seen, o.seenAt, o.hidden = view, w.clock.Now(), view == nil
			}
			shows()
			if wait := o.ask(0); wait == nil || wait.Reason != v1alpha1.ReasonWaitingForSlot || !strings.Contains(wait.Message, "has changed, and the cache does not show how yet") || wait.RequeueAfter != stale {
				t.Errorf("%+v", wait)
			}
			o.hidden = false
			o.pass(interval)
			w.waits(o.ask(0), v1alpha1.ReasonFleetPaused, "")
			// A person has it start, whatever the cache shows.
			shows()
			task := w.task(0)
			metav1.SetMetaDataAnnotation(&task.Object.ObjectMeta, v1alpha1.AnnotationBypassFleet, "true")
			w.mayStart(o.asks(task))
		})
	}
}

// What a policy that is gone, or selects the namespace no longer, would have allowed starts all the same.
func TestAPolicyThatTheCacheShowsStill(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	view, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.Paused, p.Spec.NamespaceSelector.MatchLabels = true, map[string]string{"tier": "other"}
	})
	o.seen, o.seenAt = view, w.clock.Now()
	w.mayStart(o.ask(0))
}

// A task that got a slot, and whose start was not written, does not start once the policy is paused.
func TestASlotOfAPolicyThatWasPaused(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	granted := w.task(0)
	w.mayStart(o.asks(granted))
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
	w.clock.Step(maxAge)
	// As one asks whose cache does not show a change of the task: its start may still be written.
	late := w.task(0)
	changed := w.task(0).Object
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "a", "b")
	if err := w.api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	w.waits(o.asks(late), v1alpha1.ReasonFleetPaused, "")
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) != 1 {
		t.Errorf("it does not know that it cannot: %+v %v", l, err)
	}
	w.waits(o.ask(0), v1alpha1.ReasonFleetPaused, "")
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) > 0 || w.begin(granted) == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A task that was granted a slot keeps it while it is not confirmed that it may still start: a twin may yet write its start.
func TestASlotIsKeptUntilItIsConfirmedAgain(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	w.mayStart(o.ask(0))
	o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errLost },
	})
	if _, err := o.Ask(t.Context(), w.task(0)); !errors.Is(err, errLost) {
		t.Errorf("%v", err)
	}
	if l, err := w.operator().Store.Read(t.Context()); err != nil || l.Holder("task0") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A task that runs without a slot is recorded by one write when another one asks, once it was read.
func TestATaskThatIsMetIsRecordedOnce(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	o.pass(interval)
	if err := w.begin(w.task(1)); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(maxAge)
	if writes := o.counted(func() { w.waits(o.ask(0), "", "no slot") }); writes != 1 {
		t.Errorf("%d writes", writes)
	}
	if l, err := w.operator().Store.Read(t.Context()); err != nil || l.Holder("task1") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A ledger is not made again of what the cache shows while it does not show each policy as it is: what that allows was never counted.
func TestALedgerIsNotMadeOfAStaleCache(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	view, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
	o.seen, o.seenAt = view, w.clock.Now()
	if l, err := o.Store.Read(t.Context()); err == nil {
		t.Errorf("%+v", l)
	}
	w.clock.Step(maxAge)
	if _, err := o.Store.Read(t.Context()); err != nil {
		t.Error(err)
	}
}

// A task that has ended, and whose slot is free, takes none again because a cache that lags shows that it runs: neither in a pass nor when
// another task asks. Found by two operators of which one was paused.
func TestATaskThatStillRunsInTheCache(t *testing.T) {
	for name, look := range map[string]func(o *operator, old *view){
		"in a pass": func(o *operator, old *view) {
			known, err := o.Store.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n, err := o.news(t.Context(), old, known)
			if err != nil {
				t.Fatal(err)
			}
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { return o.record(l, old, n) }); err != nil {
				t.Fatal(err)
			}
		},
		"when another asks": func(o *operator, old *view) {
			o.mu.Lock()
			o.seen, o.seenAt = old, o.Clock.Now()
			o.mu.Unlock()
			if wait := o.asks(o.world.task(1)); wait != nil {
				t.Errorf("it waits for a slot that is free: %+v", wait)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 1)
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To[int32](0) })
			o := w.operator()
			o.pass(interval)
			running := w.task(0)
			w.mayStart(o.asks(running))
			if err := w.begin(running); err != nil {
				t.Fatal(err)
			}
			o.refresh()
			old, err := o.look(t.Context())
			if err != nil || old.tasks[running.Object.UID] == nil {
				t.Fatal(err, "the cache does not show the task")
			}
			w.finish()
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Release(running.Object.UID, w.clock.Now()); return true }); err != nil {
				t.Fatal(err)
			}
			look(o, old)
			l, err := o.Store.Read(t.Context())
			if err != nil || l.Holder(running.Object.UID) != nil {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// A pass may take a task out of the line while it asks, since its twin has started it. It starts nothing, no matter which of them asks.
func TestATaskThatLeavesTheLineWhileItAsks(t *testing.T) {
	for _, bypass := range []bool{false, true} {
		w := newWorld(t, 1, 1)
		o := w.operator()
		o.pass(interval)
		task := w.task(0)
		if bypass {
			metav1.SetMetaDataAnnotation(&task.Object.ObjectMeta, v1alpha1.AnnotationBypassFleet, "true")
		}
		w.mayStart(o.asks(task))
		v, err := o.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l, err := o.Store.Read(t.Context())
		if err != nil || l.Holder(task.Object.UID) == nil {
			t.Fatal(l, err)
		}
		a := &attempt{Controller: o.Controller, view: v, task: task, candidate: fleet.Candidate{Task: task.Object.UID, Namespace: task.Object.Namespace, Etcd: task.Etcd.UID}, confirmed: true}
		next := *l
		a.try(&next)
		if a.granted || a.decision.Hold == nil {
			t.Errorf("bypass %t: %+v", bypass, a.decision)
		}
	}
}

// An operator was about to ask for a task that it has read before its twin's last write to it, and waits for a slot by what it knows. The
// twin was granted the slot by then, and the task has started, or has ended and its cluster is watched: that it is not any more as it was
// when it got its slot voids nothing. Found by two operators of which one was paused: the slot of a task that ran was given to another, and
// the task took one beyond the limit, and was not counted as done.
func TestATwinThatAsksForATaskThatHasStarted(t *testing.T) {
	for name, c := range map[string]struct {
		older, full, ended bool
	}{
		"it may start":                       {older: true},
		"it has to wait":                     {older: true, full: true},
		"it may start, and has ended":        {older: true, ended: true},
		"it has to wait, and has ended":      {older: true, full: true, ended: true},
		"it may start, as it was, and ended": {ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1)
			o, twin := w.operator(), w.operator()
			twin.pass(interval)
			read := w.task(0)
			if c.older {
				changed := w.task(0).Object
				metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "a", "b")
				if err := w.api.Update(t.Context(), changed); err != nil {
					t.Fatal(err)
				}
			}
			granted := w.task(0)
			w.mayStart(twin.asks(granted))
			if err := w.begin(granted); err != nil {
				t.Fatal(err)
			}
			if c.ended {
				w.finish()
			}
			if err := twin.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
				if c.ended {
					// It is watched.
					l.Holder(read.Object.UID).Change = "A"
					l.Succeeded(read.Object.UID, w.clock.Now())
				}
				return c.ended
			}); err != nil {
				t.Fatal(err)
			}
			before, err := w.operator().Store.Read(t.Context())
			if err != nil || before.Holder(read.Object.UID) == nil {
				t.Fatal(before, err)
			}
			if c.full {
				w.lackMember(1)
			}
			if wait := o.asks(read); wait == nil || wait.RequeueAfter != stale {
				t.Errorf("%+v", wait)
			}
			after, err := w.operator().Store.Read(t.Context())
			if err != nil || !reflect.DeepEqual(before.Holder(read.Object.UID), after.Holder(read.Object.UID)) {
				t.Errorf("%+v, then %+v, %v", before.Holders, after.Holders, err)
			}
		})
	}
}

// An operator has read that a task runs of which the ledger that it knows says nothing, and is paused before it writes that. Since then, the
// ledger has had the task, and has it no more: it has ended, and another one has its slot.
func TestATaskThatRanForTheLedgerOfBefore(t *testing.T) {
	for name, look := range map[string]func(o *operator){
		"in a pass": func(o *operator) {
			_, _ = o.Reconcile(o.world.t.Context(), ctrl.Request{})
		},
		"in a pass that counts": func(o *operator) {
			// A policy is new to the ledger.
			if err := o.world.api.Create(o.world.t.Context(), &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "more", UID: "more", Generation: 1}}); err != nil {
				o.world.t.Fatal(err)
			}
			_, _ = o.Reconcile(o.world.t.Context(), ctrl.Request{})
		},
		"when another asks": func(o *operator) { _, _ = o.Ask(o.world.t.Context(), o.world.task(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1)
			o, twin := w.operator(), w.operator()
			o.pass(interval)
			// The ledger that it has in memory does not know of the task.
			twin.pass(interval)
			twin.start(0)
			w.clock.Step(2 * time.Second)
			paused := false
			o.write = func(do func() error) error {
				if !paused {
					paused = true
					w.finish()
					twin.pass(interval)
					twin.start(1)
					if running := w.running(); len(running) != 1 || running[0] != 1 {
						t.Fatalf("%v run", running)
					}
				}
				return do()
			}
			look(o)
			if !paused {
				t.Error("it was not paused")
			}
			o.pass(interval)
			w.judge()
			l, err := w.operator().Store.Read(t.Context())
			if err != nil || l.Holder(w.task(0).Object.UID) != nil || l.Holder(w.task(1).Object.UID) == nil {
				t.Errorf("%+v, %v", l.Holders, err)
			}
		})
	}
}

// A task that has ended, and was released, gets no slot by what was read of it before.
func TestATaskThatIsOverAsks(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	read := w.task(0)
	o.start(0)
	w.finish()
	o.pass(interval)
	if l, err := o.Store.Read(t.Context()); err != nil || l.Holder(read.Object.UID) != nil {
		t.Fatalf("%+v, %v", l, err)
	}
	w.waits(o.asks(read), v1alpha1.ReasonWaitingForSlot, "does not show yet that the task has ended")
}

// Nothing is granted before it was read again whether a task runs without a slot, once the ledger was written by another operator, although
// there is only one such task.
func TestNothingIsGrantedBeforeATaskWithoutASlotIsReadAgain(t *testing.T) {
	w := newWorld(t, 3, 2)
	o := w.operator()
	o.pass(interval)
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(maxAge)
	reads := 0
	o.readLive(func() {
		twin := w.operator()
		// The first read is of the task, and the second of the policies, before the last slot is granted.
		if reads++; reads == 2 {
			if err := twin.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
				l.Grant(fleet.Holder{Task: "task2", TaskName: "task", Namespace: "ns2", Etcd: "etcd2", EtcdName: "main", Policies: []string{"all"}})
				return true
			}); err != nil {
				t.Fatal(err)
			}
		}
		if l, err := twin.Store.Read(t.Context()); err != nil || l.Holder(w.task(1).Object.UID) != nil {
			t.Errorf("%+v, %v", l, err)
		}
	})
	if w.waits(o.ask(1), v1alpha1.ReasonWaitingForSlot, "no slot"); reads < 4 {
		t.Errorf("%d reads", reads)
	}
}

// A task that was granted a slot keeps it until it starts, although one that goes ahead of it asks; while that waits, nothing is written.
func TestWhoGoesAheadTakesNoGrantedSlot(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.OrderBy = "wave" })
	w.labeled(1, map[string]string{"wave": "0"})
	o := w.operator()
	o.pass(interval)
	w.mayStart(o.ask(0))
	if n := o.counted(func() { w.waits(o.ask(1), v1alpha1.ReasonWaitingForSlot, "no slot") }); n > 0 {
		t.Errorf("%d writes", n)
	}
	w.mayStart(o.ask(0))
}

// The ledger knows the generation of a policy by which it gave a slot: nothing is granted by an older one any more.
func TestAGrantRecordsTheGeneration(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxFailures = 1 })
	w.clock.Step(maxAge)
	w.mayStart(o.ask(0))
	if l, err := o.Store.Read(t.Context()); err != nil || l.Recorded("all").Generation != w.read().Generation {
		t.Errorf("%+v, %v", l, err)
	}
}
