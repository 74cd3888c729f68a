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
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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
		return found.change
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
	for _, malformed := range []string{"r1", "r2"} {
		o = w.operator()
		o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				err := c.Get(ctx, key, object, options...)
				if r, ok := object.(*appsv1.ControllerRevision); ok && key.Name == malformed {
					r.Data.Raw = []byte("{")
				}
				return err
			},
		})
		if got, err := o.change(t.Context(), task); err == nil || got != (fingerprints{}) || len(o.prints) > 0 {
			t.Errorf("%v, and %v is kept", got, o.prints)
		}
	}
	// All pods have the target.
	task.Object.Spec.Config = "targetRevision: r1"
	if got := change(o); got != fleet.Restart {
		t.Error(got)
	}
}

// While the StatefulSet controller has not seen the newest template, the revision that it shows is not what a restart, or a rollout to no revision,
// brings: neither starts, as what it is not. One to a revision does.
func TestATemplateThatTheStatefulSetControllerHasNotSeen(t *testing.T) {
	for config, waits := range map[string]bool{"restart: true": true, "": true, "targetRevision: r2": false} {
		w := newWorld(t, 1, 1)
		task := w.restarts(0)
		task.Object.Spec.Config = config
		if err := w.api.Update(t.Context(), task.Object); err != nil {
			t.Fatal(err)
		}
		seen := func(generation int64) {
			t.Helper()
			set := w.set(0)
			if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			if set.Generation = 2; w.api.Update(t.Context(), set) != nil {
				t.Fatal("the StatefulSet cannot be changed")
			}
			if set.Status.ObservedGeneration = generation; w.api.Status().Update(t.Context(), set) != nil {
				t.Fatal("its status cannot be changed")
			}
		}
		seen(1)
		o := w.operator()
		o.pass(interval)
		_, err := o.Ask(t.Context(), w.task(0))
		wait, is := errors.AsType[*engine.Wait](err)
		if is != waits || is && (wait.Reason != v1alpha1.ReasonWaitingForSlot || wait.RequeueAfter != stale || !strings.Contains(wait.Message, "has not seen the newest spec of StatefulSet main")) {
			t.Errorf("%q: %+v %v", config, wait, err)
		}
		if !waits {
			continue
		}
		seen(2)
		w.mayStart(o.asks(w.task(0)))
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
	first := w.pod(w.clock.Now())
	second := first.DeepCopy()
	second.Name, second.UID, second.ResourceVersion = "main-1", "another", ""
	if err := w.api.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	etcd := w.task(0).Etcd
	before, err := podsOf(t.Context(), o.Client, etcd)
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if pods, ok := list.(*corev1.PodList); ok {
				slices.Reverse(pods.Items)
			}
			return err
		},
	})
	after, err2 := podsOf(t.Context(), o.Client, etcd)
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
	status.RecordAdmission(task, "", "", w.clock.Now())
	change(w, task)
	if err := w.api.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return w, o
}

