// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// A fingerprint that is known is not made again; a revision, or a pod, of another owner says nothing; and what cannot be read is an error.
func TestFingerprintsOfARollout(t *testing.T) {
	w := newWorld(t, 1, 1)
	task := w.rolls(0)
	change := func(o *operator) string {
		t.Helper()
		found, err := o.change(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	o := w.operator()
	first := change(o)
	revision := func(name string) *appsv1.ControllerRevision {
		r := &appsv1.ControllerRevision{}
		if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "ns0", Name: name}, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	// A pod of another StatefulSet has the label of this one.
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns0", Name: "stranger", Labels: map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: "r0"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "other", UID: "other", Controller: ptr.To(true)}},
	}}
	older := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: "r0", OwnerReferences: revision("r1").OwnerReferences}, Data: runtime.RawExtension{Raw: []byte(`{"image":"etcd:0"}`)}}
	if err := errors.Join(w.api.Create(t.Context(), stranger), w.api.Create(t.Context(), older)); err != nil {
		t.Fatal(err)
	}
	if got := change(w.operator()); got != first {
		t.Errorf("%s, want %s", got, first)
	}
	// The target is of another StatefulSet.
	target := revision("r2")
	target.OwnerReferences[0].UID = "other"
	if err := w.api.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if got := change(o); got != first {
		t.Errorf("%s is known", got)
	}
	if got := change(w.operator()); got != "v1-unknown-r2" {
		t.Error(got)
	}
	target.OwnerReferences = revision("r1").OwnerReferences
	if err := w.api.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	o = w.operator()
	o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if r, ok := object.(*appsv1.ControllerRevision); ok && key.Name == "r2" {
				r.Data.Raw = []byte("{")
			}
			return err
		},
	})
	if got, err := o.change(t.Context(), task); err == nil || got != "" || len(o.prints) > 0 {
		t.Errorf("%q, and %v is kept", got, o.prints)
	}
	// All pods have the target.
	task.Object.Spec.Config = "targetRevision: r1"
	if got := change(o); got != fleet.Restart {
		t.Error(got)
	}
}

// A cluster is watched for as long as the most patient of its policies wants: a canary for longer than others.
func TestHowLongAClusterIsWatched(t *testing.T) {
	policy := func(soak, canary time.Duration) *fleet.Policy {
		return &fleet.Policy{Soak: soak, Canary: fleet.Canary{Soak: canary}}
	}
	v := &view{policies: map[string]*fleet.Policy{"short": policy(time.Minute, time.Hour), "long": policy(2*time.Minute, 2*time.Minute), "quick": policy(3*time.Second, time.Second)}}
	for _, c := range []struct {
		policies []string
		canary   bool
		want     time.Duration
	}{
		{[]string{"short"}, false, time.Minute}, {[]string{"short"}, true, time.Hour}, {[]string{"short", "long", "gone"}, false, 2 * time.Minute},
		{[]string{"long", "short"}, true, time.Hour}, {[]string{"quick"}, true, 3 * time.Second}, {nil, true, 0},
	} {
		if got := (&Controller{}).soak(v, &fleet.Holder{Policies: c.policies, Canary: c.canary}); got != c.want {
			t.Errorf("%v, canary: %t: %s, want %s", c.policies, c.canary, got, c.want)
		}
	}
}

