// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
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
	etcds, in := &v1alpha1.EtcdList{}, func(namespace string) v1alpha1.Etcd {
		return v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	}
	for i, share := range []int{0, 0, 0, 0, 0, 5, 3} {
		etcds.Items = append(etcds.Items, in([]string{"a", "b"}[i/6]))
		v := &view{covering: map[string][]string{}, policies: map[string]*fleet.Policy{}}
		v.limitTheRest(etcds)
		if p := v.policies[fleet.Default]; (p == nil) != (share == 0) || p != nil && p.Share() != share {
			t.Errorf("of %d Etcds, a namespace gets %d slots, want %d", i+1, p.Share(), share)
		}
	}

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
			if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != rest || l.Recorded(fleet.Default) == nil || len(l.Changes) > 0 {
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
	w.waits(o.ask(2), "", "no slot")
	o.pass(interval)
	if s := w.read().Status; s.Used != 2 || s.Limit != 1 {
		t.Errorf("%+v", s)
	}
}

// Where a template failed that is known to work, but not by the ledger, one task that bypasses the policy proves it for all.
func TestATaskThatBypassesProvesItsTemplate(t *testing.T) {
	w := newWorld(t, 2, 2)
	for i := range w.n {
		w.rolls(i)
	}
	o := w.operator()
	o.pass(interval)
	is, err := o.change(t.Context(), w.task(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: "other", Failures: []fleet.Failure{{Etcd: "etcd9", EtcdName: "main", Target: is.target}}})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for i := range w.n {
		w.waits(o.ask(i), v1alpha1.ReasonFleetPaused, "")
	}
	task := w.task(0).Object
	metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationBypassFleet, "true")
	if err := w.api.Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	o.start(0)
	w.clock.Step(maxAge)
	if wait := o.ask(1); wait == nil || wait.Reason != v1alpha1.ReasonFleetPaused {
		t.Errorf("while it runs: %+v", wait)
	}
	w.finish()
	o.pass(4 * interval)
	w.mayStart(o.ask(1))
}

// A change that passed its canary long ago, and is asked for again, begins with a canary.
func TestAChangeThatIsAskedForMuchLater(t *testing.T) {
	w := newWorld(t, 2, 2)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To[int32](1) })
	for i := range w.n {
		w.restarts(i)
	}
	o := w.operator()
	o.passesCanary()
	w.clock.Step(2 * time.Hour)
	w.mayStart(o.ask(0))
	w.waits(o.ask(1), v1alpha1.ReasonWaitingForCanary, "")
}

// A change waits only for Etcds of its policy in which the last one failed: not for one that is gone, hibernated, or another policy's.
func TestWhatFailedElsewhereIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world) error
		waits  bool
	}{
		"it may ask":     {func(*world) error { return nil }, true},
		"it is gone":     {func(w *world) error { return w.api.Delete(t.Context(), w.task(1).Etcd) }, false},
		"it hibernates":  {func(w *world) error { e := w.task(1).Etcd; e.Spec.Replicas = 0; return w.api.Update(t.Context(), e) }, false},
		"of another one": {func(w *world) error { w.labeled(1, nil); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 1)
			w.labeled(0, map[string]string{"tier": "p"})
			w.labeled(1, map[string]string{"tier": "p"})
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
				p.Spec.Canary.Count, p.Spec.NamespaceSelector.MatchLabels = ptr.To[int32](1), map[string]string{"tier": "p"}
			})
			w.restarts(0)
			o := w.operator()
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Failing = []types.UID{"etcd1"}; return true }); err != nil {
				t.Fatal(err)
			}
			if err := c.change(w); err != nil {
				t.Fatal(err)
			}
			w.clock.Step(maxAge)
			if wait := o.ask(0); (wait != nil) != c.waits || wait != nil && wait.Reason != v1alpha1.ReasonWaitingForCanary {
				t.Errorf("%+v", wait)
			}
		})
	}
}