// What a task that runs does to a cluster is a failure only if the quorum of several members is known to be lost, since it began, and not by a
// RecreateRollout, which stops all members.
func TestWhatIsNoFailureOfATaskThatRuns(t *testing.T) {
	lost := func(ago time.Duration, change func(*v1alpha1.EtcdOperatorTask)) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(w *world, task *v1alpha1.EtcdOperatorTask) {
			w.etcd(func(e *v1alpha1.Etcd) {
				e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQuorumLost, Message: "because", LastTransitionTime: metav1.Time{Time: w.clock.Now().Add(-ago)}})
			})
			change(task)
		}
	}
	recreates := func(phase v1alpha1.RecreatePhase) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) { task.Status.Rollout = &v1alpha1.RolloutStatus{Phase: phase} }
	}
	ready := func(status metav1.ConditionStatus, reason string) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(w *world, _ *v1alpha1.EtcdOperatorTask) {
			w.etcd(func(e *v1alpha1.Etcd) {
				e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "because"})
			})
		}
	}
	recreation := func(change func(*world, *v1alpha1.EtcdOperatorTask)) func(*world, *v1alpha1.EtcdOperatorTask) {
		return func(w *world, task *v1alpha1.EtcdOperatorTask) {
			change(w, task)
			is := task.Status.DeepCopy()
			task.Spec.Type = v1alpha1.RecreateRollout
			if err := w.api.Update(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			task.Status = *is
		}
	}
	for name, c := range map[string]struct {
		change func(*world, *v1alpha1.EtcdOperatorTask)
		want   string
	}{
		"its quorum is lost":                     {ready(metav1.ConditionFalse, v1alpha1.ReasonQuorumLost), "the quorum was lost: because"},
		"since it began":                         {lost(0, func(*v1alpha1.EtcdOperatorTask) {}), "the quorum was lost: because"},
		"it was before":                          {lost(time.Second, func(*v1alpha1.EtcdOperatorTask) {}), "watched"},
		"all members start":                      {lost(0, recreates(v1alpha1.RecreateReadyForCreation)), "watched"},
		"all are to stop":                        {lost(0, recreates("")), "the quorum was lost: because"},
		"nothing is stopped yet":                 {recreation(lost(0, func(*v1alpha1.EtcdOperatorTask) {})), "watched"},
		"it is stalled before it stops anything": {recreation(stalled(time.Hour)), "watched"},
		"it may be":                              {ready(metav1.ConditionUnknown, v1alpha1.ReasonQuorumLost), "watched"},
		"another reason":                         {ready(metav1.ConditionFalse, "Other"), "watched"},
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
		"it was granted again, and has not run": {fleet.Holder{ResourceVersion: "2"}, finding{kind: unstarted, version: "1"}, false},
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

// What is new is recorded beside what is known: a token that has resumed a change before, or a task that was deleted and whose cluster lacks a
// member.
func TestNewsBesideWhatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		known, news func(w *world, o *operator)
		holders     string
	}{
		"a token": {func(w *world, _ *operator) {
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
				p.Annotations = map[string]string{v1alpha1.AnnotationResumeChange: "A.1"}
			})
		}, func(w *world, _ *operator) {
			if err := w.begin(w.task(0)); err != nil {
				t.Fatal(err)
			}
		}, "task0"},
		"a deleted task": {func(w *world, o *operator) {
			o.start(0)
			o.start(1)
			etcd := w.task(1).Etcd
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(etcd)
			if err := errors.Join(w.api.Status().Update(t.Context(), etcd), w.api.Delete(t.Context(), w.task(1).Object)); err != nil {
				t.Fatal(err)
			}
		}, func(w *world, _ *operator) { w.finish() }, "task1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 2)
			o := w.operator()
			o.pass(interval)
			c.known(w, o)
			o.pass(interval)
			c.news(w, o)
			o.pass(interval)
			l, err := o.Store.Read(t.Context())
			if err != nil || len(l.Holders) != 1 || string(l.Holders[0].Task) != c.holders {
				t.Errorf("%+v %v, want %s", l, err, c.holders)
			}
		})
	}
}

// A canary whose pods cannot be read when its soak is over has neither passed nor failed, and is watched for as long again.
func TestTheSoakOfPodsThatCannotBeRead(t *testing.T) {
	for name, fails := range map[string]func(n int) bool{
		"at all":        func(int) bool { return true },
		"a second time": func(n int) bool { return n%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			_, o := watching(t)
			o.pass(9*time.Minute + 50*time.Second)
			live, n := o.Live, 0
			o.Live = interceptor.NewClient(o.world.api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, ok := list.(*corev1.PodList); ok {
						if n++; fails(n) {
							return errors.New("not now")
						}
					}
					return c.List(ctx, list, options...)
				},
			})
			o.pass(time.Minute)
			if got := o.outcome(); n == 0 || got != "watched" {
				t.Errorf("%q after %d reads", got, n)
			}
			o.Live = live
			o.pass(8 * time.Minute)
			if got := o.outcome(); got != "watched" {
				t.Errorf("%q before its time", got)
			}
			o.pass(3 * time.Minute)
			if got := o.outcome(); got != "done" {
				t.Errorf("%q", got)
			}
		})
	}
}

// next returns another task of the first cluster, of a type.
func (w *world) next(taskType v1alpha1.TaskType) tasks.Task {
	w.t.Helper()
	next := w.follower()
	next.Object.Spec.Type = taskType
	if err := w.api.Update(w.t.Context(), next.Object); err != nil {
		w.t.Fatal(err)
	}
	w.clock.Step(maxAge)
	return next
}