// What does not belong to the members, and what is not known, is neither success nor failure of a cluster that is watched.
func TestWhatIsNoFailure(t *testing.T) {
	pod := func(w *world, change func(*corev1.Pod)) {
		p := &corev1.Pod{}
		if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "ns0", Name: "main-0"}, p); err != nil {
			t.Fatal(err)
		}
		if change(p); w.api.Status().Update(t.Context(), p) != nil {
			t.Fatal("the pod cannot be changed")
		}
	}
	for name, c := range map[string]struct {
		before, happens func(*world)
		want            string
	}{
		"a Job begins": {nil, func(w *world) {
			for name, owner := range map[string][]metav1.OwnerReference{"job": {{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "job", Controller: ptr.To(true)}}, "alone": nil} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelPartOf: "main"}, OwnerReferences: owner}}
				if err := w.api.Create(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		}, "done"},
		"the agent restarts": {nil, func(w *world) {
			pod(w, func(p *corev1.Pod) {
				running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: w.clock.Now()}}}
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: v1alpha1.ContainerBackupRestore, State: running})
			})
		}, "done"},
		"etcd stops": {nil, func(w *world) {
			pod(w, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} })
		}, "while it was watched: a member restarted, or its pod was replaced"},
		"another error": {nil, func(w *world) {
			w.etcd(func(e *v1alpha1.Etcd) {
				e.Status.LastErrors = []v1alpha1.LastError{{Code: "ERR_OTHER", Description: "no alarm"}}
			})
		}, "done"},
		"an error, and an alarm": {nil, func(w *world) {
			w.etcd(func(e *v1alpha1.Etcd) {
				e.Status.LastErrors = []v1alpha1.LastError{{Code: "ERR_OTHER"}, {Code: v1alpha1.ErrAlarm, Description: "CORRUPT"}}
			})
		}, "while it was watched: CORRUPT"},
		"its backups work again": {func(w *world) { w.etcd(set(v1alpha1.ConditionBackupReady, metav1.ConditionFalse)) }, func(w *world) {
			w.etcd(set(v1alpha1.ConditionBackupReady, metav1.ConditionTrue))
		}, "done"},
		"it hibernates": {nil, func(w *world) {
			w.etcdOf(0, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
		}, "neither"},
		"nothing is known": {nil, func(w *world) { w.etcd(func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }) }, "watched"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			if c.before != nil {
				c.before(w)
			}
			o.pass(30 * time.Second)
			c.happens(w)
			for range 24 {
				w.clock.Step(settle / 2)
				o.pass(interval)
			}
			if got := o.outcome(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The order in which a cache lists pods says nothing.
func TestTheOrderOfPods(t *testing.T) {
	w := newWorld(t, 1, 1)
	first := w.pod(0, w.clock.Now())
	second := first.DeepCopy()
	second.Name, second.UID, second.ResourceVersion = "main-1", "another", ""
	if err := w.api.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	etcd := w.task(0).Etcd
	before, err := o.pods(t.Context(), etcd)
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if pods, ok := list.(*corev1.PodList); ok {
				slices.Reverse(pods.Items)
			}
			return err
		},
	})
	after, err2 := o.pods(t.Context(), etcd)
	if err != nil || err2 != nil || before != after || strings.Count(before, ",") != 1 {
		t.Errorf("%q and %q, %v %v", before, after, err, err2)
	}
}

// holding returns an operator whose ledger has a holder with the task of the first cluster, which runs unless its state is changed.
func holding(t *testing.T, canary bool, change func(w *world, task *v1alpha1.EtcdOperatorTask)) (*world, *operator) {
	t.Helper()
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		l.Grant(fleet.Holder{Task: "task0", TaskName: "task", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Policies: []string{"all"}, Change: "A", Canary: canary, ResourceVersion: w.task(0).Object.ResourceVersion})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	task := w.task(0).Object
	task.Status.State, task.Status.InitiatedAt = v1alpha1.TaskStateInProgress, &metav1.Time{Time: w.clock.Now()}
	change(w, task)
	if err := w.api.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return w, o
}

// What a task that runs does to a cluster is a failure only if the quorum of several members is known to be lost.
func TestWhatIsNoFailureOfATaskThatRuns(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			w.etcd(func(e *v1alpha1.Etcd) {
				e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "because"})
			})
		}
	}
	for name, c := range map[string]struct {
		change func(*world, *v1alpha1.EtcdOperatorTask)
		want   string
	}{
		"its quorum is lost": {ready(metav1.ConditionFalse, v1alpha1.ReasonQuorumLost), "the quorum was lost: because"},
		"it may be":          {ready(metav1.ConditionUnknown, v1alpha1.ReasonQuorumLost), "watched"},
		"another reason":     {ready(metav1.ConditionFalse, "Other"), "watched"},
		"nothing is known of it": {func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			w.etcd(func(e *v1alpha1.Etcd) { e.Status.Conditions = nil })
		}, "watched"},
		"it progresses": {func(_ *world, task *v1alpha1.EtcdOperatorTask) {
			task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: "Replacing"}}
		}, "watched"},
		"its only member stops": {func(w *world, task *v1alpha1.EtcdOperatorTask) {
			w.etcdOf(0, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 1 })
			ready(metav1.ConditionFalse, v1alpha1.ReasonQuorumLost)(w, task)
		}, "watched"},
		"its Etcd is gone": {func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			if err := w.api.Delete(t.Context(), w.task(0).Etcd); err != nil {
				t.Fatal(err)
			}
		}, "watched"},
	} {
		t.Run(name, func(t *testing.T) {
			_, o := holding(t, false, c.change)
			if o.pass(2 * interval); o.outcome() != c.want {
				t.Errorf("%q, want %q", o.outcome(), c.want)
			}
		})
	}
}

