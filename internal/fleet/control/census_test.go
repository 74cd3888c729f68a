// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A count records who runs by live reads, once. It adds the change of a task that the cache has shown without one, and leaves what the ledger knows
// better. What is recorded is written, also if no policy comes into force by it.
func TestWhatACountRecords(t *testing.T) {
	found := fleet.Holder{Task: "task", Etcd: "etcd", Policies: []string{"p"}, Change: "A", Unasked: true}
	with := func(change func(*fleet.Holder)) *fleet.Holder {
		h := found
		change(&h)
		return &h
	}
	const known = "what the ledger knew"
	for name, c := range map[string]struct {
		run, knows    *fleet.Holder
		runs, canary  bool
		canaries      int
		changes, kept bool
	}{
		"a task that runs":                      {run: &found, runs: true, changes: true},
		"one that ran when it was counted":      {run: &found},
		"one with a change to try":              {run: &found, runs: true, canaries: 1, canary: true, changes: true},
		"one of a policy that is gone":          {run: with(func(h *fleet.Holder) { h.Policies = []string{"gone"} }), runs: true, canaries: 1, changes: true},
		"one that the cache has shown":          {run: &found, knows: with(func(h *fleet.Holder) { h.Change = "" }), changes: true},
		"whose change cannot be read":           {run: with(func(h *fleet.Holder) { h.Change = "" }), knows: with(func(h *fleet.Holder) { h.Change = "" }), runs: true, kept: true},
		"that has a change":                     {run: &found, knows: with(func(h *fleet.Holder) { h.Change = "B" }), runs: true, kept: true},
		"that has a slot of the default":        {run: &found, knows: with(func(h *fleet.Holder) { h.Change, h.Unasked = "", false }), runs: true, canaries: 1, canary: true, changes: true},
		"that has asked, and its change exists": {run: &found, knows: with(func(h *fleet.Holder) { h.Unasked = false }), runs: true, kept: true},
	} {
		l := &fleet.Ledger{}
		if c.knows != nil {
			c.knows.TaskName = known
			l.Grant(*c.knows)
		}
		v := &view{policies: map[string]*fleet.Policy{"p": {Name: "p", Canary: fleet.Canary{Count: c.canaries}}}}
		n := census{run: []fleet.Holder{*c.run}}
		m := &met{}
		m.add("task", c.runs)
		if changed := n.record(l, v, m); changed != c.changes {
			t.Errorf("%s: changed: %t", name, changed)
		}
		h, want := l.Holder("task"), ptr.Deref(c.knows, fleet.Holder{})
		if has := h != nil; has != (c.changes || c.kept) || has && (h.Canary != c.canary || h.Change != cmp.Or(want.Change, c.run.Change) || (h.TaskName == known) != (c.knows != nil)) {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// A count takes the tasks that need a slot and have not ended: those that run are recorded, and the others fenced. No other is written to.
func TestWhichTasksACountTakes(t *testing.T) {
	w := newWorld(t, 1, 1)
	for name, c := range map[string]struct {
		taskType v1alpha1.TaskType
		state    v1alpha1.TaskState
	}{
		"runs":      {v1alpha1.OnDemandMaintenance, v1alpha1.TaskStateInProgress},
		"succeeded": {v1alpha1.OnDemandMaintenance, v1alpha1.TaskStateSucceeded},
		"failed":    {v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateFailed},
		"snapshot":  {v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateInProgress},
		"recovery":  {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStatePending},
	} {
		_, _, task := w.objects(0)
		task.Name, task.UID, task.Spec.Type, task.Status.State, task.Status.InitiatedAt = name, types.UID(name), c.taskType, c.state, &metav1.Time{Time: w.clock.Now()}
		if err := w.api.Create(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	o := w.operator()
	o.pass(interval)
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) != 1 || l.Holders[0].Task != "runs" {
		t.Errorf("%+v %v", l, err)
	}
	all := &v1alpha1.EtcdOperatorTaskList{}
	if err := w.api.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, task := range all.Items {
		if fenced := task.Annotations[annotationFence] != ""; fenced != (task.Name == "task") {
			t.Errorf("%s is fenced: %t", task.Name, fenced)
		}
	}
}

// Tasks that a count has found to run are read once more if the ledger was written since, each once, unless it is known what they do.
func TestWhichTasksOfACountAreReadAgain(t *testing.T) {
	shown := func(task types.UID, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
		return &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{UID: task}, Status: v1alpha1.EtcdOperatorTaskStatus{State: state}}
	}
	v := &view{tasks: map[types.UID]*v1alpha1.EtcdOperatorTask{"runs": shown("runs", v1alpha1.TaskStateInProgress), "lags": shown("lags", v1alpha1.TaskStatePending), "waits": shown("waits", v1alpha1.TaskStatePending)}}
	l := &fleet.Ledger{Revision: "1", Holders: []fleet.Holder{{Task: "holds"}}}
	m := &met{revision: "1"}
	m.add("met", true)
	var counted []fleet.Holder
	for _, task := range []types.UID{"runs", "lags", "unseen", "holds", "met"} {
		counted = append(counted, fleet.Holder{Task: task, Namespace: "ns", TaskName: "name of " + string(task)})
	}
	var read []string
	for _, task := range strangers(l, v, m, counted...) {
		read = append(read, string(task.UID)+task.Namespace+task.Name)
	}
	if want := []string{"runs", "lagsnsname of lags", "unseennsname of unseen"}; !slices.Equal(read, want) {
		t.Errorf("%q, want %q", read, want)
	}
}

// A task that runs without a slot by a live read is recorded once, and only then is there anything to write.
func TestWhatIsAdopted(t *testing.T) {
	w := newWorld(t, 1, 1)
	o, l := w.operator(), &fleet.Ledger{}
	v := &view{tasks: map[types.UID]*v1alpha1.EtcdOperatorTask{"task0": w.task(0).Object}, covering: map[string][]string{"ns0": {"all"}}}
	for _, c := range []struct{ runs, adopts bool }{{false, false}, {true, true}, {true, false}} {
		m := &met{}
		m.add("task0", c.runs)
		if adopts := o.adopt(l, v, m); adopts != c.adopts || (l.Holder("task0") != nil) != c.runs {
			t.Errorf("%+v: %t %+v", c, adopts, l.Holders)
		}
	}
}

// While one namespace of a policy cannot be counted, the tasks of the others are not listed again.
func TestWhatWasCountedIsNotListedAgain(t *testing.T) {
	w := newWorld(t, 2, 1)
	o, refuses := w.operator(), true
	o.refusing(namespaceOf(1), "list", &refuses)
	lists := map[string]int{}
	refusing := o.Live.(client.WithWatch)
	o.Live = interceptor.NewClient(refusing, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, tasks := list.(*v1alpha1.EtcdOperatorTaskList); tasks {
				lists[(&client.ListOptions{}).ApplyOptions(options).Namespace]++
			}
			return c.List(ctx, list, options...)
		},
	})
	for range 3 {
		w.clock.Step(interval)
		if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil {
			t.Fatal("it was counted")
		}
	}
	if lists[namespaceOf(0)] != 1 || lists[namespaceOf(1)] < 3 {
		t.Errorf("%v", lists)
	}
}

// A ledger is not rebuilt of what the cache does not show.
func TestALedgerIsNotRebuiltWithoutACache(t *testing.T) {
	o := newWorld(t, 1, 1).operator()
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, tasks := list.(*v1alpha1.EtcdOperatorTaskList); tasks {
				return errLost
			}
			return c.List(ctx, list, options...)
		},
	})
	if l, err := o.rebuild(t.Context()); l != nil || !errors.Is(err, errLost) || !strings.Contains(err.Error(), "listing the tasks") {
		t.Errorf("%+v %v", l, err)
	}
}

// A pass takes nothing from a look at the cache that began before it, and waits for its end: an older view must not replace a newer one.
func TestAPassLooksItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld(t, 1, 1).operator()
		looks, begun := 0, make(chan struct{})
		o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, etcds := list.(*v1alpha1.EtcdList); etcds {
					if looks++; looks == 1 {
						<-begun
					}
				}
				return c.List(ctx, list, options...)
			},
		})
		go func() {
			if _, err := o.look(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		go func() {
			if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if looks != 1 {
			t.Errorf("%d looks at a time", looks)
		}
		close(begun)
		synctest.Wait()
		if looks != 2 {
			t.Errorf("%d looks", looks)
		}
	})
}