// The next task of a canary ends its watch. What is not well by then counts as where a task is superseded, since another cluster would try the
// same.
func TestTheNextTaskOfACanaryThatIsWatched(t *testing.T) {
	restart := func(w *world) {
		pod := w.readPod()
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	etcd := func(change func(*v1alpha1.Etcd)) func(*world) { return func(w *world) { w.etcd(change) } }
	for name, c := range map[string]struct {
		change func(*world)
		other  bool
		want   string
	}{
		"it is well":             {func(*world) {}, false, ""},
		"nothing answers":        {etcd(set(v1alpha1.ConditionReady, metav1.ConditionUnknown)), false, "while it was watched, before task next: it was not known whether its members are well"},
		"it lacks a member":      {etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)), false, "while it was watched, before task next: AllMembersReady is False: because"},
		"a member has restarted": {restart, false, "while it was watched, before task next: a member restarted, or its pod was replaced"},
		"a pod is not ready":     {(*world).unready, false, "while it was watched, before task next: pod main-0 is not ready"},
		"it is no canary":        {(*world).unready, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Holders[0].Canary = !c.other; return c.other }); err != nil {
				t.Fatal(err)
			}
			o.pass(2 * interval)
			next := w.next("SomethingNew")
			c.change(w)
			w.mayStart(o.asks(next))
			l, err := o.Store.Read(t.Context())
			if err != nil || len(l.Holders) != 1 || l.Holders[0].Task != "next" {
				t.Fatalf("%+v %v", l, err)
			}
			if failed := l.Change("all", "A").Failures; (len(failed) > 0) != (c.want != "") || len(failed) > 0 && failed[0].Reason != c.want {
				t.Errorf("%+v, want %q", failed, c.want)
			}
		})
	}
}

// A task that runs without having asked, as one that an operator without the feature gate has started, ends the watch, too. Nothing was seen to be
// wrong for a minute, and what is from now on may be that task's doing.
func TestATaskThatRunsInACanaryThatIsWatched(t *testing.T) {
	for _, well := range []bool{true, false} {
		w, o := watching(t)
		if !well {
			w.unready()
		}
		o.pass(2 * interval)
		if err := w.begin(w.next("SomethingNew")); err != nil {
			t.Fatal(err)
		}
		o.pass(interval)
		if l, err := o.Store.Read(t.Context()); err != nil || len(l.Holders) != 1 || l.Holders[0].Task != "next" || len(l.Change("all", "A").Failures) > 0 {
			t.Fatalf("%+v %v", l, err)
		}
	}
}

// A canary that was well for long does not fail by what ends its watch, also if what it is compared with is not known at the time: because
// maintenance runs, or because the ledger had no room for it.
func TestWhatEndsTheWatchOfACanaryThatWasWell(t *testing.T) {
	for name, begins := range map[string]v1alpha1.TaskType{"a change of members": v1alpha1.MembershipChange, "a restore": v1alpha1.Restore, "a task that has not asked": "SomethingNew"} {
		for _, maintained := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, maintained: %t", name, maintained), func(t *testing.T) {
				w, o := watching(t)
				w.limit = 2
				w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Soak = &metav1.Duration{Duration: time.Hour} })
				o.pass(20 * time.Minute)
				if maintained {
					next := w.next(v1alpha1.OnDemandMaintenance)
					w.mayStart(o.asks(next))
					if err := w.begin(next); err != nil {
						t.Fatal(err)
					}
				} else if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Shed(1 << 20); return true }); err != nil {
					t.Fatal(err)
				}
				_, _, task := w.objects(0)
				task.Name, task.UID, task.Spec.Type, task.Status.State = "ends", "ends", begins, v1alpha1.TaskStateInProgress
				task.Status.InitiatedAt, task.Status.Recovery = &metav1.Time{Time: w.clock.Now()}, &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStopping}
				if err := w.api.Create(t.Context(), task); err != nil {
					t.Fatal(err)
				}
				w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
				o.pass(2 * interval)
				if l, err := o.Store.Read(t.Context()); err != nil || l.Watched("etcd0") != nil || len(l.Change("all", "A").Failures) > 0 {
					t.Errorf("%+v %v", l, err)
				}
			})
		}
	}
}

