// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// refusing has the API server refuse an operator the tasks of a namespace, by a verb, for as long as it says.
func (o *operator) refusing(namespace, verb string, refuses *bool) {
	refused := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("etcdoperatortasks").GroupResource(), verb, nil)
	live := interceptor.NewClient(o.world.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, task := object.(*v1alpha1.EtcdOperatorTask); task && *refuses && verb == "get" && key.Namespace == namespace {
				return refused
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			in := (&client.ListOptions{}).ApplyOptions(options)
			if _, tasks := list.(*v1alpha1.EtcdOperatorTaskList); tasks && *refuses && verb == "list" && in.Namespace == namespace {
				return refused
			}
			return c.List(ctx, list, options...)
		},
	})
	o.Live, o.Store.Live = live, live
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if *refuses && verb == "patch" && object.GetNamespace() == namespace {
				return refused
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
}

// limiting creates a policy with one slot for the namespaces with a label.
func (w *world) limiting(name string) {
	w.t.Helper()
	p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{"tier": name}
	p.Spec.MaxConcurrent, p.Spec.Canary.Count, p.Spec.Soak = ptr.To(intstr.FromInt32(1)), ptr.To(int32(0)), &metav1.Duration{}
	if err := w.api.Create(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// shown is the status of a policy: whether it is in force, and its condition Paused.
func (w *world) shown(name string) (bool, *metav1.Condition) {
	w.t.Helper()
	p := &v1alpha1.EtcdFleetPolicy{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	return p.Status.ObservedGeneration == p.Generation, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPaused)
}

// A namespace in which tasks cannot be counted, when a policy is new or the ledger is lost, stops the policies that select it, and they
// say so. Nothing else waits, what was counted is not written to again, and all is well once they can be.
func TestANamespaceThatCannotBeCounted(t *testing.T) {
	for _, verb := range []string{"list", "patch"} {
		for _, lost := range []bool{false, true} {
			t.Run(map[bool]string{false: "new, ", true: "lost, "}[lost]+verb, func(t *testing.T) {
				w := newWorld(t, 3, 3)
				if err := w.api.Delete(t.Context(), w.read()); err != nil {
					t.Fatal(err)
				}
				o, refuses := w.operator(), true
				o.refusing(namespaceOf(1), verb, &refuses)
				if !lost {
					if _, err := o.Store.Read(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for i, tier := range []string{"fine", "broken", "broken"} {
					w.labeled(i, map[string]string{"tier": tier})
				}
				w.limiting("broken")
				w.limiting("fine")
				// It is in the namespace that is counted.
				running := w.task(2)
				if err := w.begin(running); err != nil {
					t.Fatal(err)
				}
				w.clock.Step(maxAge)
				for range 3 {
					if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil || !strings.Contains(err.Error(), namespaceOf(1)) {
						t.Errorf("%v", err)
					}
					w.clock.Step(interval)
				}
				if inForce, paused := w.shown("broken"); inForce || paused == nil || paused.Reason != v1alpha1.ReasonTasksNotCounted || paused.ObservedGeneration != 1 || !strings.Contains(paused.Message, namespaceOf(1)) || !strings.Contains(paused.Message, "forbidden") {
					t.Errorf("%t %+v", inForce, paused)
				}
				if inForce, paused := w.shown("fine"); !inForce || paused != nil {
					t.Errorf("%t %+v", inForce, paused)
				}
				wait := o.ask(1)
				if wait == nil || wait.Reason != v1alpha1.ReasonWaitingForSlot || wait.RequeueAfter != soon || !strings.Contains(wait.Message, "EtcdFleetPolicy broken is not in force yet") || !strings.Contains(wait.Message, "forbidden") {
					t.Errorf("%+v", wait)
				}
				w.mayStart(o.ask(0))
				l, err := o.Store.Read(t.Context())
				if err != nil || l.Holder("task2") == nil || l.Recorded("broken") != nil {
					t.Errorf("%+v %v", l, err)
				}
				refuses = false
				w.finish()
				o.pass(interval)
				if inForce, paused := w.shown("broken"); !inForce || paused != nil {
					t.Errorf("%t %+v", inForce, paused)
				}
				w.mayStart(o.ask(1))
			})
		}
	}
}

// While a namespace cannot be counted, no other task is fenced twice: neither in it, nor in the others of its policy.
func TestNothingIsFencedAgainAndAgain(t *testing.T) {
	w := newWorld(t, 2, 2)
	_, _, more := w.objects(0)
	more.Name, more.UID = "another", "another"
	if err := w.api.Create(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	fenced := map[string]int{}
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if fenced[object.GetNamespace()+"/"+object.GetName()]++; object.GetName() == "another" {
				return apierrors.NewInternalError(errLost)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	for range 4 {
		if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil {
			t.Error("it can be counted")
		}
		w.clock.Step(interval)
	}
	if fenced["ns0/task"] != 1 || fenced["ns1/task"] != 1 || fenced["ns0/another"] < 4 {
		t.Errorf("%v", fenced)
	}
	// What happens in a gap is not known.
	w.clock.Step(2 * maxGap)
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil || fenced["ns0/task"] != 2 || fenced["ns1/task"] != 2 {
		t.Errorf("%v %v", err, fenced)
	}
	// A further policy voids what was allowed before it.
	w.limiting("fine")
	w.labeled(0, map[string]string{"tier": "fine"})
	w.clock.Step(maxAge)
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil || fenced["ns0/task"] != 3 || fenced["ns1/task"] != 2 {
		t.Errorf("%v %v", err, fenced)
	}
	// So does a ledger that is lost.
	w.lose()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { return true }); err != nil || fenced["ns0/task"] != 4 || fenced["ns1/task"] != 3 {
		t.Errorf("%v %v", err, fenced)
	}
}

// A pass reads a task that runs without a slot again if its twin has written the ledger since, and fails if it always has: the next one
// records the task.
func TestALedgerThatIsWrittenAllTheTime(t *testing.T) {
	w := newWorld(t, 1, 1)
	o, twin := w.operator(), w.operator()
	o.pass(interval)
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	busy := true
	o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, task := object.(*v1alpha1.EtcdOperatorTask); task && busy {
				if err := twin.Store.Change(ctx, func(*fleet.Ledger) bool { return true }); err != nil {
					t.Error(err)
				}
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	w.clock.Step(interval)
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, errBusy) {
		t.Errorf("%v", err)
	}
	busy = false
	o.pass(interval)
	if l, err := o.Store.Read(t.Context()); err != nil || l.Holder("task0") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A task that cannot be read keeps its slot, and no other does.
func TestAHolderThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 3, 2)
	o, refuses := w.operator(), false
	o.refusing(namespaceOf(0), "get", &refuses)
	o.pass(interval)
	o.start(0)
	o.start(1)
	w.finish()
	refuses = true
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil || !strings.Contains(err.Error(), namespaceOf(0)) {
		t.Errorf("%v", err)
	}
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) != 1 || l.Holder("task0") == nil || w.read().Status.Used != 1 {
		t.Errorf("%+v %v", l, err)
	}
	w.mayStart(o.ask(2))
}

// The default counts the tasks that run before it limits others, as a policy does.
func TestTheDefaultCounts(t *testing.T) {
	w := newWorld(t, 8, 8)
	w.automate()
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.NamespaceSelector.MatchLabels = map[string]string{"tier": "other"}
	})
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Policies = slices.DeleteFunc(l.Policies, func(r fleet.Recorded) bool { return r.Name == fleet.Default })
		return true
	}); err != nil {
		t.Fatal(err)
	}
	w.waits(o.ask(0), "", "the default for automatic rollouts without an EtcdFleetPolicy is not in force yet")
	if err := w.begin(w.task(1)); err != nil {
		t.Fatal(err)
	}
	o.pass(interval)
	l, err := o.Store.Read(t.Context())
	if err != nil || l.Recorded(fleet.Default) == nil || l.Holder("task1") == nil || !slices.Equal(l.Holder("task1").Policies, []string{fleet.Default}) {
		t.Errorf("%+v %v", l, err)
	}
	w.mayStart(o.ask(0))
}

