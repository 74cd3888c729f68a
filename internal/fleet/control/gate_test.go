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
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// policy changes the policy of a world. As on an API server, annotations are of no generation.
func (w *world) policy(change func(*v1alpha1.EtcdFleetPolicy)) {
	w.t.Helper()
	p := w.read()
	before := p.Spec.DeepCopy()
	if change(p); !equality.Semantic.DeepEqual(*before, p.Spec) {
		p.Generation++
	}
	if err := w.api.Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// read reads the policy.
func (w *world) read() *v1alpha1.EtcdFleetPolicy {
	w.t.Helper()
	p := &v1alpha1.EtcdFleetPolicy{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: "all"}, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// ask asks about the task of a cluster, of another type if one is given.
func (o *operator) ask(i int, taskTypes ...v1alpha1.TaskType) *engine.Wait {
	o.world.t.Helper()
	task, etcd := &v1alpha1.EtcdOperatorTask{}, &v1alpha1.Etcd{}
	for name, object := range map[string]client.Object{"task": task, "main": etcd} {
		if err := o.world.api.Get(o.world.t.Context(), types.NamespacedName{Namespace: namespaceOf(i), Name: name}, object); err != nil {
			o.world.t.Fatal(err)
		}
	}
	for _, taskType := range taskTypes {
		task.Spec.Type = taskType
	}
	wait, err := o.Ask(o.world.t.Context(), tasks.Task{Object: task, Etcd: etcd})
	if err != nil {
		o.world.t.Fatal(err)
	}
	return wait
}

// Without a policy, and in a namespace that none selects, nothing waits and nothing is written. The API server is asked for the policies
// when a task starts, and for the namespace if there are any.
func TestWithoutAPolicy(t *testing.T) {
	for name, change := range map[string]func(*world) (reads int){
		"there is none": func(w *world) int {
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
			return 1
		},
		"it selects other namespaces": func(w *world) int {
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
				p.Spec.Paused, p.Spec.NamespaceSelector.MatchLabels = true, map[string]string{"tier": "other"}
			})
			return 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 1)
			reads := change(w)
			o := w.operator()
			live := 0
			o.readLive(func() { live++ })
			writes := 0
			o.write = func(do func() error) error { writes++; return do() }
			for i := range w.n {
				w.mayStart(o.ask(i))
				if o.Pause(t.Context(), &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i)}}) != nil {
					t.Error("it pauses")
				}
			}
			if live != reads*w.n || writes > 0 {
				t.Errorf("%d reads, %d writes", live, writes)
			}
			live = 0
			if name == "there is none" {
				result, err := o.Reconcile(t.Context(), ctrl.Request{})
				if err != nil || result.RequeueAfter != 0 || live+writes > 0 {
					t.Errorf("%+v, %v, %d reads, %d writes", result, err, live, writes)
				}
			}
		})
	}
}

// What needs no slot does not wait, whatever the policy says; what is not known needs one.
func TestWhatNeedsASlot(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
	o := w.operator()
	for _, taskType := range []v1alpha1.TaskType{v1alpha1.OnDemandSnapshot, v1alpha1.OnDemandCompaction, v1alpha1.CopyBackups, v1alpha1.QuorumLossRecovery, v1alpha1.MembershipChange} {
		if wait := o.ask(0, taskType); wait != nil {
			t.Errorf("%s: %+v", taskType, wait)
		}
	}
	for _, taskType := range []v1alpha1.TaskType{v1alpha1.OnDemandMaintenance, "SomethingNew"} {
		if wait := o.ask(0, taskType); wait == nil || wait.Reason != v1alpha1.ReasonFleetPaused || wait.RequeueAfter != soon {
			t.Errorf("%s: %+v", taskType, wait)
		}
	}
}

