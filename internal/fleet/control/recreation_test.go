// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recreates gives a cluster outdated pods, or such that are not, and a recreation.
func (w *world) recreates(i int, pods string) {
	w.t.Helper()
	w.rolls(i)
	w.setPods(i, pods, pods)
	task := w.task(i).Object
	task.Spec.Type = v1alpha1.RecreateRollout
	if err := w.api.Update(w.t.Context(), task); err != nil {
		w.t.Fatal(err)
	}
}

// template has the StatefulSet of a cluster be at a revision.
func (w *world) template(i int, revision string) {
	w.t.Helper()
	set := w.set(i)
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		w.t.Fatal(err)
	}
	set.Status.UpdateRevision = revision
	if err := w.api.Status().Update(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
}

// stops is the recreation of the first cluster that is about to stop the pods, and to start them at a revision.
func (w *world) stops(revision string) tasks.Task {
	w.t.Helper()
	task := w.task(0)
	task.Object.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateNeedsDeletion, TargetRevision: revision}
	return task
}

// holder returns what the ledger has of the task of the first cluster.
func (o *operator) holder() fleet.Holder {
	o.world.t.Helper()
	l, err := o.Store.Read(o.world.t.Context())
	if err != nil {
		o.world.t.Fatal(err)
	}
	h := l.Holder(o.world.task(0).Object.UID)
	if h == nil {
		o.world.t.Fatalf("%+v", l)
	}
	return *h
}

// recreating is two clusters of a policy with a canary: the recreation of the first has begun as a restart, and has stopped nothing yet when the
// template changes.
func recreating(t *testing.T) (*world, *operator) {
	t.Helper()
	w := newWorld(t, 2, 2)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To(int32(1)) })
	w.recreates(0, "r1")
	w.rolls(1)
	w.template(0, "r1")
	o := w.operator()
	o.pass(interval)
	task := w.task(0)
	w.mayStart(o.asks(task))
	if err := w.begin(task); err != nil {
		t.Fatal(err)
	}
	if h := o.holder(); h.Change != fleet.Restart || !h.Canary {
		t.Fatalf("%+v", h)
	}
	o.pass(interval)
	w.template(0, "r2")
	return w, o
}

// A recreation has a slot for the change that it brings when it stops the pods, and not for the one that it would have brought when it started.
func TestARecreationIsJudgedByWhatItBrings(t *testing.T) {
	w, o := recreating(t)
	for _, want := range []int{1, 0} {
		if writes := o.counted(func() { w.mayStart(o.asks(w.stops("r1"))) }); writes != want {
			t.Errorf("%d writes for the change that it has", writes)
		}
	}
	task := w.stops("r2")
	w.mayStart(o.asks(task))
	h := o.holder()
	if h.Change == fleet.Restart || h.Target == "" || !h.Canary || task.Object.Status.Change != h.Change {
		t.Errorf("%+v", h)
	}
	if err := w.api.Status().Update(t.Context(), task.Object); err != nil {
		t.Error(err)
	}
	w.waits(o.ask(1), v1alpha1.ReasonWaitingForCanary, "in 1 of 2 clusters first: ns0/main runs task task")
}

// One that may not bring the new template waits, and keeps its slot. Until it may, it tries nothing.
func TestARecreationWaitsForACanary(t *testing.T) {
	w, o := recreating(t)
	canary := w.task(1)
	w.mayStart(o.asks(canary))
	if err := w.begin(canary); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.waits(o.asks(w.stops("r2")), v1alpha1.ReasonWaitingForCanary, "ns1/main runs task task; the task has stopped nothing yet, and keeps its slot")
		if h := o.holder(); h.Change != "" || h.Canary {
			t.Fatalf("%+v", h)
		}
		o.pass(interval)
	}
	if writes := o.counted(func() { w.waits(o.asks(w.stops("r2")), v1alpha1.ReasonWaitingForCanary, "") }); writes > 0 {
		t.Errorf("%d writes while it waits", writes)
	}
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Failed(canary.Object.UID, "it crashes", w.clock.Now())
		return true
	}); err != nil {
		t.Fatal(err)
	}
	w.waits(o.asks(w.stops("r2")), v1alpha1.ReasonFleetPaused, "ns1/main (it crashes)")
}

// It waits for a cluster in which the last change failed for as long as any other task does.
func TestARecreationWaitsForOthersForAMinute(t *testing.T) {
	w, o := recreating(t)
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Failing = append(l.Failing, w.task(1).Etcd.UID)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	w.waits(o.asks(w.stops("r2")), v1alpha1.ReasonWaitingForCanary, "in which the last change failed: others begin at")
	for range 2 {
		o.pass(30 * time.Second)
		if wait := o.asks(w.stops("r2")); wait == nil {
			return
		}
	}
	t.Error("it waits for longer")
}

// It needs no further slot, even if there are fewer by now than are used.
func TestARecreationNeedsNoFurtherSlot(t *testing.T) {
	w, o := recreating(t)
	w.limit = 3
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		for _, other := range []types.UID{"x", "y"} {
			l.Grant(fleet.Holder{Task: other, TaskName: "x", Namespace: namespaceOf(1), EtcdName: "other", Etcd: other, Policies: []string{"all"}, Unasked: true})
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	w.mayStart(o.asks(w.stops("r2")))
}

// What a twin was granted can still be written, so it is made void first: the ledger has the change that the pods get.
func TestATwinThatStopsThePodsWithAnotherTemplate(t *testing.T) {
	w, o := recreating(t)
	twin := w.operator()
	old := w.stops("r2")
	w.mayStart(twin.asks(old))
	granted := o.world.operator().holder()
	newer := w.stops("r1")
	w.mayStart(o.asks(newer))
	if h := o.holder(); h.Change == granted.Change || h.Change != newer.Object.Status.Change {
		t.Errorf("%+v, %s", h, newer.Object.Status.Change)
	}
	if err := w.api.Status().Update(t.Context(), old.Object); err == nil {
		t.Error("the twin stops the pods with a template that the ledger does not have")
	}
	if err := w.api.Status().Update(t.Context(), newer.Object); err != nil {
		t.Error(err)
	}
	// What the twin believes it has been granted cannot be written, and it does not take over.
	old = w.stops("r2")
	old.Object.ResourceVersion = "1"
	w.waits(o.world.operator().asks(old), v1alpha1.ReasonWaitingForSlot, "the cache does not show the task as it was")
	if h := o.world.operator().holder(); h.Change != newer.Object.Status.Change {
		t.Errorf("%+v", h)
	}
}

// While a recreation stops nothing yet, a count records no change of it: it asks for it when it does.
func TestACountKnowsNoChangeOfARecreationThatStopsNothing(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.recreates(0, "r1")
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	o.pass(interval)
	if h := o.holder(); h.Change != "" {
		t.Errorf("%+v", h)
	}
	w.mayStart(o.asks(w.stops("r2")))
	if h := o.holder(); h.Change == "" {
		t.Errorf("%+v", h)
	}
}
