// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// When a task asks again follows from its place and from when that may change; a person reads its place from 1 on.
func TestWhenATaskAsksAgain(t *testing.T) {
	w := newWorld(t, 0, 1)
	o := w.operator()
	at := func(d time.Duration) time.Time { return w.clock.Now().Add(d) }
	for name, c := range map[string]struct {
		before int
		next   time.Time
		again  time.Duration
		says   string
	}{
		"first":                {0, time.Time{}, soon, "why"},
		"second":               {1, time.Time{}, soon, "why (number 2 in line)"},
		"the last of the near": {near - 1, time.Time{}, soon, "why (number 20 in line)"},
		"the first of the far": {near, time.Time{}, late, "why (number 21 in line)"},
		"a window opens":       {near, at(time.Minute), time.Minute, "why (number 21 in line)"},
		"it opens later":       {0, at(time.Hour), soon, "why"},
		"it is about to":       {0, at(time.Millisecond), stale, "why"},
		"it has opened":        {0, at(-time.Hour), stale, "why"},
	} {
		got := o.wait(fleet.Decision{Before: c.before, Hold: &fleet.Hold{Reason: fleet.WaitingForSlot, Message: "why", Next: c.next}})
		if got.RequeueAfter != c.again || got.Message != c.says || got.Reason != v1alpha1.ReasonWaitingForSlot {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The controller is told that tasks wait, unless it has looked just now: not twice, and also if a clock goes back.
func TestWhenTheControllerIsTold(t *testing.T) {
	for age, told := range map[time.Duration]int{0: 0, 2*interval - 1: 0, 2 * interval: 1, -1: 1} {
		w := newWorld(t, 0, 1)
		o := w.operator()
		o.refresh()
		w.clock.SetTime(w.clock.Now().Add(age))
		for range 2 {
			o.poke()
		}
		if len(o.pokes) != told {
			t.Errorf("%s after a look: %d", age, len(o.pokes))
		}
	}
}

// A task pauses by a policy that says so, and has no window open, or of which that is not known. What cannot be read at all pauses nothing.
func TestWhatPauses(t *testing.T) {
	closed := []v1alpha1.FleetWindow{{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdFleetPolicy)
		says   string
	}{
		"closed":      {func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows, p.Spec.AtEnd = closed, v1alpha1.FleetPause }, "; it continues at 2026-01-01T02:00:00Z"},
		"it finishes": {func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows, p.Spec.AtEnd = closed, v1alpha1.FleetFinish }, ""},
		"open":        {func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.AtEnd = v1alpha1.FleetPause }, ""},
		"it is closed and invalid": {func(p *v1alpha1.EtcdFleetPolicy) {
			p.Spec.Windows, p.Spec.AtEnd, p.Spec.MaxConcurrent = closed, v1alpha1.FleetPause, ptr.To(intstr.FromString("many"))
		}, "; it continues at 2026-01-01T02:00:00Z"},
		"it is invalid, and tasks finish": {func(p *v1alpha1.EtcdFleetPolicy) {
			p.Spec.Windows, p.Spec.MaxConcurrent = closed, ptr.To(intstr.FromString("many"))
		}, ""},
	} {
		w := newWorld(t, 1, 1)
		w.policy(c.change)
		wait := w.operator().Pause(t.Context(), w.task(0).Object)
		switch {
		case (wait != nil) != (c.says != ""):
			t.Errorf("%s: %+v", name, wait)
		case wait != nil && (!strings.HasSuffix(wait.Message, c.says) || wait.RequeueAfter != soon):
			t.Errorf("%s: %+v", name, wait)
		}
	}
	// The policies cannot be read at all.
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errLost },
	})
	if wait := o.Pause(t.Context(), w.task(0).Object); wait != nil {
		t.Errorf("%+v", wait)
	}
}

// An Etcd keeps its place in line with its next task, and with the same change the time since when it has waited with it.
func TestThePlaceOfAnEtcd(t *testing.T) {
	w := newWorld(t, 0, 1)
	o := w.operator()
	began := w.clock.Now()
	enter := func(task, etcd types.UID, change string) *waiter {
		w.clock.Step(time.Minute)
		o.enter(fleet.Candidate{Task: task, Etcd: etcd, Namespace: "ns", Change: change})
		return o.waiting[task]
	}
	minute := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }
	enter("other", "other", "A")
	for _, c := range []struct {
		task           types.UID
		change         string
		since, change2 time.Time
	}{{"1", "A", minute(2), minute(2)}, {"2", "A", minute(2), minute(2)}, {"3", "B", minute(2), minute(4)}, {"3", "B", minute(2), minute(4)}} {
		got := enter(c.task, "etcd", c.change)
		if !got.Since.Equal(c.since) || !got.ChangeSince.Equal(c.change2) || !got.entered.Equal(w.clock.Now()) || len(o.waiting) != 2 {
			t.Errorf("%s with %s: %+v of %d", c.task, c.change, got, len(o.waiting))
		}
	}
	o.leave("3", false)
	if len(o.waiting) != 1 || len(o.since) != 2 || o.served["ns"] != 0 {
		t.Errorf("%v %v %v", o.waiting, o.since, o.served)
	}
	o.leave("3", true)
	if o.served["ns"] != 0 {
		t.Error("it was not in line")
	}
	o.leave("other", true)
	if len(o.waiting) != 0 || len(o.since) != 1 || o.served["ns"] != 1 {
		t.Errorf("%v %v %v", o.waiting, o.since, o.served)
	}
}