// A task of the same name that was created since is another one, and so is an Etcd; one that hibernates has no members to wait for.
func TestWhoHoldsNothingAnyMore(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"another task": func(w *world) {
			_, _, task := w.objects(0)
			task.UID = "another"
			if err := w.api.Create(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		},
		"another Etcd": func(w *world) {
			etcd := w.etcdNow()
			other := etcd.DeepCopy()
			other.UID, other.ResourceVersion = "another", ""
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(other)
			if err := errors.Join(w.api.Delete(t.Context(), etcd), w.api.Create(t.Context(), other)); err != nil {
				t.Fatal(err)
			}
		},
		"it hibernates": func(w *world) {
			set := set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)
			w.etcd(set)
			etcd := w.etcdNow()
			etcd.Spec.Replicas = 0
			if err := w.api.Update(t.Context(), etcd); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := holding(t, false, func(*world, *v1alpha1.EtcdOperatorTask) {})
			if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
				t.Fatal(err)
			}
			change(w)
			if o.pass(settle + 2*interval); o.outcome() != "neither" {
				t.Error(o.outcome())
			}
		})
	}
}

// etcdNow reads the Etcd of the first cluster.
func (w *world) etcdNow() *v1alpha1.Etcd {
	w.t.Helper()
	etcd := &v1alpha1.Etcd{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: "ns0", Name: "main"}, etcd); err != nil {
		w.t.Fatal(err)
	}
	return etcd
}

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

// A task pauses only by a policy that says so, can be read, and has no window open.
func TestWhatPauses(t *testing.T) {
	closed := []v1alpha1.FleetWindow{{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdFleetPolicy)
		says   string
	}{
		"closed":      {func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows, p.Spec.AtEnd = closed, v1alpha1.FleetPause }, "; it continues at 2026-01-01T02:00:00Z"},
		"it finishes": {func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Windows, p.Spec.AtEnd = closed, v1alpha1.FleetFinish }, ""},
		"open":        {func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.AtEnd = v1alpha1.FleetPause }, ""},
		"it is invalid": {func(p *v1alpha1.EtcdFleetPolicy) {
			p.Spec.Windows, p.Spec.AtEnd, p.Spec.MaxConcurrent = closed, v1alpha1.FleetPause, ptr.To(intstr.FromString("many"))
		}, ""},
		"it never opens": {func(p *v1alpha1.EtcdFleetPolicy) {
			p.Spec.Windows, p.Spec.AtEnd = []v1alpha1.FleetWindow{{Schedule: "0 2 30 2 *", Duration: metav1.Duration{Duration: time.Hour}}}, v1alpha1.FleetPause
		}, "and keeps its slot"},
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
	// What cannot be read pauses nothing.
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
}

