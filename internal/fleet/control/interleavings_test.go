// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"flag"
	"iter"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// exploreAll explores further than is done in seconds.
var exploreAll = flag.Bool("explore-all", false, "explore three disturbances instead of one and a quarter of the pairs")

// disturbance is what happens at a point of a run.
type disturbance string

const (
	switched    disturbance = "the next operator goes on"
	skipped     disturbance = "the one after the next goes on"
	answerLost  disturbance = "the answer is lost"
	requestLost disturbance = "the request is lost"
	ledgerLost  disturbance = "the ledger is lost"
	tasksEnd    disturbance = "the tasks that run end"
)

// moment is a disturbance at the point of a number.
type moment struct {
	point int
	disturbance
}

// point is where an operator is interrupted: before each of its requests, and after it has read a task.
type point struct{ write bool }

// interruptedAt has an operator do something, and interrupts it before each of its live reads and writes, and after it has read a task.
func (o *operator) interruptedAt(at, do func()) {
	o.write = func(write func() error) error { at(); return write() }
	o.readLive(at)
	o.hasRead = at
	do()
	o.write, o.hasRead = func(do func() error) error { return do() }, func() {}
	o.Live, o.Store.Live = o.world.api, o.world.api
}

// readLive has something happen before each live read.
func (o *operator) readLive(at func()) {
	live := interceptor.NewClient(o.world.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			at()
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			at()
			return c.List(ctx, list, options...)
		},
	})
	o.Live, o.Store.Live = live, live
}

// interrupted has an operator do what it may, and interrupts it at its points. The next request does what it is told by then.
func (o *operator) interrupted(told *disturbance) iter.Seq[point] {
	return func(yield func(point) bool) {
		o.write = func(do func() error) error {
			yield(point{write: true})
			switch *told {
			case answerLost:
				_ = do()
				return errLost
			case requestLost:
				return errLost
			}
			return do()
		}
		o.readLive(func() { yield(point{}) })
		o.hasRead = func() { yield(point{}) }
		if o.backwards {
			// Its controllers run in another order.
			_, _ = o.Reconcile(o.world.t.Context(), ctrl.Request{})
		}
		o.all()
		o.write, o.hasRead = func(do func() error) error { return do() }, func() {}
		o.Live, o.Store.Live = o.world.api, o.world.api
	}
}

// interleave runs operators, and disturbs them at these moments. It returns the points that there are, and which of them write.
func interleave(w *world, operators int, plan []moment) (points []point) {
	type running struct {
		next func() (point, bool)
		told disturbance
	}
	all := make([]*running, operators)
	for i := range all {
		o := w.operator()
		o.backwards = i == 1
		r := &running{}
		next, stop := iter.Pull(o.interrupted(&r.told))
		r.next = next
		defer stop()
		all[i] = r
	}
	current := 0
	goesOn := func(by int) {
		for range by {
			for current = (current + 1) % operators; all[current] == nil; current = (current + 1) % operators {
			}
		}
	}
	for left := operators; left > 0; {
		at, ok := all[current].next()
		if all[current].told = ""; !ok {
			all[current] = nil
			if left--; left > 0 {
				goesOn(1)
			}
			continue
		}
		points = append(points, at)
		i := slices.IndexFunc(plan, func(m moment) bool { return m.point == len(points)-1 })
		if i < 0 {
			continue
		}
		switch plan[i].disturbance {
		case switched:
			goesOn(1)
		case skipped:
			goesOn(2)
		case ledgerLost:
			w.lose()
		case tasksEnd:
			w.finish()
		default:
			all[current].told = plan[i].disturbance
		}
	}
	return points
}

// Two operators, or three, go on in every order, with up to three disturbances: one is paused at any of its requests while another one goes
// on, its request or its answer is lost, the ledger is lost, or tasks end. At no write do more tasks run, or hold slots, than there are
// slots; and afterwards each task runs.
func TestEveryInterleaving(t *testing.T) {
	everywhere := []disturbance{switched, ledgerLost, tasksEnd, answerLost, requestLost}
	t.Run("two", func(t *testing.T) { interleaveAll(t, 2, 4, everywhere) })
	t.Run("three", func(t *testing.T) { interleaveAll(t, 3, 12, append(everywhere, skipped)) })
}

