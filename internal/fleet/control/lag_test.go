// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// lags has the cache of an operator show Etcds, pods and tasks as they are now, whatever becomes of them.
func (o *operator) lags() {
	o.world.t.Helper()
	old := map[reflect.Type]client.ObjectList{}
	for _, list := range []client.ObjectList{&v1alpha1.EtcdList{}, &corev1.PodList{}, &v1alpha1.EtcdOperatorTaskList{}} {
		if err := o.client.List(o.world.t.Context(), list); err != nil {
			o.world.t.Fatal(err)
		}
		old[reflect.TypeOf(list)] = list
	}
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if shown := old[reflect.TypeOf(list)]; shown != nil {
				reflect.ValueOf(list).Elem().Set(reflect.ValueOf(shown.DeepCopyObject()).Elem())
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
}

// A cache that lags shows a cluster that is watched, or whose task runs, as it was. Nothing is said of the change by that: neither that it
// failed, nor that it succeeded, nor that it will stay unknown. Found by two operators of which one was paused.
func TestACacheThatLags(t *testing.T) {
	unwell, well := set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse), set(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue)
	etcd := func(change func(*v1alpha1.Etcd)) func(*world) { return func(w *world) { w.etcd(change) } }
	restarts := func(w *world) {
		pod := &corev1.Pod{}
		if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "ns0", Name: "main-0"}, pod); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(time.Second)
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	scale := func(w *world) *v1alpha1.EtcdOperatorTask {
		_, _, task := w.objects(0)
		task.Name, task.UID, task.Spec.Type, task.Status.State = "scale", "scale", v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress
		return task
	}
	remove := func(w *world, o client.Object) {
		if err := w.api.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		// shown is what the cache shows, and is what is so.
		shown, is func(*world)
		want      string
	}{
		"it was unwell, and is well":      {etcd(unwell), etcd(well), "watched"},
		"it was well, and is not":         {nil, etcd(unwell), "while it was watched: AllMembersReady is False: because"},
		"it was well, and is unreachable": {nil, etcd(set(v1alpha1.ConditionReady, metav1.ConditionUnknown)), "watched"},
		"a member has restarted":          {nil, restarts, "while it was watched: a member restarted, or its pod was replaced"},
		"it is gone":                      {nil, func(w *world) { remove(w, w.etcdNow()) }, "neither"},
		"it hibernated, and woke up":      {func(w *world) { w.etcdOf(0, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }) }, func(w *world) { w.etcdOf(0, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 }) }, "watched"},
		"its members changed": {func(w *world) {
			if err := w.api.Create(t.Context(), scale(w)); err != nil {
				t.Fatal(err)
			}
		}, func(w *world) { remove(w, scale(w)) }, "watched"},
		"its members change": {etcd(unwell), func(w *world) {
			if err := w.api.Create(t.Context(), scale(w)); err != nil {
				t.Fatal(err)
			}
		}, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			o.pass(30 * time.Second)
			if c.shown != nil {
				c.shown(w)
			}
			w.clock.Step(maxAge)
			o.lags()
			c.is(w)
			if got := o.outcome(); got != "watched" {
				t.Fatal(got)
			}
			if o.pass(11 * time.Minute); o.outcome() != c.want {
				t.Errorf("%q, want %q", o.outcome(), c.want)
			}
			// As soon as the cache shows what is, that decides.
			if o.Client = o.client; c.want != "watched" || name == "it was well, and is unreachable" {
				return
			}
			if o.pass(11 * time.Minute); o.outcome() != "done" {
				t.Error(o.outcome())
			}
		})
	}
}