// Who does not wait any more, or does not answer, leaves the line, and a place that nobody claims is forgotten: each after its time.
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
	}
	for name, c := range map[string]struct {
		task          types.UID
		entered, woke time.Duration
		stays         bool
	}{
		"it waits":                  {"waits", time.Minute, -1, true},
		"it is gone":                {"gone", time.Minute, -1, false},
		"it is gone, or was seen":   {"gone", 0, -1, true},
		"it is suspended":           {"suspended", time.Minute, -1, false},
		"it runs":                   {"runs", time.Minute, -1, false},
		"it was woken":              {"waits", time.Minute, answer, true},
		"it was woken long ago":     {"waits", time.Minute, answer + 1, false},
		"it is gone, and was woken": {"gone", time.Minute, 0, false},
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

// Each finding is recorded once.
func TestFindingsAreRecordedOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		holder fleet.Holder
		f      finding
		new    bool
	}{
		"succeeded":                             {fleet.Holder{}, finding{kind: succeeded}, true},
		"succeeded again":                       {fleet.Holder{Ended: now}, finding{kind: succeeded}, false},
		"aborted":                               {fleet.Holder{}, finding{kind: aborted}, true},
		"aborted again":                         {fleet.Holder{Aborted: true}, finding{kind: aborted}, false},
		"aborted, and unwell":                   {fleet.Holder{Aborted: true}, finding{kind: aborted, reason: "unwell"}, false},
		"aborted, and well, as a canary":        {fleet.Holder{Aborted: true, Canary: true}, finding{kind: aborted}, false},
		"aborted, and unwell, as a canary":      {fleet.Holder{Aborted: true, Canary: true, Change: "A"}, finding{kind: aborted, reason: "unwell"}, true},
		"and counted":                           {fleet.Holder{Aborted: true, Canary: true, Change: "A", Counted: true}, finding{kind: aborted, reason: "unwell"}, false},
		"failing":                               {fleet.Holder{Change: "A"}, finding{kind: failing, reason: "stalled"}, true},
		"failing again":                         {fleet.Holder{Change: "A", Counted: true}, finding{kind: failing, reason: "stalled"}, false},
		"failing, and it changes nothing":       {fleet.Holder{}, finding{kind: failing, reason: "stalled"}, false},
		"watched from now on":                   {fleet.Holder{Ended: now}, finding{kind: baseline, reason: "pods"}, true},
		"it was granted again, and has not run": {fleet.Holder{ResourceVersion: "2"}, finding{kind: released, version: "1"}, false},
	} {
		l := &fleet.Ledger{}
		c.holder.Task, c.holder.Policies, c.holder.Etcd = "t", []string{"all"}, "e"
		l.Holders = []fleet.Holder{c.holder}
		c.f.task = "t"
		if got := c.f.apply(l, now); got != c.new {
			t.Errorf("%s: %t", name, got)
		}
		if c.f.kind == baseline && l.Holders[0].Baseline != "pods" {
			t.Errorf("%+v", l.Holders)
		}
	}
}

// The metrics of the fleet are what its policies' statuses say, and go with the policies.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	series := func() int {
		n, err := testutil.GatherAndCount(registry, "etcd_foreman_fleet_slots", "etcd_foreman_fleet_slots_used", "etcd_foreman_fleet_waiting", "etcd_foreman_fleet_paused", "etcd_foreman_fleet_slot_awaited_since_timestamp_seconds")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	paused := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: reason}}
	}
	for reason, want := range map[string]float64{"": 0, v1alpha1.ReasonPausedBySpec: 0, v1alpha1.ReasonChangeFailed: 1, v1alpha1.ReasonInvalidPolicy: 1} {
		s := &v1alpha1.EtcdFleetPolicyStatus{Limit: 3, Used: 2, Waiting: 5}
		if reason != "" {
			s.Conditions = paused(reason)
		}
		m.show("all", s)
		for vec, value := range map[*prometheus.GaugeVec]float64{m.slots: 3, m.used: 2, m.waiting: 5, m.paused: want} {
			if got := testutil.ToFloat64(vec.WithLabelValues("all")); got != value {
				t.Errorf("%q: %v, want %v", reason, got, value)
			}
		}
	}
	at := time.Unix(1_700_000_000, 0)
	m.await(map[string]*fleet.Policy{"all": {}, "other": {}}, map[string]time.Time{"all": at})
	if all, other := testutil.ToFloat64(m.awaited.WithLabelValues("all")), testutil.ToFloat64(m.awaited.WithLabelValues("other")); all != 1_700_000_000 || other != 0 {
		t.Errorf("%v, %v", all, other)
	}
	m.ledger(&fleet.Ledger{})
	if got := testutil.ToFloat64(m.rebuilt); got != 0 {
		t.Error(got)
	}
	m.ledger(&fleet.Ledger{Rebuilt: at})
	if got := testutil.ToFloat64(m.rebuilt); got != 1_700_000_000 {
		t.Error(got)
	}
	if n := series(); n != 6 {
		t.Error(n)
	}
	if m.reset(); series() != 0 {
		t.Errorf("%d are left", series())
	}
	m.waited(3 * time.Second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); f.GetName() == "etcd_foreman_fleet_slot_wait_seconds" && (h.GetSampleCount() != 1 || h.GetSampleSum() != 3) {
			t.Errorf("%+v", h)
		}
	}
}