// A paused change that another namespace waits for is not forgotten, neither in a pass nor where a task starts, also while a new operator has
// not been asked for it yet.
func TestAChangeThatAnotherNamespaceWaitsFor(t *testing.T) {
	for _, starts := range []bool{false, true} {
		w := newWorld(t, 2, 1)
		waits := w.task(1).Object
		waits.Status.Change = "X"
		if err := w.api.Status().Update(t.Context(), waits); err != nil {
			t.Fatal(err)
		}
		o := w.operator()
		o.pass(interval)
		if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
			for i := range 101 {
				name := "X"
				if i > 0 {
					name = fmt.Sprint("c", i)
				}
				l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: name, Failures: []fleet.Failure{{Etcd: "etcd0", Namespace: "ns0"}}})
			}
			if !starts {
				// It is no longer watched.
				l.Holders = []fleet.Holder{{Task: "gone", Namespace: "elsewhere", Etcd: "gone", Ended: w.clock.Now()}}
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if starts {
			w.mayStart(o.ask(0))
		} else {
			o.pass(interval)
		}
		l, err := o.Store.Read(t.Context())
		if err != nil || len(l.Changes) != 100 || l.Change("all", "X") == nil || l.Change("all", "c1") != nil {
			t.Errorf("starts: %t: %d changes, %+v, %v", starts, len(l.Changes), l.Change("all", "X"), err)
		}
	}
}