// How long a cluster is watched is not known while the cache does not show the policy by which it is; that of a namespace which has left all
// policies is not watched any more.
func TestAPolicyByWhichAClusterIsWatched(t *testing.T) {
	w, o := watching(t)
	if err := w.api.Create(t.Context(), &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other", Generation: 1}}); err != nil {
		t.Fatal(err)
	}
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if policies, ok := list.(*v1alpha1.EtcdFleetPolicyList); ok {
				policies.Items = slices.DeleteFunc(policies.Items, func(p v1alpha1.EtcdFleetPolicy) bool { return p.Name == "all" })
			}
			return err
		},
	})
	if o.pass(5 * time.Minute); o.outcome() != "watched" {
		t.Error(o.outcome())
	}
	o.Client = o.client
	if o.pass(4 * time.Minute); o.outcome() != "watched" {
		t.Error(o.outcome())
	}
	w.labeled(0, map[string]string{"tier": "other"})
	for _, name := range []string{"all", "other"} {
		p := &v1alpha1.EtcdFleetPolicy{}
		if err := w.api.Get(t.Context(), types.NamespacedName{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		p.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}
		if err := w.api.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if o.pass(2 * interval); o.outcome() != "neither" {
		t.Error(o.outcome())
	}
}

// What must not change is read when the watch begins: the cache may show the pods of before.
func TestWhatMustNotChangeIsReadAtFirst(t *testing.T) {
	w, o := watching(t)
	o.lags()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: "main-0"}}
	if err := w.api.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(time.Second)
	started := w.clock.Now()
	w.pod(started)
	o.pass(interval)
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) != 1 || !strings.HasPrefix(l.Holders[0].Baseline, "pod"+started.Format("@150405")) {
		t.Errorf("%+v %v", l, err)
	}
	o.Client = o.client
	if o.pass(11 * time.Minute); o.outcome() != "done" {
		t.Error(o.outcome())
	}
}

// A task that was stalled, and a quorum that was lost, by a cache that lags fail no change.
func TestATaskThatWasStalled(t *testing.T) {
	lost := func(status metav1.ConditionStatus, reason string) func(*v1alpha1.Etcd) {
		return func(e *v1alpha1.Etcd) {
			e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason})
		}
	}
	for name, c := range map[string]struct {
		was func(*world, *v1alpha1.EtcdOperatorTask)
		is  func(*world)
	}{
		"stalled": {stalled(time.Hour), func(w *world) {
			task := w.task(0).Object
			task.Status.Conditions = nil
			if err := w.api.Status().Update(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}},
		"without a quorum": {func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			w.etcd(lost(metav1.ConditionFalse, v1alpha1.ReasonQuorumLost))
		}, func(w *world) {
			w.etcd(lost(metav1.ConditionTrue, "Well"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := holding(t, true, c.was)
			w.clock.Step(maxAge)
			o.lags()
			c.is(w)
			if o.pass(interval); o.outcome() != "watched" {
				t.Error(o.outcome())
			}
		})
	}
}

// What is counted already, or cannot fail, is not read again and again.
func TestAStalledTaskIsCountedOnce(t *testing.T) {
	for _, change := range []string{"A", ""} {
		_, o := holding(t, true, stalled(time.Hour))
		if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Holders[0].Change = change; return true }); err != nil {
			t.Fatal(err)
		}
		o.pass(interval)
		reads := 0
		o.readLive(func() { reads++ })
		if o.pass(interval); reads > 0 {
			t.Errorf("change %q: %d live reads", change, reads)
		}
	}
}

// An operator has read a task before its twin had it start, end, and be done with, and asks for it only then: it gets no slot, and is not done
// once more.
func TestATaskIsCountedOnce(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.rolls(0)
	o, twin := w.operator(), w.operator()
	o.pass(interval)
	twin.pass(interval)
	read := w.task(0)
	twin.start(0)
	w.finish()
	twin.pass(4 * interval)
	done := func() (n int) {
		l, err := w.operator().Store.Read(t.Context())
		if err != nil || len(l.Changes) != 1 {
			t.Fatalf("%+v %v", l, err)
		}
		return l.Changes[0].Done
	}
	if done() != 1 {
		t.Fatalf("it is done %d times", done())
	}
	if wait := o.asks(read); wait == nil || wait.RequeueAfter != stale || !strings.Contains(wait.Message, "has ended") {
		t.Errorf("%+v", wait)
	}
	if o.pass(4 * interval); done() != 1 {
		t.Errorf("it is done %d times", done())
	}
}

// The answer to a start is lost. The operator asks again for the task as it had read it, gets its slot again, and that its failure is counted
// stays so.
func TestAFailureIsCountedOnce(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxFailures = 5 })
	w.rolls(0)
	o := w.operator()
	o.pass(interval)
	read := w.task(0)
	w.mayStart(o.asks(read))
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Failed("task0", "it is stalled", w.clock.Now()); return true }); err != nil {
		t.Fatal(err)
	}
	w.mayStart(o.asks(read))
	if l, err := o.Store.Read(t.Context()); err != nil || l.Holder("task0") == nil || !l.Holder("task0").Counted {
		t.Errorf("%+v %v", l, err)
	}
}