// A pass publishes the metrics, looks at what there is now, and is over once there is nothing to do.
func TestWhatAPassPublishes(t *testing.T) {
	w := newWorld(t, 2, 1)
	o := w.operator()
	o.pass(interval)
	if o.start(0); o.ask(1) == nil {
		t.Fatal("there is one slot")
	}
	w.clock.Step(time.Minute)
	since := float64(w.clock.Now().Add(-time.Minute).Unix())
	o.pass(interval)
	if limit, used, waiting, awaited := testutil.ToFloat64(o.Metrics.slots), testutil.ToFloat64(o.Metrics.used), testutil.ToFloat64(o.Metrics.waiting), testutil.ToFloat64(o.Metrics.awaited); limit != 1 || used != 1 || waiting != 1 || awaited != since {
		t.Errorf("%v %v %v %v, want %v", limit, used, waiting, awaited, since)
	}
	// Within the second, a policy changes.
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(2)) })
	result, err := o.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter != interval || w.read().Status.Limit != 2 || len(o.wakes) == 0 {
		t.Errorf("%+v %v %+v, %d woken", result, err, w.read().Status, len(o.wakes))
	}
	if w.limit = 2; o.ask(1) != nil {
		t.Error("there is a slot")
	}
	w.lose()
	o = w.operator()
	if o.pass(interval); testutil.ToFloat64(o.Metrics.rebuilt) != float64(w.clock.Now().Unix()) {
		t.Error(testutil.ToFloat64(o.Metrics.rebuilt))
	}
	if err := w.api.Delete(t.Context(), w.read()); err != nil {
		t.Fatal(err)
	}
	if o.pass(interval); testutil.CollectAndCount(o.Metrics.slots) != 0 {
		t.Error("there is no policy any more")
	}
}

// A change that fails is announced once, and its tasks say so at once; again if it was resumed and fails again.
func TestAFailedChangeIsAnnouncedOnce(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	recorder := o.Recorder.(*events.FakeRecorder)
	l := &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all"}, {Name: "other"}}}
	fail := func(policy, change string) {
		l.Grant(fleet.Holder{Task: "t", Etcd: "e", EtcdName: "main", Policies: []string{policy}, Change: change})
		l.Failed("t", "it crashes", w.clock.Now())
		l.Release("t", w.clock.Now())
	}
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := fleet.Input{Ledger: l, Waiting: []fleet.Candidate{{Task: "1", Change: "A"}, {Task: "2", Change: "B"}}}
	report := func(want string, warnings int) {
		t.Helper()
		if got := fmt.Sprint(o.report(v, in)); got != want || len(recorder.Events) != warnings {
			t.Errorf("%s and %d events, want %s and %d", got, len(recorder.Events), want, warnings)
		}
		for len(recorder.Events) > 0 {
			if e := <-recorder.Events; !strings.Contains(e, v1alpha1.ReasonChangeFailed) || !strings.Contains(e, "it crashes") {
				t.Error(e)
			}
		}
	}
	report("[]", 0)
	fail("other", "A")
	report("[]", 0)
	fail("all", "A")
	report("[1]", 1)
	report("[]", 0)
	if !l.ResumeBy("all", l.Change("all", "A").ResumeToken()) {
		t.Fatal("it is not resumed")
	}
	report("[]", 0)
	fail("all", "A")
	report("[1]", 1)
}

// What a policy says, and the defaults of one that was written past the API server's.
func TestReadPolicies(t *testing.T) {
	window := v1alpha1.FleetWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}
	p := read(&v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 3}})
	if p.Name != "p" || p.UID != "u" || p.Generation != 3 || p.Invalid != "" || p.MaxConcurrent != 10 || !p.Percent || p.Soak != 5*time.Minute || p.Canary.Count != 1 || p.Canary.Soak != 5*time.Minute || p.Paused || p.PauseAtEnd || p.MaxFailures != 0 {
		t.Errorf("%+v", p)
	}
	o := &v1alpha1.EtcdFleetPolicy{}
	o.Spec.Soak, o.Spec.Canary.Soak, o.Spec.Canary.Count = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}, ptr.To(int32(4))
	o.Spec.Paused, o.Spec.MaxFailures, o.Spec.MaxConcurrent, o.Spec.AtEnd = true, 2, ptr.To(intstr.FromInt32(7)), v1alpha1.FleetPause
	o.Spec.Windows, o.Spec.Except = []v1alpha1.FleetWindow{window}, []v1alpha1.FleetWindow{window, window}
	p = read(o)
	if p.Invalid != "" || p.MaxConcurrent != 7 || p.Percent || p.Soak != time.Minute || p.Canary.Soak != time.Hour || p.Canary.Count != 4 || !p.Paused || !p.PauseAtEnd || p.MaxFailures != 2 || len(p.Windows) != 1 || len(p.Except) != 2 {
		t.Errorf("%+v", p)
	}
	bad := window
	bad.TimeZone = "Nowhere"
	for says, change := range map[string]func(*v1alpha1.EtcdFleetPolicySpec){
		`spec.maxConcurrent: "many" is neither`: func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxConcurrent = ptr.To(intstr.FromString("many")) },
		`spec.windows[1]: timeZone "Nowhere"`:   func(s *v1alpha1.EtcdFleetPolicySpec) { s.Windows = []v1alpha1.FleetWindow{window, bad} },
		`spec.except[0]: timeZone "Nowhere"`:    func(s *v1alpha1.EtcdFleetPolicySpec) { s.Except = []v1alpha1.FleetWindow{bad, window} },
	} {
		o := &v1alpha1.EtcdFleetPolicy{}
		change(&o.Spec)
		if p := read(o); !strings.HasPrefix(p.Invalid, says) || len(p.Windows) > 1 || len(p.Except) > 1 {
			t.Errorf("%s: %+v", says, p)
		}
	}
}