// A namespace that did not wait begins where the least served one is, unless it has been served more.
func TestNamespacesHoardNoCredit(t *testing.T) {
	w := newWorld(t, 0, 1)
	o := w.operator()
	o.served = map[string]float64{"a": 7, "b": 5, "idle": 2, "busy": 9}
	for _, c := range []struct {
		namespace string
		want      float64
	}{{"a", 7}, {"b", 7}, {"idle", 7}, {"busy", 9}, {"new", 7}} {
		o.enter(fleet.Candidate{Task: types.UID(c.namespace), Etcd: types.UID(c.namespace), Namespace: c.namespace})
		if got := o.served[c.namespace]; got != c.want {
			t.Errorf("%s: %v, want %v", c.namespace, got, c.want)
		}
	}
	o.served["a"] = 8
	o.enter(fleet.Candidate{Task: "more", Etcd: "more", Namespace: "b"})
	if o.served["b"] != 7 {
		t.Error("it waits already")
	}
	for _, busy := range []string{"c", "d", "e", "f"} {
		o.served[busy] = 9
		o.enter(fleet.Candidate{Task: types.UID(busy), Etcd: types.UID(busy), Namespace: busy})
	}
	for range 20 {
		if o.join("late"); o.served["late"] != 7 {
			t.Fatalf("it begins at %v, wherever a map is read first", o.served["late"])
		}
		delete(o.served, "late")
	}
}

// Once no policy is left, every task that waits is woken, and waits no more; if not all can be woken at once, the rest is soon.
func TestWhoWaitsWithoutAPolicy(t *testing.T) {
	w := newWorld(t, 3, 1)
	o := w.operator()
	o.pass(interval)
	if o.start(0); o.ask(1) == nil || o.ask(2) == nil {
		t.Fatal("there is one slot")
	}
	if err := w.api.Delete(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		room, waiting int
		again         time.Duration
	}{{0, 2, stale}, {1, 1, stale}, {1, 0, 0}} {
		o.wakes = make(chan event.GenericEvent, c.room)
		w.clock.Step(interval)
		result, err := o.Reconcile(t.Context(), ctrl.Request{})
		if err != nil || result.RequeueAfter != c.again || len(o.wakes) != c.room || len(o.waiting) != c.waiting {
			t.Errorf("%+v %v, %d woken, %d wait, want %+v", result, err, len(o.wakes), len(o.waiting), c)
		}
	}
}

// A task that does not wait any more, or does not answer, leaves the line, and a place that no task claims is forgotten: each after its time.
func TestWhatIsForgotten(t *testing.T) {
	w := newWorld(t, 0, 1)
	now := w.clock.Now()
	task := func(change func(*v1alpha1.EtcdOperatorTask)) *v1alpha1.EtcdOperatorTask {
		t := &v1alpha1.EtcdOperatorTask{}
		change(t)
		return t
	}
	tasks := map[types.UID]*v1alpha1.EtcdOperatorTask{
		"waits":     task(func(*v1alpha1.EtcdOperatorTask) {}),
		"suspended": task(func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Suspend = true }),
		"runs":      task(func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateInProgress }),
		"recreates": task(func(t *v1alpha1.EtcdOperatorTask) {
			t.Spec.Type, t.Status.State = v1alpha1.RecreateRollout, v1alpha1.TaskStateInProgress
		}),
	}
	for name, c := range map[string]struct {
		task          types.UID
		entered, woke time.Duration
		stays         bool
	}{
		"it waits":                   {"waits", time.Minute, -1, true},
		"it is gone":                 {"gone", time.Minute, -1, false},
		"it is gone, or was seen":    {"gone", 0, -1, true},
		"it is suspended":            {"suspended", time.Minute, -1, false},
		"it runs":                    {"runs", time.Minute, -1, false},
		"it runs, and stops nothing": {"recreates", time.Minute, -1, true},
		"it was woken":               {"waits", time.Minute, answer, true},
		"it was woken long ago":      {"waits", time.Minute, answer + 1, false},
		"it is gone, and was woken":  {"gone", time.Minute, 0, false},
	} {
		o := w.operator()
		one := &waiter{entered: now.Add(-c.entered)}
		if c.woke >= 0 {
			one.woken = now.Add(-c.woke)
		}
		o.waiting[c.task] = one
		if o.forget(&view{at: now, tasks: tasks}); (len(o.waiting) == 1) != c.stays {
			t.Errorf("%s: %v", name, o.waiting)
		}
		// It may wait for nothing any more, because its policy is gone.
		if wakes := len(o.wakes) == 1; wakes != (c.task == "gone" && !c.stays) {
			t.Errorf("%s: it asks again: %t", name, wakes)
		}
	}
	o := w.operator()
	o.since = map[types.UID]since{"kept": {asked: now.Add(-kept)}, "not": {asked: now.Add(-kept - 1)}}
	if o.forget(&view{}); len(o.since) != 1 || o.since["kept"].asked.IsZero() {
		t.Errorf("%v", o.since)
	}
}