// A policy orders by the labels of namespaces, which are not the tenants', and within one by those of its Etcds.
func TestWhoseLabelsOrder(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.OrderBy = "wave" })
	w.labeled(1, map[string]string{"wave": "1"})
	e := w.task(0).Etcd
	e.Labels = map[string]string{"wave": "0"}
	if err := w.api.Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]string{{"", "0"}, {"1", ""}} {
		c, err := o.candidate(t.Context(), v, w.task(i))
		if err != nil || c.Wave != want[0] || c.OwnWave != want[1] {
			t.Errorf("%d: %+v %v", i, c, err)
		}
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
				next, _ := fleet.Next(c.input(v, &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all"}}}))
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

// Nor does it wait longer in time, when the many have waited for hours: for a rollout that runs, and for the next one at most, which has
// waited longer.
func TestHowLongATenantWaitsBesideOneWithManyRollouts(t *testing.T) {
	const many = 500
	for _, c := range []struct {
		slots       int
		each, comes time.Duration
	}{
		{1, 13 * time.Second, 0}, {1, 13 * time.Second, 90 * time.Minute}, {5, 13 * time.Second, 10 * time.Minute}, {50, 13 * time.Second, time.Minute},
		{1, 10 * time.Minute, 0}, {1, 10 * time.Minute, 5*time.Hour + 3*time.Minute}, {5, 10 * time.Minute, 5*time.Hour + 3*time.Minute}, {50, 10 * time.Minute, time.Hour},
	} {
		w := newWorld(t, 0, 1)
		o := w.operator()
		v := &view{policies: map[string]*fleet.Policy{"all": {Name: "all", MaxConcurrent: c.slots}}, covering: map[string][]string{"many": {"all"}, "one": {"all"}}}
		enter := func(namespace, name string) {
			o.enter(fleet.Candidate{Task: types.UID(name), TaskName: name, Namespace: namespace, Etcd: types.UID(name), EtcdName: name, Class: fleet.Automatic})
		}
		for i := range many {
			enter("many", fmt.Sprint("task", i))
		}
		began, came, l := w.clock.Now(), false, &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all"}}}
		for {
			// On to when the next one ends, or the other tenant comes.
			now := began.Add(c.comes)
			for i, h := range l.Holders {
				if ends := h.Granted.Add(c.each); came && i == 0 || ends.Before(now) {
					now = ends
				}
			}
			if len(l.Holders) == 0 && !came {
				now = began
			}
			w.clock.SetTime(now)
			if !came && now.Sub(began) >= c.comes {
				came = true
				enter("one", "one")
			}
			for _, h := range slices.Clone(l.Holders) {
				if now.Sub(h.Granted) >= c.each {
					l.Release(h.Task, now)
				}
			}
			in := o.input(v, l)
			next, _ := fleet.Next(in)
			for _, task := range next {
				l.Grant(fleet.Grant(in, task, fleet.Decision{}))
				o.leave(task, true)
			}
			if l.Holder("one") != nil {
				waited := now.Sub(began) - c.comes
				if waited > 2*c.each {
					t.Errorf("%d slots, %s each, comes after %s: it waits for %s", c.slots, c.each, c.comes, waited)
				}
				t.Logf("%d slots, %s each, comes after %s: it waits for %s; behind all of the others, it would wait for %s", c.slots, c.each, c.comes, waited, time.Duration(many/c.slots)*c.each-c.comes)
				break
			}
		}
	}
}

// follower creates another task of the first cluster.
func (w *world) follower() tasks.Task {
	w.t.Helper()
	_, etcd, next := w.objects(0)
	next.Name, next.UID = "next", "next"
	if err := w.api.Create(w.t.Context(), next); err != nil {
		w.t.Fatal(err)
	}
	return tasks.Task{Object: next, Etcd: etcd}
}

// The next task of a cluster begins beside one that runs, without a slot of its own. It does not take over the slot of one that has just
// ended, also if that has not been followed yet: another one has its turn.
func TestTheNextTaskAfterOneThatHasEnded(t *testing.T) {
	for _, ends := range []bool{false, true} {
		w := newWorld(t, 2, 1)
		if !ends {
			// Two holders of one cluster.
			w.limit = 2
		}
		o := w.operator()
		o.pass(interval)
		o.start(0)
		w.clock.Step(maxAge)
		// From now on a view shows that the first runs.
		w.waits(o.ask(1), "", "")
		next := w.follower()
		if ends {
			w.finish()
		}
		wait := o.asks(next)
		if !ends {
			if wait != nil {
				t.Errorf("beside one that runs: %+v", wait)
			}
			continue
		}
		if wait == nil || wait.Reason != v1alpha1.ReasonWaitingForSlot || !strings.Contains(wait.Message, "task task of the same Etcd holds a slot") {
			t.Errorf("%+v", wait)
		}
		o.pass(interval)
		w.waits(o.asks(next), "", "ns1/main")
		w.mayStart(o.ask(1))
	}
}

// A canary that is superseded is judged before the next task of its cluster begins, which may stop a member, also if slots are free.
func TestACanaryIsJudgedBeforeTheNextTask(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To[int32](1) })
	w.restarts(0)
	o := w.operator()
	o.pass(interval)
	o.start(0)
	w.clock.Step(maxAge)
	task := w.task(0).Object
	w.clock.Step(time.Minute)
	status.RecordEnd(task, tasks.Reject, v1alpha1.ErrSuperseded, "the template has changed", w.clock.Now())
	if err := w.api.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	next, started := w.follower(), false
	for range 2 {
		if o.asks(next) == nil {
			started = true
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
		}
		o.pass(interval)
	}
	l, err := o.Store.Read(t.Context())
	if c := l.Change("all", fleet.Restart); err != nil || !started || c == nil || len(c.Failures) > 0 {
		t.Errorf("started: %t, %+v %v", started, c, err)
	}
}

// A task that bypasses the policies is a canary as any other is: others wait for it as for one, and what is abandoned has failed.
func TestATaskThatBypassesIsACanary(t *testing.T) {
	for count, canary := range map[int32]bool{0: false, 1: true} {
		w := newWorld(t, 2, 2)
		w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
			p.Spec.Canary.Count = ptr.To(count)
			p.Spec.Windows = []v1alpha1.FleetWindow{{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
		})
		w.rolls(0)
		o := w.operator()
		o.pass(interval)
		task := w.task(0).Object
		metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationBypassFleet, "true")
		if err := w.api.Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		o.start(0)
		if h := o.holder(); h.Canary != canary || !h.Unasked {
			t.Errorf("%d: %+v", count, h)
		}
		w.clock.Step(time.Minute)
		w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
		task = w.task(0).Object
		change := task.Status.Change
		task.Status.State, task.Status.CompletedAt = v1alpha1.TaskStateRejected, &metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		o.pass(2 * interval)
		if all := o.failures("all", change); (len(all) == 1) != canary {
			t.Errorf("%d: %q", count, all)
		}
	}
}

// passesCanary records that a cluster which is gone was the canary of a restart, and passed.
func (o *operator) passesCanary() {
	o.world.t.Helper()
	now := o.world.clock.Now()
	if err := o.Store.Change(o.world.t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "gone", TaskName: "gone", Namespace: "ns0", Etcd: "gone", EtcdName: "gone", Policies: []string{"all"}, Change: fleet.Restart, Canary: true, Granted: now})
		l.Succeeded("gone", now)
		l.Soaked("gone", now)
		return true
	}); err != nil {
		o.world.t.Fatal(err)
	}
}