// Where the ledger has no room for another cluster, a task waits, and says of what it is full. Only the first in line try again in each pass. One
// that bypasses the policies starts.
func TestALedgerThatIsFull(t *testing.T) {
	w := newWorld(t, near+2, 5000)
	o := w.operator()
	o.pass(interval)
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "x", TaskName: "x", Namespace: "ns0", Etcd: "x", Policies: []string{"all"}, Change: "A", Ended: w.clock.Now(), Unasked: true, Baseline: strings.Repeat("x", 801<<10)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for i := range w.n {
		wait := o.ask(i)
		w.waits(wait, v1alpha1.ReasonWaitingForSlot, "the ledger of the fleet has no room for another cluster (running tasks: 0, watched clusters: 1, ")
		if wait.RequeueAfter != late {
			t.Errorf("%+v", wait)
		}
	}
	if o.pass(interval); len(o.wakes) != near {
		t.Errorf("%d are woken", len(o.wakes))
	}
	task := w.task(1)
	metav1.SetMetaDataAnnotation(&task.Object.ObjectMeta, v1alpha1.AnnotationBypassFleet, "true")
	w.mayStart(o.asks(task))
}

// A task names its change, while it waits as when it starts.
func TestATaskNamesItsChange(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	for i := range w.n {
		task := w.restarts(i)
		if wait := o.asks(task); (wait != nil) != (i > 0) || task.Object.Status.Change != fleet.Restart {
			t.Errorf("%d: %+v, change %q", i, wait, task.Object.Status.Change)
		}
	}
}

// Nothing is granted by a generation that is older than one that the ledger knows.
func TestAPolicyThatTheCacheDoesNotShow(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Generation = 1 })
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		return l.Record(&fleet.Policy{Name: "all", UID: "policy", Generation: 3})
	}); err != nil {
		t.Fatal(err)
	}
	if wait := o.ask(0); wait == nil || !strings.Contains(wait.Message, "has changed") || wait.RequeueAfter != stale {
		t.Errorf("%+v", wait)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Generation = 3 })
	w.clock.Step(maxAge)
	w.mayStart(o.ask(0))
}

// Tasks start while a window is open, ask again when the next one opens, and pause at its end if the policy says so.
func TestTasksInWindows(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.AtEnd = v1alpha1.FleetPause
		p.Spec.Windows = []v1alpha1.FleetWindow{{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Europe/Berlin"}}
	})
	o := w.operator()
	rollout := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0"}}
	w.waits(o.ask(0), v1alpha1.ReasonWaitingForWindow, "opens at 2026-01-01T01:00:00Z")
	if wait := o.Pause(t.Context(), rollout); wait == nil || wait.Reason != v1alpha1.ReasonWaitingForWindow || !strings.Contains(wait.Message, "continues at 2026-01-01T01:00:00Z") {
		t.Errorf("%+v", wait)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows[0].TimeZone = "Europe/Bonn" })
	w.clock.Step(maxAge)
	if wait := o.Pause(t.Context(), rollout); wait == nil || wait.Reason != v1alpha1.ReasonWaitingForWindow || !strings.Contains(wait.Message, `EtcdFleetPolicy all is invalid, so it is not known whether a window is open, and spec.atEnd is Pause: spec.windows[0]: timeZone "Europe/Bonn"`) {
		t.Errorf("what paused goes on because of a mistake: %+v", wait)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows[0].TimeZone = "Europe/Berlin" })
	w.clock.Step(maxAge)
	rollout.Spec.Type = v1alpha1.QuorumLossRecovery
	if o.Pause(t.Context(), rollout) != nil {
		t.Error("a recovery does not pause")
	}
	w.clock.SetTime(time.Date(2026, 1, 1, 0, 59, 50, 0, time.UTC))
	if wait := o.ask(0); wait == nil || wait.RequeueAfter != 10*time.Second {
		t.Errorf("%+v", wait)
	}
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil || w.read().Status.NextWindow == nil {
		t.Errorf("%v %+v", err, w.read().Status)
	}
	w.clock.SetTime(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))
	rollout.Spec.Type = v1alpha1.QuorumAwareRollout
	if o.Pause(t.Context(), rollout) != nil || o.ask(0) != nil {
		t.Error("a window is open")
	}
}