// A change of members that a person has to unblock lasts for days. It fails the change of a canary neither where all is well, nor where it began
// before the task, also if the next task begins beside it.
func TestAChangeOfMembersThatIsBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		began        time.Duration
		unwell, next bool
		want         string
	}{
		"all is well":                          {0, false, false, ""},
		"it began before, and all is well":     {-time.Hour, false, false, ""},
		"it began before, and all is not well": {-time.Hour, true, false, ""},
		"it began later, and all is not well":  {2 * time.Minute, true, false, ""},
		"all is not well":                      {0, true, false, "while it was watched: AllMembersReady is False: because. Task scale, which changes its members, has not ended: blocked by a guard"},
		"the next task begins":                 {-time.Hour, false, true, ""},
		"it begins beside one that is blocked": {-time.Hour, true, true, ""},
		"it begins, and all is not well":       {0, true, true, "while it was watched: AllMembersReady is False: because. Task scale, which changes its members, has not ended: blocked by a guard"},
		"within the second of the grant":       {100 * time.Millisecond, true, false, "while it was watched: AllMembersReady is False: because. Task scale, which changes its members, has not ended: blocked by a guard"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			_, _, task := w.objects(0)
			task.Name, task.UID, task.Spec.Type, task.Status.State = "scale", "scale", v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress
			task.Status.InitiatedAt = &metav1.Time{Time: w.clock.Now().Add(c.began)}
			task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "Blocked", Message: "blocked by a guard"}}
			if err := w.api.Create(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			// The API server cuts the times of objects to seconds, and the ledger does not.
			fraction := c.began % time.Second
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
				h := l.Watched("etcd0")
				h.Granted = h.Granted.Add(fraction)
				return fraction > 0
			}); err != nil {
				t.Fatal(err)
			}
			if c.unwell {
				w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
			}
			if o.pass(9 * time.Minute); o.outcome() != "watched" {
				t.Errorf("%q while its members change", o.outcome())
			}
			if c.next {
				w.mayStart(o.asks(w.next("SomethingNew")))
			} else {
				o.pass(2 * time.Minute)
			}
			l, err := o.Store.Read(t.Context())
			if err != nil || l.Watched("etcd0") != nil {
				t.Fatalf("%+v %v", l, err)
			}
			if failed := l.Change("all", "A").Failures; (len(failed) > 0) != (c.want != "") || len(failed) > 0 && failed[0].Reason != c.want {
				t.Errorf("%+v, want %q", failed, c.want)
			}
		})
	}
}

// Whether all is well beside a change of members may not be known when that has taken too long. The canary is watched until it is.
func TestACanaryIsWatchedUntilItIsKnownHowItIs(t *testing.T) {
	w, o := watching(t)
	_, _, task := w.objects(0)
	task.Name, task.UID, task.Spec.Type, task.Status.State = "scale", "scale", v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress
	task.Status.InitiatedAt = &metav1.Time{Time: w.clock.Now()}
	if err := w.api.Create(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	w.etcd(set(v1alpha1.ConditionReady, metav1.ConditionUnknown))
	if o.pass(12 * time.Minute); o.outcome() != "watched" {
		t.Errorf("%q while it is not known", o.outcome())
	}
	w.etcd(set(v1alpha1.ConditionReady, metav1.ConditionFalse))
	o.pass(2 * time.Minute)
	l, err := o.Store.Read(t.Context())
	if err != nil || l.Watched("etcd0") != nil || len(l.Change("all", "A").Failures) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// A canary that fails when its next task asks is not watched any more, though that task is held by the failure: it has failed, and does not pass
// once it is well again.
func TestACanaryThatHasFailedIsNotWatchedOn(t *testing.T) {
	w, o := watching(t)
	o.pass(2 * interval)
	next := w.next("SomethingNew")
	w.unready()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	candidate := fleet.Candidate{Task: "next", TaskName: "next", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Change: "A", Class: fleet.Person, Since: w.clock.Now(), ChangeSince: w.clock.Now()}
	o.enter(candidate)
	if granted, _, err := o.take(t.Context(), v, next, candidate); err != nil || granted {
		t.Fatal(granted, err)
	}
	l, err := o.Store.Read(t.Context())
	if err != nil || len(l.Holders) > 0 || !slices.Contains(l.Failing, "etcd0") || len(l.Change("all", "A").Failures) != 1 || !l.IsOver("task0") {
		t.Errorf("%+v %v", l, err)
	}
	pod := w.readPod()
	pod.Status.ContainerStatuses[0].Ready = true
	if err := w.api.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	o.pass(12 * time.Minute)
	if l, err = o.Store.Read(t.Context()); err != nil || l.Change("all", "A").Passed > 0 || len(l.Failing) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// While its members cannot be read, it is not known how a canary is left: its next task waits.
func TestTheNextTaskOfACanaryThatCannotBeRead(t *testing.T) {
	w, o := watching(t)
	o.pass(2 * interval)
	next := w.next("SomethingNew")
	o.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				return errors.New("the API server is away")
			}
			return c.List(ctx, list, options...)
		},
	})
	if wait, err := o.Ask(t.Context(), next); err == nil || wait != nil || o.outcome() != "watched" {
		t.Errorf("%+v, %v, %s", wait, err, o.outcome())
	}
}