// A status shows so many holders, changes and failures, and no more, whatever the ledger has.
func TestAStatusIsBounded(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &fleet.Ledger{Policies: []fleet.Recorded{{Name: "all", UID: "policy"}}}
	now := w.clock.Now()
	for i := range maxHolders + 1 {
		l.Holders = append(l.Holders, fleet.Holder{Task: types.UID(fmt.Sprint(i)), Etcd: types.UID(fmt.Sprint(i)), EtcdName: "main", Policies: []string{"all"}, Change: "A", Granted: now})
	}
	l.Holders[1].Ended = now.Add(time.Minute)
	l.Holders = append([]fleet.Holder{{Task: "other", Policies: []string{"other"}, Change: "A"}}, l.Holders...)
	for i := range maxChanges + 1 {
		l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: fmt.Sprintf("%c", 'A'+i), Since: now.Add(time.Duration(i) * time.Second)})
	}
	for range maxFailures + 1 {
		l.Changes[maxChanges].Failures = append(l.Changes[maxChanges].Failures, fleet.Failure{EtcdName: "main", Reason: "it crashes"})
	}
	in := fleet.Input{Now: now, Policies: v.policies, Covering: v.covering, Ledger: l}
	s := o.status(v, in, &v.objects[0])
	if len(s.Holders) != maxHolders || s.Holders[0].WatchedSince != nil || s.Holders[1].WatchedSince == nil || !s.Holders[1].WatchedSince.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("%d holders: %+v", len(s.Holders), s.Holders[:2])
	}
	last := s.Changes[maxChanges-1]
	if len(s.Changes) != maxChanges || s.Changes[0].Failed != maxFailures+1 || len(s.Changes[0].Failures) != maxFailures || s.Changes[0].Paused == "" || last.Change != "B" {
		t.Errorf("%d changes: %+v … %+v", len(s.Changes), s.Changes[0], last)
	}
	all := changesOf(in, &fleet.Policy{Name: "all", MaxFailures: 100}, nil)
	if i := slices.IndexFunc(all, func(c v1alpha1.FleetChange) bool { return c.Change == "B" }); i < 0 || all[i].Running != 0 || all[i].Paused != "" {
		t.Errorf("%+v", all)
	}
	l.Changes = l.Changes[:1]
	if c := changesOf(in, &fleet.Policy{Name: "all"}, nil)[0]; c.Running != maxHolders || c.Watched != 1 {
		t.Errorf("%+v", c)
	}
}