// What is wrong with a policy pauses tasks if it makes the windows unknown, and nothing else does while a window is open. A policy with exceptions
// alone has no windows that close.
func TestAnInvalidPolicyPausesByItsWindowsAlone(t *testing.T) {
	hour := metav1.Duration{Duration: time.Hour}
	bad := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Bad"}}}
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdFleetPolicySpec)
		says   string
	}{
		"it is valid":     {func(*v1alpha1.EtcdFleetPolicySpec) {}, ""},
		"maxConcurrent":   {func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxConcurrent = ptr.To(intstr.FromString("many")) }, ""},
		"maxPerNamespace": {func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxPerNamespace = ptr.To(intstr.FromString("many")) }, ""},
		"canaries":        {func(s *v1alpha1.EtcdFleetPolicySpec) { s.Canary.Selector = &bad }, ""},
		"namespaces":      {func(s *v1alpha1.EtcdFleetPolicySpec) { s.NamespaceSelector = bad }, ""},
		"windows": {func(s *v1alpha1.EtcdFleetPolicySpec) { s.Windows[0].TimeZone, s.NamespaceSelector = "Europe/Bonn", bad },
			"is invalid, so it is not known whether a window is open, and spec.atEnd is Pause: spec.windows[0]: timeZone"},
		"exceptions": {func(s *v1alpha1.EtcdFleetPolicySpec) {
			s.Except = []v1alpha1.FleetWindow{{Schedule: "x", Duration: hour}}
		},
			"is invalid, so it is not known whether a window is open, and spec.atEnd is Pause: spec.except[0]: schedule"},
		"it has closed":           {func(s *v1alpha1.EtcdFleetPolicySpec) { s.Windows[0].Schedule = "0 12 * * *" }, "no window of EtcdFleetPolicy all is open, and spec.atEnd is Pause"},
		"it has exceptions alone": {func(s *v1alpha1.EtcdFleetPolicySpec) { s.Windows, s.Except = nil, s.Windows }, "no window of EtcdFleetPolicy all is open, and spec.atEnd is Pause"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1)
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
				p.Spec.AtEnd, p.Spec.Windows = v1alpha1.FleetPause, []v1alpha1.FleetWindow{{Schedule: "0 0 * * *", Duration: hour}}
				c.change(&p.Spec)
			})
			wait := w.operator().Pause(t.Context(), &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(0)}})
			if c.says == "" && wait != nil || c.says != "" && (wait == nil || !strings.Contains(wait.Message, c.says)) {
				t.Errorf("%+v", wait)
			}
		})
	}
}

// A change that failed is shown on its policy, with an event, until a person resumes it as they have seen it.
func TestStatusOfAPolicy(t *testing.T) {
	w := newWorld(t, 3, 2)
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "gone", TaskName: "gone", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Policies: []string{"all"}, Change: "A", Granted: w.clock.Now()})
		l.Failed("gone", "it crashes", w.clock.Now())
		l.Release("gone", w.clock.Now())
		return true
	}); err != nil {
		t.Fatal(err)
	}
	o.start(1)
	o.start(2)
	o.pass(interval)
	if s := w.read().Status; meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused) != nil || s.Changes[0].Paused == "" {
		t.Errorf("no task asks for the change: %+v", s)
	}
	asks := w.task(0).Object
	asks.Status.Change = "A"
	if err := w.api.Status().Update(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	o.pass(interval)
	s := w.read().Status
	paused := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused)
	if s.Clusters != 3 || s.Limit != 2 || s.Used != 2 || s.Waiting != 0 || len(s.Holders) != 2 || s.ObservedGeneration != 1 || len(s.Changes) != 1 || s.Changes[0].Failed != 1 || !strings.HasPrefix(s.Changes[0].ResumeToken, "A.") ||
		paused == nil || paused.Reason != v1alpha1.ReasonChangeFailed || !strings.Contains(paused.Message, "ns0/main (it crashes)") {
		t.Errorf("%+v", s)
	}
	w.waits(o.ask(0), v1alpha1.ReasonWaitingForSlot, "")
	version := w.read().ResourceVersion
	o.pass(interval)
	waiting := w.read()
	if waiting.Status.Waiting != 1 || waiting.ResourceVersion == version {
		t.Errorf("%+v", waiting.Status)
	}
	writes := 0
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
	if o.pass(time.Minute); writes > 0 {
		t.Errorf("%d writes although nothing has changed", writes)
	}
	o.Client = o.client
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationResumeChange: s.Changes[0].ResumeToken}
	})
	o.pass(interval)
	if s := w.read().Status; meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused) != nil || s.Changes[0].Paused != "" || s.ObservedGeneration != 1 {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		change func(*v1alpha1.EtcdFleetPolicySpec)
		reason string
	}{
		{func(s *v1alpha1.EtcdFleetPolicySpec) { s.Paused = true }, v1alpha1.ReasonPausedBySpec},
		{func(s *v1alpha1.EtcdFleetPolicySpec) { s.Paused, s.MaxConcurrent = false, ptr.To(intstr.FromInt32(0)) }, v1alpha1.ReasonPausedBySpec},
		{func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxConcurrent = ptr.To(intstr.FromString("many")) }, v1alpha1.ReasonInvalidPolicy},
		{func(s *v1alpha1.EtcdFleetPolicySpec) {
			s.MaxConcurrent, s.Windows = nil, []v1alpha1.FleetWindow{{Schedule: "x"}}
		}, v1alpha1.ReasonInvalidPolicy},
		{func(s *v1alpha1.EtcdFleetPolicySpec) {
			s.Windows, s.MaxPerNamespace = nil, ptr.To(intstr.FromString("0%"))
		}, v1alpha1.ReasonInvalidPolicy},
		{func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxPerNamespace = ptr.To(intstr.FromString("all")) }, v1alpha1.ReasonInvalidPolicy},
	} {
		w.policy(func(p *v1alpha1.EtcdFleetPolicy) { c.change(&p.Spec) })
		o.pass(interval)
		if paused := meta.FindStatusCondition(w.read().Status.Conditions, v1alpha1.ConditionPaused); paused == nil || paused.Reason != c.reason {
			t.Errorf("%+v, want %s", paused, c.reason)
		}
	}
}