// A change that fails by that is paused for the task as well.
func TestTheNextTaskWithTheChangeOfACanary(t *testing.T) {
	w, o := watching(t)
	o.pass(2 * interval)
	next := w.next("SomethingNew")
	w.unready()
	v, err := o.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	candidate := fleet.Candidate{Task: "next", TaskName: "next", Namespace: "ns0", Etcd: "etcd0", EtcdName: "main", Change: "A", Class: fleet.Person, Since: w.clock.Now(), ChangeSince: w.clock.Now()}
	o.enter(candidate)
	granted, decision, err := o.take(t.Context(), v, next, candidate)
	if err != nil || granted || decision.Hold == nil || decision.Hold.Reason != fleet.FleetPaused {
		t.Errorf("%t, %+v, %v", granted, decision, err)
	}
	if got := o.outcome(); got != "while it was watched, before task next: pod main-0 is not ready" {
		t.Error(got)
	}
}

// Maintenance leaves its cluster watched. What is not well while it runs does not count, but no time does either, and what is not well after
// that fails the change.
func TestMaintenanceOfACanaryThatIsWatched(t *testing.T) {
	ready := func(w *world) {
		pod := w.readPod()
		pod.Status.ContainerStatuses[0].Ready = true
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Now()}
		if err := w.api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		during, after func(*world)
		// soon and late is what has become of the change ten minutes after it began to be watched, and after the maintenance.
		soon, late string
	}{
		"it is well":              {func(*world) {}, func(*world) {}, "done", "done"},
		"it is not, for a while":  {(*world).unready, ready, "watched", "done"},
		"it is not, and stays so": {(*world).unready, func(*world) {}, "while it was watched: pod main-0 is not ready", "while it was watched: pod main-0 is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := watching(t)
			w.limit = 2
			o.pass(5 * time.Minute)
			next := w.next(v1alpha1.OnDemandMaintenance)
			w.mayStart(o.asks(next))
			if err := w.begin(next); err != nil {
				t.Fatal(err)
			}
			c.during(w)
			o.pass(3 * time.Minute)
			if l, err := o.Store.Read(t.Context()); err != nil || l.Watched("etcd0") == nil || l.Holder("next") == nil {
				t.Fatalf("%+v %v", l, err)
			}
			c.after(w)
			next.Object.Status.State = v1alpha1.TaskStateSucceeded
			if err := w.api.Status().Update(t.Context(), next.Object); err != nil {
				t.Fatal(err)
			}
			if o.pass(3 * time.Minute); o.outcome() != c.soon {
				t.Errorf("%q, want %q", o.outcome(), c.soon)
			}
			if o.pass(10 * time.Minute); o.outcome() != c.late {
				t.Errorf("%q, want %q", o.outcome(), c.late)
			}
		})
	}
}

// Two changes that are resumed before the operator has seen the first both go on.
func TestTwoChangesAreResumed(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	o.pass(interval)
	if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool {
		for _, name := range []string{"A", "B", "C"} {
			l.Changes = append(l.Changes, fleet.Change{Policy: "all", Name: name, Resumed: 1, Failures: []fleet.Failure{{Etcd: "x", Namespace: "ns9"}}})
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationResumeChange: "A.1,B.1, C.0"}
	})
	o.pass(interval)
	for change, failed := range map[string]int{"A": 0, "B": 0, "C": 1} {
		if all := o.failures("all", change); len(all) != failed {
			t.Errorf("%s: %q", change, all)
		}
	}
}