// A default that was in force, and limits nothing any more, stops nothing.
func TestADefaultThatWas(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { return l.Record(&fleet.Policy{Name: fleet.Default}) }); err != nil {
		t.Fatal(err)
	}
	o.pass(interval)
	w.mayStart(o.ask(0))
}

// Two tasks that were granted slots and have not started do not wait for each other once there is one slot, although nothing writes to
// either: each gives its slot back.
func TestTwoSlotsAfterTheLimitWasLowered(t *testing.T) {
	w := newWorld(t, 2, 2)
	o := w.operator()
	o.pass(interval)
	granted := w.task(0)
	for i := range w.n {
		w.mayStart(o.ask(i))
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(1)) })
	w.limit = 2
	o.pass(interval)
	first := w.task(0)
	w.waits(o.asks(first), "", "no slot")
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 {
		t.Errorf("%+v %v", l, err)
	}
	if w.task(0).Object.Annotations[annotationFence] == granted.Object.Annotations[annotationFence] {
		t.Error("an API server does nothing for a patch that changes nothing, and the start could still be written")
	}
	// What the engine writes next is not in vain.
	if err := w.api.Status().Update(t.Context(), first.Object); err != nil {
		t.Error(err)
	}
	started := 0
	for range 3 {
		for i := range w.n {
			if o.ask(i) == nil {
				started++
			}
		}
		o.pass(interval)
	}
	if started == 0 {
		t.Error("they wait for each other")
	}
	if w.begin(granted) == nil {
		t.Error("the start that was allowed can still be written")
	}
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// The next task of a cluster takes over the slot of one that was deleted while it ran: the cluster may lack a member until then.
func TestTheNextTaskAfterADeletedOne(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	o.pass(interval)
	o.start(0)
	if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
		t.Fatal(err)
	}
	w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
	o.pass(2 * settle)
	_, _, next := w.objects(0)
	next.UID = "next"
	if err := w.api.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(maxAge)
	w.waits(o.ask(1), "", "ns0/main has yet to be well after task task was deleted")
	w.mayStart(o.ask(0))
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 || l.Holder("next") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A task that waits since a policy is not in force takes no slot of another one from those behind it.
func TestAPolicyThatIsNotInForceTakesNoSlots(t *testing.T) {
	w := newWorld(t, 2, 1)
	o, refuses := w.operator(), true
	o.pass(interval)
	o.refusing(namespaceOf(0), "list", &refuses)
	w.labeled(0, map[string]string{"tier": "broken"})
	w.limiting("broken")
	w.clock.Step(maxAge)
	w.waits(o.ask(0), "", "")
	w.mayStart(o.ask(1))
}