// A task that was woken is not woken again, and what the engine does not take now is for the next pass.
func TestWaking(t *testing.T) {
	w := newWorld(t, 0, 1)
	o := w.operator()
	o.wakes = make(chan event.GenericEvent, 2)
	for _, task := range []types.UID{"a", "b", "c"} {
		o.waiting[task] = &waiter{Candidate: fleet.Candidate{Namespace: string(task), EtcdName: "main"}}
	}
	o.wake([]types.UID{"a", "gone", "a", "b", "c"})
	if len(o.wakes) != 2 || o.waiting["a"].woken.IsZero() || o.waiting["b"].woken.IsZero() || !o.waiting["c"].woken.IsZero() {
		t.Errorf("%d are woken: %+v", len(o.wakes), o.waiting)
	}
	if e := (<-o.wakes).Object; e.GetNamespace() != "a" || e.GetName() != "main" {
		t.Errorf("%+v", e)
	}
	<-o.wakes
	// There is no policy any more.
	if result := o.dismiss(); result.RequeueAfter != stale || len(o.waiting) != 1 {
		t.Errorf("%+v, %d wait", result, len(o.waiting))
	}
	for len(o.wakes) > 0 {
		<-o.wakes
	}
	if result := o.dismiss(); result.RequeueAfter != 0 || len(o.waiting) != 0 {
		t.Errorf("%+v, %d wait", result, len(o.waiting))
	}
}

// Another task of the same Etcd that runs is the one that a task may begin beside: not itself, and none of another one.
func TestWhichTaskRunsBeside(t *testing.T) {
	w := newWorld(t, 2, 2)
	next := w.follower()
	for i := range w.n {
		if err := w.begin(w.task(i)); err != nil {
			t.Fatal(err)
		}
	}
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	beside := func(task tasks.Task) types.UID {
		t.Helper()
		uid, err := o.beside(t.Context(), v, task)
		if err != nil {
			t.Error(err)
		}
		return uid
	}
	if uid := beside(next); uid != "task0" {
		t.Error(uid)
	}
	if uid := beside(w.task(0)); uid != "" {
		t.Error(uid)
	}
	w.finish()
	if uid := beside(next); uid != "" {
		t.Errorf("%s has ended", uid)
	}
	if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
		t.Fatal(err)
	}
	if uid := beside(next); uid != "" {
		t.Errorf("%s is gone", uid)
	}
	_, _, again := w.objects(0)
	again.UID = "again"
	again.Status.State = v1alpha1.TaskStateInProgress
	if err := w.api.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if uid := beside(next); uid != "" {
		t.Errorf("%s is another one of the same name", uid)
	}
	if next.Object.Status.State = v1alpha1.TaskStatePending; v.tasks["next"] == nil {
		t.Error("a task that waits is shown")
	}
}

// A task that is gone cannot give its slot back: what holds it is found out by the controller.
func TestASlotOfATaskThatIsGone(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	granted := w.task(0)
	w.mayStart(o.asks(granted))
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
	late := w.task(0)
	if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(maxAge)
	w.waits(o.asks(late), v1alpha1.ReasonFleetPaused, "")
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// A change that waits for its window goes on where it was, also if another operator takes over.
func TestAChangeThatWaitsForItsWindowOutlivesAnOperator(t *testing.T) {
	w := newWorld(t, 2, 2)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To(int32(1)) })
	for i := range w.n {
		w.restarts(i)
	}
	o := w.operator()
	o.passesCanary()
	task := w.task(1).Object
	task.Status.Change = fleet.Restart
	task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWaitingForWindow, LastTransitionTime: metav1.Time{Time: w.clock.Now()}}}
	if err := w.api.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(72 * time.Hour)
	o = w.operator()
	w.mayStart(o.ask(0))
	w.mayStart(o.ask(1))
}