// An Etcd of which nothing is known yet lacks no member, nor does one that hibernates; any other does unless it is known that it does not.
func TestWhoLacksAMember(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Etcd)
		lacks  bool
	}{
		"it is well":   {func(*v1alpha1.Etcd) {}, false},
		"it lacks one": {set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse), true},
		"it may":       {set(v1alpha1.ConditionAllMembersReady, metav1.ConditionUnknown), true},
		"no condition": {func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }, false},
		"it hibernates": {func(e *v1alpha1.Etcd) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
			e.Spec.Replicas = 0
		}, false},
		"it is new": {func(e *v1alpha1.Etcd) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
			e.Status.ClusterID = ""
		}, false},
		"it is not, as its status": {func(e *v1alpha1.Etcd) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
			e.Status.ClusterID, e.Status.Members = "", []v1alpha1.Member{{}}
		}, true},
	} {
		_, etcd, _ := newWorld(t, 0, 1).objects(0)
		c.change(etcd)
		if got := lacksMember(etcd); (got != nil) != c.lacks || got != nil && (got.Etcd != "etcd0" || got.Namespace != "ns0" || got.Name != "main" || got.Recovering) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Tasks that have ended, or end, need no slot, nor do those of namespaces that nothing covers; a view that shows nothing has none.
func TestWhatAViewShows(t *testing.T) {
	w := newWorld(t, 4, 1)
	ending := w.task(1).Object
	ending.Finalizers = []string{"example.com/keep"}
	if err := errors.Join(w.api.Update(t.Context(), ending), w.api.Delete(t.Context(), ending)); err != nil {
		t.Fatal(err)
	}
	ended := w.task(2).Object
	ended.Status.State = v1alpha1.TaskStateFailed
	if err := w.api.Status().Update(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	w.labeled(3, map[string]string{"tier": "other"})
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}
	})
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil || len(v.tasks) != 1 || v.tasks["task0"] == nil || len(v.etcds) != 3 || v.policies["all"].Clusters != 3 {
		t.Errorf("%+v %v", v, err)
	}
	if again, err := o.look(t.Context()); err != nil || again != v {
		t.Errorf("%v: it is looked at again", err)
	}
	w.clock.Step(maxAge - 1)
	if again, err := o.look(t.Context()); err != nil || again != v {
		t.Errorf("%v: it is looked at again", err)
	}
	w.clock.Step(1)
	if again, err := o.look(t.Context()); err != nil || again == v {
		t.Errorf("%v: it is old", err)
	}
	w.clock.SetTime(w.clock.Now().Add(-time.Minute))
	v, _ = o.look(t.Context())
	if again, err := o.look(t.Context()); err != nil || again != v || !v.at.Equal(w.clock.Now()) {
		t.Errorf("%v: the clock has gone back", err)
	}
	if wait := o.ask(3); wait != nil {
		t.Errorf("%+v", wait)
	}
	var none *view
	if none.asks(w.task(0).Object) || none.knows(w.read()) {
		t.Error("there is nothing")
	}
	if !v.knows(w.read()) || !v.decidesBy(w.read(), "ns0") || v.decidesBy(w.read(), "ns3") {
		t.Error("it is known")
	}
	for _, change := range []func(*v1alpha1.EtcdFleetPolicy){
		func(p *v1alpha1.EtcdFleetPolicy) { p.Name = "other" }, func(p *v1alpha1.EtcdFleetPolicy) { p.UID = "other" }, func(p *v1alpha1.EtcdFleetPolicy) { p.Generation++ },
	} {
		p := w.read()
		if change(p); v.knows(p) {
			t.Errorf("%+v is another", p)
		}
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

// A controller that is set up twice is told so.
func TestSetup(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "localhost:1"}, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	o := newWorld(t, 0, 1).operator()
	if err := o.Setup(mgr, 1); err != nil {
		t.Error(err)
	}
	if err := o.Setup(mgr, 1); err == nil || !strings.HasPrefix(err.Error(), "setting up the controller of the fleet: ") {
		t.Error(err)
	}
}

// A ledger that is made for the first time has not been lost.
func TestTheFirstLedger(t *testing.T) {
	w := newWorld(t, 1, 1)
	if l, err := w.operator().Store.Read(t.Context()); err != nil || !l.Rebuilt.IsZero() {
		t.Errorf("%+v %v", l, err)
	}
}

// The default has no canaries and pauses no change, so it follows none.
func TestTheDefaultFollowsNoChange(t *testing.T) {
	w := newWorld(t, 6, 6)
	w.automate()
	task := w.task(0).Object
	task.Spec.Config = "restart: true"
	if err := errors.Join(w.api.Update(t.Context(), task), w.api.Delete(t.Context(), w.read())); err != nil {
		t.Fatal(err)
	}
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	o.pass(interval)
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 || l.Holders[0].Change != "" || len(l.Changes) > 0 {
		t.Errorf("%+v %v", l, err)
	}
	if v, err := o.look(t.Context()); err != nil {
		t.Error(err)
	} else if c, err := o.candidate(t.Context(), v, w.task(0)); err != nil || c.Change != "" || c.Class != fleet.Automatic {
		t.Errorf("%+v %v", c, err)
	}
}

// answering has an operator's client answer some requests with an error.
func (o *operator) answering(refuses func(verb string, object any) error) {
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := refuses("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := refuses(name, object); err != nil {
				return err
			}
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
}