// The change of a task that ran before there was a policy is followed, also if the cache has shown that it runs before it was counted.
func TestTheChangeOfATaskThatRanBefore(t *testing.T) {
	for _, asks := range []bool{false, true} {
		w := newWorld(t, 2, 2)
		w.restarts(0)
		if err := w.begin(w.task(0)); err != nil {
			t.Fatal(err)
		}
		o := w.operator()
		if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Policies, l.Holders = nil, nil; return true }); err != nil {
			t.Fatal(err)
		}
		if asks && o.ask(1) == nil {
			t.Error("the policy is not in force")
		}
		o.pass(interval)
		l, err := o.Store.Read(t.Context())
		if err != nil || len(l.Holders) != 1 || l.Holders[0].Change != fleet.Restart || !l.Holders[0].Unasked || l.Change("all", fleet.Restart) == nil {
			t.Errorf("%+v %v", l, err)
		}
	}
}

// A status that cannot be written keeps no other from it.
func TestAStatusThatCannotBeWritten(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.limiting("other")
	o := w.operator()
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if object.GetName() == "all" {
				return errLost
			}
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, errLost) {
		t.Errorf("%v", err)
	}
	if inForce, _ := w.shown("other"); !inForce {
		t.Error("it is not shown")
	}
}

// A canary whose task was deleted, and which is well at first, counts as failed if it lacks a member before its slot is released.
func TestADeletedCanaryThatIsUnwellLater(t *testing.T) {
	w := newWorld(t, 1, 1)
	if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "task0", TaskName: "task", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Policies: []string{"all"}, Change: "A", Canary: true})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if o.pass(settle / 2); o.outcome() != "watched" {
		t.Error(o.outcome())
	}
	w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
	if o.pass(interval); !strings.Contains(o.outcome(), "AllMembersReady was False") {
		t.Error(o.outcome())
	}
}