// A ledger that cannot be read is made again, and what was paused stays paused.
func TestALedgerThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "gone", TaskName: "gone", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Policies: []string{"all"}, Change: "A"})
		l.Failed("gone", "it crashes", w.clock.Now())
		l.Release("gone", w.clock.Now())
		return true
	}); err != nil {
		t.Fatal(err)
	}
	o.start(1)
	o.pass(interval)
	object := &corev1.ConfigMap{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: operatorNamespace, Name: store.Name}, object); err != nil {
		t.Fatal(err)
	}
	object.Data[store.Key] = "{"
	if err := w.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	o = w.operator()
	l, err := o.Store.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := l.Recorded("all"); r == nil || r.UID != "policy" || r.Generation != 1 {
		t.Errorf("an older policy is not refused: %+v", r)
	}
	if l.Rebuilt.IsZero() || len(l.Holders) != 1 || l.Holders[0].Task != "task1" || !l.Holders[0].Unasked || len(l.Changes) != 1 || len(l.Changes[0].Failures) != 1 || len(l.Failing) != 1 {
		t.Errorf("%+v", l)
	}
	w.waits(o.ask(0), v1alpha1.ReasonWaitingForSlot, "")
}

// While a newer operator's ledger is there, nothing starts, and tasks, policies and a metric say so.
func TestALedgerOfANewerOperator(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.operator().pass(interval)
	object := &corev1.ConfigMap{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: operatorNamespace, Name: store.Name}, object); err != nil {
		t.Fatal(err)
	}
	known := object.Data[store.Key]
	write := func(ledger string) {
		t.Helper()
		object.Data[store.Key] = ledger
		if err := w.api.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"sealed":true}`)
	o := w.operator()
	recorder := &events.FakeRecorder{Events: make(chan string, 10)}
	o.Recorder = recorder
	w.waits(o.ask(0), v1alpha1.ReasonFleetPaused, "written by a newer operator")
	o.pass(interval)
	o.pass(interval)
	if n := len(recorder.Events); n != 1 {
		t.Fatalf("%d events", n)
	}
	if said := <-recorder.Events; !strings.HasPrefix(said, "Warning LedgerOfNewerOperator the ledger of the fleet") {
		t.Error(said)
	}
	if paused := testutil.ToFloat64(o.Metrics.paused.WithLabelValues("all")); paused != 1 {
		t.Errorf("the metric says %v", paused)
	}
	write(known)
	o.pass(interval)
	if paused := testutil.ToFloat64(o.Metrics.paused.WithLabelValues("all")); paused != 0 {
		t.Errorf("the metric says %v", paused)
	}
	w.mayStart(o.ask(0))
}
