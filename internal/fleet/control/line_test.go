// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// automate has the operator have created the tasks of a world: rollouts.
func (w *world) automate() {
	w.t.Helper()
	for i := range w.n {
		task := w.task(i).Object
		task.Labels, task.Spec.Type = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}, v1alpha1.QuorumAwareRollout
		if err := w.api.Update(w.t.Context(), task); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Where no policy selects them, automatic rollouts run in a tenth of the Etcds at a time, and at least in five: without canaries, and
// whatever else runs. Five Etcds are never limited, and cost no request.
func TestTheDefault(t *testing.T) {
	const limit = 5
	for name, c := range map[string]struct {
		change func(*world)
		n      int
		starts int
		paused int
	}{
		"there is no policy": {func(w *world) {
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
		}, 8, limit, 0},
		"one in another namespace": {func(w *world) {
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
				p.Spec.NamespaceSelector.MatchLabels, p.Spec.Paused = map[string]string{"tier": "prod"}, true
			})
			ns := &corev1.Namespace{}
			if err := w.api.Get(t.Context(), types.NamespacedName{Name: "ns0"}, ns); err != nil {
				t.Fatal(err)
			}
			ns.Labels = map[string]string{"tier": "prod"}
			if err := w.api.Update(t.Context(), ns); err != nil {
				t.Fatal(err)
			}
		}, 8, limit, 1},
		"few Etcds": {func(w *world) {
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
		}, limit, limit, 0},
		"many": {func(w *world) {
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
		}, 70, 7, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.n, c.n)
			w.automate()
			c.change(w)
			o := w.operator()
			writes := 0
			o.write = func(do func() error) error { writes++; return do() }
			start := func() int {
				for i := range w.n {
					o.start(i)
				}
				return len(w.running())
			}
			if c.n == limit {
				if n := start(); n != limit || writes != limit {
					t.Errorf("%d tasks run, %d writes", n, writes)
				}
				return
			}
			// The first makes the ledger, and with it fences all.
			if start(); start() != c.starts {
				t.Errorf("%d tasks run", len(w.running()))
			}
			if len(o.pokes) != 1 {
				t.Error("the controller does not know that tasks wait")
			}
			wait := o.ask(c.n - 1)
			if wait == nil || wait.Reason != v1alpha1.ReasonWaitingForSlot || !strings.Contains(wait.Message, fmt.Sprintf("no slot of the default for automatic rollouts without an EtcdFleetPolicy is free, which has %d: ", c.starts)) {
				t.Errorf("%+v", wait)
			}
			person := w.task(c.n - 1)
			person.Object.Labels = nil
			if wait := o.asks(person); wait != nil {
				t.Errorf("a person waits: %+v", wait)
			}
			w.finish()
			o.pass(interval)
			rest := min(c.starts, c.n-c.starts-c.paused)
			if n := start(); n != rest {
				t.Errorf("%d tasks run, want %d", n, rest)
			}
			if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != rest || l.Recorded(fleet.Default) != nil || len(l.Changes) > 0 {
				t.Errorf("%+v %v", l, err)
			}
		})
	}
}

// What the default limits is not looked at while nothing waits or runs.
func TestTheDefaultAtRest(t *testing.T) {
	w := newWorld(t, 8, 8)
	w.automate()
	if err := w.api.Delete(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	again := func() time.Duration {
		result, err := o.Reconcile(t.Context(), ctrl.Request{})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if after := again(); after != 0 {
		t.Error(after)
	}
	o.start(0)
	if after := again(); after != interval {
		t.Error(after)
	}
	w.finish()
	if after := again(); after != 0 {
		t.Error(after)
	}
}

// A task that bypasses the policies starts whatever they say, does not pause, and counts for others.
func TestBypass(t *testing.T) {
	w := newWorld(t, 3, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.Windows, p.Spec.AtEnd = []v1alpha1.FleetWindow{{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}}, v1alpha1.FleetPause
	})
	o := w.operator()
	if o.ask(0) == nil {
		t.Fatal("no window is open")
	}
	w.limit = 2
	for i, value := range []string{"true", "true", "yes"} {
		task := w.task(i).Object
		metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationBypassFleet, value)
		if err := w.api.Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if paused := o.Pause(t.Context(), task) != nil; paused == (value == "true") {
			t.Errorf("%s: pauses: %t", value, paused)
		}
		o.start(i)
	}
	if running := w.running(); fmt.Sprint(running) != "[0 1]" {
		t.Errorf("%v run", running)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows = nil })
	w.clock.Step(maxAge)
	if wait := o.ask(2); wait == nil || !strings.Contains(wait.Message, "no slot") {
		t.Errorf("%+v", wait)
	}
	o.pass(interval)
	if s := w.read().Status; s.Used != 2 || s.Limit != 1 {
		t.Errorf("%+v", s)
	}
}

// A change that passed its canary long ago, and is asked for again, begins with a canary.
func TestAChangeThatIsAskedForMuchLater(t *testing.T) {
	w := newWorld(t, 2, 2)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To[int32](1) })
	for i := range w.n {
		task := w.task(i).Object
		task.Spec.Type, task.Spec.Config = v1alpha1.QuorumAwareRollout, "restart: true"
		if err := w.api.Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "gone", TaskName: "gone", Namespace: "ns0", Etcd: "gone", EtcdName: "gone", Policies: []string{"all"}, Change: fleet.Restart, Canary: true, Granted: w.clock.Now()})
		l.Succeeded("gone", w.clock.Now())
		l.Soaked("gone", w.clock.Now())
		return true
	}); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(2 * time.Hour)
	if wait := o.ask(0); wait != nil {
		t.Fatalf("%+v", wait)
	}
	if wait := o.ask(1); wait == nil || wait.Reason != v1alpha1.ReasonWaitingForCanary {
		t.Errorf("%+v", wait)
	}
}

// A tenant with one rollout beside one with five hundred waits for one turn, whenever it comes, and however many slots there are.
func TestATenantBesideOneWithManyRollouts(t *testing.T) {
	const many = 500
	for _, slots := range []int{1, 5, 50} {
		for _, comes := range []int{0, 3} {
			w := newWorld(t, 0, 1)
			c := w.operator().Controller
			v := &view{policies: map[string]*fleet.Policy{"all": {Name: "all", MaxConcurrent: slots}}, covering: map[string][]string{"many": {"all"}, "one": {"all"}}}
			enter := func(namespace, name string) {
				c.enter(fleet.Candidate{Task: types.UID(name), TaskName: name, Namespace: namespace, Etcd: types.UID(name), EtcdName: name, Change: "A", Class: fleet.Automatic})
			}
			for i := range many {
				enter("many", fmt.Sprint("task", i))
				w.clock.Step(time.Millisecond)
			}
			waited := -1
			for turn := 0; waited < 0; turn++ {
				if turn == comes {
					enter("one", "one")
				}
				next, _ := fleet.Next(c.input(v, &fleet.Ledger{}))
				if len(next) != slots {
					t.Fatalf("%d of %d slots are given", len(next), slots)
				}
				for _, task := range next {
					if c.leave(task, true); task == "one" {
						waited = turn - comes
					}
				}
				w.clock.Step(time.Second)
			}
			if waited > 1 {
				t.Errorf("%d slots, comes at turn %d: it waits for %d turns", slots, comes, waited)
			}
			t.Logf("%d slots, comes at turn %d beside %d: it waits for %d turns", slots, comes, many, waited)
		}
	}
}