// The same bad template is another change where the pods had another one before. It is held there as well, the policy says so although no task
// asks for the change that failed any more, and all of it survives the ledger.
func TestABadTemplateFromTwo(t *testing.T) {
	w := newWorld(t, 2, 2)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To[int32](1) })
	for i := range w.n {
		w.rolls(i)
	}
	if err := w.api.Create(t.Context(), w.revision(1, "r0", 0, "etcd:0")); err != nil {
		t.Fatal(err)
	}
	w.setPods(1, "r0", "r0")
	o := w.operator()
	o.pass(interval)
	o.start(0)
	w.waits(o.ask(1), v1alpha1.ReasonWaitingForCanary, "tries the template that change")
	failed := w.task(0).Object
	failed.Status.State = v1alpha1.TaskStateFailed
	if err := w.api.Status().Update(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	o.pass(2 * interval)
	says := func(when string, o *operator) {
		t.Helper()
		task := w.task(1)
		wait := o.asks(task)
		shown := w.task(1).Object
		shown.Status.Change = task.Object.Status.Change
		if err := w.api.Status().Update(t.Context(), shown); err != nil {
			t.Fatal(err)
		}
		if wait == nil || wait.Reason != v1alpha1.ReasonFleetPaused || !strings.Contains(wait.Message, "leads to a template that failed") {
			t.Errorf("%s: %+v", when, wait)
		}
		o.pass(interval)
		if s := w.read().Status; len(s.Conditions) != 1 || s.Conditions[0].Reason != v1alpha1.ReasonChangeFailed || !strings.Contains(s.Conditions[0].Message, "ns0/main") {
			t.Errorf("%s: %+v", when, s.Conditions)
		}
	}
	says("it failed", o)
	w.lose()
	says("the ledger is lost", w.operator())
	// A person knows better.
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationResumeChange: p.Status.Changes[0].ResumeToken}
	})
	o = w.operator()
	o.pass(interval)
	// Those in which it failed have the time to ask first.
	w.waits(o.ask(1), "", "")
	w.clock.Step(time.Minute)
	w.mayStart(o.ask(1))
}

// A pod without a revision, and a revision that is gone, say nothing; the oldest is that with the smallest number, in whatever order the
// pods are listed.
func TestTheOldestRevision(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.rolls(0)
	if err := errors.Join(w.api.Create(t.Context(), w.revision(0, "r1b", 1, "etcd:1b")), w.api.Create(t.Context(), w.revision(0, "a3", 3, "etcd:3")), w.api.Create(t.Context(), w.revision(0, "z0", 0, "etcd:0"))); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	for _, c := range []struct {
		pods     []string
		want     string
		outdated bool
	}{
		{[]string{"r2", "r2"}, "", false},
		{[]string{"", "r2"}, "", false},
		{[]string{"r1", "r2"}, "r1", true},
		{[]string{"a3", "r1"}, "r1", true},
		{[]string{"r1b", "r1"}, "r1", true},
		{[]string{"r1", "z0"}, "z0", true},
		{[]string{"gone", "r1"}, "r1", true},
		{[]string{"a3", "gone"}, "a3", true},
		{[]string{"gone", "gone"}, "", true},
	} {
		w.setPods(0, c.pods...)
		found, outdated, err := o.oldest(t.Context(), w.set(0), "r2")
		got := ""
		if found != nil {
			got = found.Name
		}
		if err != nil || got != c.want || outdated != c.outdated {
			t.Errorf("%v: %q, %t, %v", c.pods, got, outdated, err)
		}
	}
	// What cannot be read says nothing.
	w.setPods(0, "r1", "r1")
	refused := errors.New("refused")
	failing := interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	})
	for _, pods := range []bool{false, true} {
		if o.Client, o.Live = o.client, failing; pods {
			o.Client, o.Live = failing, w.api
		}
		if found, outdated, err := o.oldest(t.Context(), w.set(0), "r2"); !errors.Is(err, refused) || found != nil || outdated {
			t.Errorf("pods: %t: %v, %t, %v", pods, found, outdated, err)
		}
	}
}

// The ledger is lost while a canary runs, and someone sets its cluster right before its rollout has failed. That is a failure as it is with a
// ledger: no other cluster tries.
func TestACanaryOfALostLedger(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To[int32](1) })
	for i := range w.n {
		w.rolls(i)
	}
	o := w.operator()
	o.pass(interval)
	o.start(0)
	w.lose()
	o = w.operator()
	o.pass(interval)
	w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
	task := w.task(0).Object
	status.RecordEnd(task, tasks.Reject, v1alpha1.ErrSuperseded, "the template has changed", w.clock.Now())
	if err := w.api.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	o.pass(2 * interval)
	w.waits(o.ask(1), v1alpha1.ReasonFleetPaused, "")
}