// interleaveAll interleaves operators with all single disturbances, and of pairs every one of so many.
func interleaveAll(t *testing.T, operators, every int, disturbances []disturbance) {
	t.Helper()
	most, runs := 2, 0
	if *exploreAll {
		most = 5 - operators
		if operators > 2 {
			every = 1
		}
	}
	var explore func(plan []moment)
	explore = func(plan []moment) {
		w := newWorld(t, 2, 1)
		// There is a ledger: making it voids what the tasks were read for.
		if _, err := w.operator().Store.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		points := interleave(w, operators, plan)
		o := w.operator()
		for round := 0; round < 6 && w.succeeded() < w.n; round++ {
			w.finish()
			o.all()
		}
		w.finish()
		if n := w.succeeded(); n < w.n {
			t.Errorf("only %d tasks have succeeded", n)
		}
		if runs++; t.Failed() {
			t.Fatalf("after %v", plan)
		}
		if len(plan) == most {
			return
		}
		first := 0
		if len(plan) > 0 {
			first = plan[len(plan)-1].point + 1
		}
		for i := first; i < len(points); i++ {
			if len(plan) == 1 && (operators > 2 || !*exploreAll) && (first+i)%every != 0 {
				continue
			}
			for _, d := range disturbances {
				if points[i].write || d != answerLost && d != requestLost {
					explore(append(slices.Clone(plan), moment{i, d}))
				}
			}
		}
	}
	explore(nil)
	t.Logf("%d runs", runs)
}

// A policy comes at any point at which an operator starts a task, which needed no slot until then, and another operator goes on from there
// by the policy. Either the task runs by then, and is counted, or it does not start by what was allowed before.
func TestAPolicyThatComesWhileATaskStarts(t *testing.T) {
	comes := 0
	for more := true; more; comes++ {
		w := newWorld(t, 2, 2)
		policy := w.read()
		if err := w.api.Delete(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		policy.ResourceVersion = ""
		policy.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(1))
		w.limit = 1
		o, other := w.operator(), w.operator()
		// It has a ledger.
		if _, err := other.Store.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		point := 0
		more = false
		at := func() {
			if point++; point-1 != comes {
				return
			}
			more = true
			if err := w.api.Create(t.Context(), policy); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			other.start(1)
		}
		o.interruptedAt(at, func() { o.start(0) })
		w.judge()
		if more && len(w.running()) != 1 {
			t.Errorf("point %d: tasks %v run", comes, w.running())
		}
	}
	if comes < 4 {
		t.Errorf("there are %d points", comes)
	}
}

// An operator is frozen at each of its requests, and after it has read a task, while it asks for a task or looks at the fleet with a ledger in
// memory from before. In the meantime its twin starts a task, which others may have written to; the task may end, and the next one have its
// slot; and another cluster may lack a member. Whatever the operator does when it resumes, no more tasks hold slots than there are, and each
// that runs has its own.
func TestAnOperatorThatIsFrozen(t *testing.T) {
	points := 0
	for variant := range 1 << 5 {
		is := func(bit int) bool { return variant&(1<<bit) != 0 }
		looks, before, written, ends, lacks := is(0), is(1), is(2), is(3), is(4)
		for at, more := 0, true; more; at++ {
			w := newWorld(t, 3, 1)
			o, twin := w.operator(), w.operator()
			o.pass(interval)
			twin.pass(interval)
			if before {
				twin.start(0)
				w.clock.Step(2 * maxAge)
			}
			point := 0
			more = false
			freeze := func() {
				if point++; point-1 != at {
					return
				}
				more = true
				if written {
					w.writeToPending()
				}
				twin.start(0)
				if ends {
					w.finish()
					twin.pass(interval)
					twin.start(1)
				}
				if lacks {
					w.lackMember(2)
				}
			}
			o.interruptedAt(freeze, func() {
				if looks {
					_, _ = o.Reconcile(t.Context(), ctrl.Request{})
				} else {
					// One that was about to ask may find that it runs.
					o.start(0)
					o.start(1)
				}
			})
			w.judge()
			w.judgeRunning()
			if points++; t.Failed() {
				t.Fatalf("at point %d: looks %t, started before %t, written to %t, ends %t, another lacks a member %t", at, looks, before, written, ends, lacks)
			}
		}
	}
	if t.Logf("%d points", points); points < 120 {
		t.Error("there are more")
	}
}

// writeToPending changes the resourceVersion of the tasks that wait.
func (w *world) writeToPending() {
	w.t.Helper()
	for _, i := range w.in(v1alpha1.TaskStatePending) {
		task := w.task(i).Object
		metav1.SetMetaDataAnnotation(&task.ObjectMeta, "a", "b")
		if err := w.api.Update(w.t.Context(), task); err != nil {
			w.t.Fatal(err)
		}
	}
}

// lackMember has a cluster lack a member.
func (w *world) lackMember(i int) {
	w.t.Helper()
	etcd := w.task(i).Etcd
	set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(etcd)
	if err := w.api.Status().Update(w.t.Context(), etcd); err != nil {
		w.t.Fatal(err)
	}
}

// judgeRunning sees to it that tasks that run hold slots.
func (w *world) judgeRunning() {
	w.t.Helper()
	l, err := w.operator().Store.Read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range w.running() {
		if l.Holder(w.task(i).Object.UID) == nil {
			w.t.Errorf("task %d runs, and has no slot", i)
		}
	}
}