// What is deleted before it is written to is no error: a task that is to be fenced, and a policy whose status is to be shown.
func TestWhatIsGoneIsNoError(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	asked := map[string]int{}
	o.answering(func(verb string, _ any) error {
		asked[verb]++
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("any").GroupResource(), "any")
	})
	if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil || asked["patch"] == 0 || asked["status"] == 0 {
		t.Errorf("%v %v", err, asked)
	}
	if l, err := o.Store.Read(t.Context()); err != nil || l.Recorded("all") == nil {
		t.Errorf("%+v %v", l, err)
	}
}

// A task that is gone cannot give its slot back: what holds it is found out by the controller.
func TestASlotOfATaskThatIsGone(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	granted := w.task(0)
	if wait := o.asks(granted); wait != nil {
		t.Fatalf("%+v", wait)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
	late := w.task(0)
	if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(maxAge)
	if wait := o.asks(late); wait == nil || wait.Reason != v1alpha1.ReasonFleetPaused {
		t.Errorf("%+v", wait)
	}
	if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// Policies are asked in the order of their names, in whatever order a cache lists them: the first that orders says by which label.
func TestTheOrderOfPolicies(t *testing.T) {
	w := newWorld(t, 1, 1)
	for name, key := range map[string]string{"b": "second", "a": "", "c": "third"} {
		p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		p.Spec.OrderBy = key
		if err := w.api.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	o := w.operator()
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if policies, ok := list.(*v1alpha1.EtcdFleetPolicyList); ok {
				slices.Reverse(policies.Items)
			}
			return err
		},
	})
	v, err := o.look(t.Context())
	if err != nil || !slices.Equal(v.covering["ns0"], []string{"a", "all", "b", "c"}) || v.orderBy("ns0") != "second" || v.orderBy("elsewhere") != "" {
		t.Errorf("%v %v %q", err, v.covering, v.orderBy("ns0"))
	}
}

// A cluster is being recovered while the task that does it runs, and changes its members while that task does; a task that no Etcd owns yet
// says nothing of one.
func TestWhichClustersAreRecoveredOrChange(t *testing.T) {
	for name, c := range map[string]struct {
		taskType             v1alpha1.TaskType
		state                v1alpha1.TaskState
		owned                bool
		recovering, changing bool
	}{
		"a recovery":              {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStateInProgress, true, true, false},
		"one that waits":          {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStatePending, true, false, false},
		"one that nobody owns":    {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStateInProgress, false, false, false},
		"a Restore, at first":     {v1alpha1.Restore, v1alpha1.TaskStateInProgress, true, false, false},
		"a change of members":     {v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress, true, false, true},
		"one that has yet to run": {v1alpha1.MembershipChange, v1alpha1.TaskStatePending, true, false, false},
		"maintenance":             {v1alpha1.OnDemandMaintenance, v1alpha1.TaskStateInProgress, true, false, false},
	} {
		w := newWorld(t, 1, 1)
		task := w.task(0).Object
		task.Spec.Type = c.taskType
		if !c.owned {
			task.OwnerReferences = nil
		}
		if err := w.api.Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		task = w.task(0).Object
		task.Status.State, task.Status.InitiatedAt = c.state, &metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		v, err := w.operator().look(t.Context())
		if err != nil || (len(v.impaired) == 1) != c.recovering || v.changing["etcd0"] != c.changing {
			t.Errorf("%s: %v %+v %v", name, err, v.impaired, v.changing)
		}
		if c.recovering && !v.impaired[0].Since.Equal(w.clock.Now()) {
			t.Errorf("%s: %+v", name, v.impaired)
		}
	}
}

// The owner of a task is the Etcd that it names.
func TestWhoOwnsATask(t *testing.T) {
	task := &v1alpha1.EtcdOperatorTask{}
	task.Spec.OwnerEtcdReference.Name = "main"
	for want, owners := range map[types.UID][]metav1.OwnerReference{
		"":    {{Kind: "ConfigMap", Name: "main", UID: "1"}, {Kind: v1alpha1.KindEtcd, Name: "other", UID: "2"}},
		"yes": {{Kind: v1alpha1.KindEtcd, Name: "other", UID: "2"}, {Kind: v1alpha1.KindEtcd, Name: "main", UID: "yes"}},
	} {
		if task.OwnerReferences = owners; etcdOf(task) != want {
			t.Errorf("%q, want %q", etcdOf(task), want)
		}
	}
}