// What was counted for a ledger is not recorded in the next one, in whose namespaces tasks may have begun since.
func TestALedgerThatIsLostAfterTheCount(t *testing.T) {
	w := newWorld(t, 2, 2)
	if err := w.begin(w.task(1)); err != nil {
		t.Fatal(err)
	}
	o, refuses := w.operator(), true
	o.refusing(namespaceOf(1), "list", &refuses)
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil {
		t.Fatal("it can be counted")
	}
	lost := false
	o.refusing(namespaceOf(0), "list", &lost)
	o.write = func(do func() error) error {
		if !lost {
			lost = true
			w.lose()
		}
		return do()
	}
	w.clock.Step(interval)
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil || !lost {
		t.Fatalf("%v, lost: %t", err, lost)
	}
	for range 2 {
		if l, err := o.Store.Read(t.Context()); err != nil || l.Recorded("all") != nil {
			t.Fatalf("%+v %v", l, err)
		}
		if !strings.Contains(o.uncounted("all"), "forbidden") {
			t.Errorf("%q", o.uncounted("all"))
		}
		w.clock.Step(interval)
		if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil {
			t.Error("it can be counted")
		}
	}
	lost = false
	o.write = func(do func() error) error { return do() }
	o.pass(interval)
	if l, err := o.Store.Read(t.Context()); err != nil || l.Recorded("all") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A count that takes longer than a gap may be is remembered, too.
func TestACountThatTakesLong(t *testing.T) {
	w := newWorld(t, 3, 2)
	o := w.operator()
	fenced := map[string]int{}
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			w.clock.Step(maxGap)
			if fenced[object.GetNamespace()]++; object.GetNamespace() == namespaceOf(2) {
				return apierrors.NewInternalError(errLost)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	for range 3 {
		if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err == nil {
			t.Error("it can be counted")
		}
		w.clock.Step(interval)
	}
	if fenced[namespaceOf(0)] != 1 || fenced[namespaceOf(1)] != 1 || fenced[namespaceOf(2)] != 4 {
		t.Errorf("%v", fenced)
	}
}

// A task of a tenant that cannot be annotated, since its annotations are as large as they may be, does not keep a policy from being in force in the
// namespaces of others: the engine starts none of that size. A smaller one that cannot be annotated does.
func TestATaskThatIsTooLargeToBeAnnotated(t *testing.T) {
	for size, inForce := range map[int]bool{validation.TotalAnnotationSizeLimitB - 10: true, 1 << 10: false} {
		w := newWorld(t, 2, 2)
		if err := w.api.Delete(t.Context(), w.read()); err != nil {
			t.Fatal(err)
		}
		large := w.task(1).Object
		large.Annotations = map[string]string{"a": strings.Repeat("x", size-1)}
		if err := w.api.Update(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		o := w.operator()
		if _, err := o.Store.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if object.GetName() == "task" && object.GetNamespace() == namespaceOf(1) {
					return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("EtcdOperatorTask").GroupKind(), object.GetName(), nil)
				}
				return c.Patch(ctx, object, patch, options...)
			},
		})
		for i := range w.n {
			w.labeled(i, map[string]string{"tier": "new"})
		}
		w.limiting("new")
		w.clock.Step(maxAge)
		if _, err := o.Reconcile(t.Context(), ctrl.Request{}); (err == nil) != inForce {
			t.Errorf("%d: %v", size, err)
		}
		if is, _ := w.shown("new"); is != inForce {
			t.Errorf("%d: it is in force: %t", size, is)
		}
		if inForce {
			w.mayStart(o.ask(0))
		}
	}
}
