// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// fails runs something once for each request that it sends, which fails: the error comes back, but for those that need no answer.
func fails(t *testing.T, unneeded []string, prepare func() *operator, run func(o *operator) error) {
	t.Helper()
	requests, err := apitest.EachFails(t, unneeded, func(before func(client.WithWatch) client.WithWatch) error {
		o := prepare()
		o.Controller = New(before(o.client), before(o.world.api), operatorNamespace, o.world.clock, o.Recorder, o.Metrics)
		return run(o)
	})
	if err != nil || requests == 0 {
		t.Errorf("when none of %d failed: %v", requests, err)
	}
}

// set is the StatefulSet of a cluster.
func (w *world) set(i int) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: "main", UID: types.UID("set" + namespaceOf(i))}}
}

// revision is one of the StatefulSet of a cluster.
func (w *world) revision(i int, name string, n int, image string) *appsv1.ControllerRevision {
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "main", UID: w.set(i).UID, Controller: ptr.To(true)}}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: name, OwnerReferences: owner}, Revision: int64(n),
		Data: runtime.RawExtension{Raw: []byte(`{"image":"` + image + `"}`)},
	}
}

// setPods has the pods of a cluster be of revisions.
func (w *world) setPods(i int, revisions ...string) {
	w.t.Helper()
	for n, revision := range revisions {
		pod := &corev1.Pod{}
		if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: namespaceOf(i), Name: fmt.Sprint("main-", n)}, pod); err != nil {
			w.t.Fatal(err)
		}
		pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
		if err := w.api.Update(w.t.Context(), pod); err != nil {
			w.t.Fatal(err)
		}
	}
}

// rolls gives a cluster a StatefulSet with an old and a new template, pods of the old one, and a rollout.
func (w *world) rolls(i int) tasks.Task {
	w.t.Helper()
	owner := w.revision(i, "", 0, "").OwnerReferences
	s := w.set(i)
	s.Status.UpdateRevision = "r2"
	objects := []client.Object{s}
	for n, image := range []string{"etcd:1", "etcd:2"} {
		objects = append(objects, w.revision(i, fmt.Sprint("r", n+1), n+1, image), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(i), Name: fmt.Sprint("main-", n), OwnerReferences: owner,
			Labels: map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: "r1"},
		}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, Ready: true}}}})
	}
	for _, o := range objects {
		if err := w.api.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	task := w.task(i)
	task.Object.Spec.Type = v1alpha1.QuorumAwareRollout
	if err := w.api.Update(w.t.Context(), task.Object); err != nil {
		w.t.Fatal(err)
	}
	return w.task(i)
}

// restarts gives a cluster pods of the newest template, and a restart.
func (w *world) restarts(i int) tasks.Task {
	w.t.Helper()
	task := w.rolls(i)
	w.setPods(i, "r2", "r2")
	task.Object.Spec.Config = "restart: true"
	if err := w.api.Update(w.t.Context(), task.Object); err != nil {
		w.t.Fatal(err)
	}
	return w.task(i)
}

// Whichever request of a pass fails, its error comes back: the pass is repeated, and nothing is decided on half of what there is.
func TestEachRequestOfAPassFails(t *testing.T) {
	for name, prepare := range map[string]func() *operator{
		"a canary is watched": func() *operator { _, o := watching(t); return o },
		"the first pass": func() *operator {
			w := newWorld(t, 2, 1)
			task := w.task(0)
			task.Object.Status.State, task.Object.Status.InitiatedAt = v1alpha1.TaskStateInProgress, &metav1.Time{Time: w.clock.Now()}
			if err := w.api.Status().Update(t.Context(), task.Object); err != nil {
				t.Fatal(err)
			}
			return w.operator()
		},
		"a canary that is watched breaks": func() *operator {
			w, o := watching(t)
			o.pass(interval)
			w.etcd(set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse))
			return o
		},
		"a task and its cluster are gone": func() *operator {
			w, o := watching(t)
			_, etcd, task := w.objects(0)
			for _, o := range []client.Object{etcd, task} {
				if err := w.api.Delete(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			return o
		},
		"a task that runs has lost the quorum": func() *operator {
			_, o := holding(t, false, func(w *world, _ *v1alpha1.EtcdOperatorTask) {
				w.etcd(func(e *v1alpha1.Etcd) {
					e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQuorumLost})
				})
			})
			return o
		},
		"a task is gone": func() *operator {
			w, o := holding(t, false, func(*world, *v1alpha1.EtcdOperatorTask) {})
			if err := w.api.Delete(t.Context(), w.task(0).Object); err != nil {
				t.Fatal(err)
			}
			return o
		},
		"a task runs without a slot": func() *operator {
			w := newWorld(t, 1, 1)
			o := w.operator()
			o.pass(interval)
			if err := w.begin(w.task(0)); err != nil {
				t.Fatal(err)
			}
			return o
		},
		"no policy is left, and the default limits": func() *operator {
			w := newWorld(t, 8, 8)
			o := w.operator()
			o.pass(interval)
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
			return o
		},
		"a canary was superseded": func() *operator {
			_, o := holding(t, true, func(_ *world, task *v1alpha1.EtcdOperatorTask) { task.Status.State = v1alpha1.TaskStateRejected })
			return o
		},
		"the policy is another": func() *operator {
			w, o := watching(t)
			if _, err := o.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			p := w.read()
			other := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "other"}, Spec: p.Spec}
			if err := errors.Join(w.api.Delete(t.Context(), p), w.api.Create(t.Context(), other)); err != nil {
				t.Fatal(err)
			}
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Pods that are not known count as unknown, and a change that is not known as none.
			unneeded := []string{"list *v1.PodList"}
			if name == "the first pass" {
				// What the rebuild of the ledger counts, the pass has counted itself.
				unneeded = []string{"get *v1alpha1.Etcd", "list *v1alpha1.EtcdOperatorTaskList", "patch *v1alpha1.EtcdOperatorTask"}
			}
			fails(t, unneeded, prepare, func(o *operator) error {
				_, err := o.Reconcile(t.Context(), ctrl.Request{})
				return err
			})
		})
	}
}

// Whichever request fails while a task asks, it does not start.
func TestEachRequestOfATaskThatAsksFails(t *testing.T) {
	var task tasks.Task
	granted := func() (*world, *operator) {
		w := newWorld(t, 1, 1)
		o := w.operator()
		o.pass(interval)
		w.mayStart(o.ask(0))
		return w, o
	}
	for name, prepare := range map[string]func() *operator{
		"a rollout": func() *operator {
			w := newWorld(t, 1, 1)
			task = w.rolls(0)
			return w.operator()
		},
		"beside a task that runs": func() *operator {
			w := newWorld(t, 1, 1)
			w.limit = 2 // two holders of one cluster
			o := w.operator()
			o.pass(interval)
			o.start(0)
			task = w.follower()
			return o
		},
		"its slot is given back": func() *operator {
			w, o := granted()
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })
			task = w.task(0)
			return o
		},
		"its slot was for another version": func() *operator {
			w, o := granted()
			changed := w.task(0).Object
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "a", "b")
			if err := w.api.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
			task = w.task(0)
			return o
		},
		"no policy is for it": func() *operator {
			w := newWorld(t, 1, 1)
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
				p.Spec.NamespaceSelector.MatchLabels = map[string]string{"tier": "other"}
			})
			task = w.task(0)
			return w.operator()
		},
	} {
		t.Run(name, func(t *testing.T) {
			fails(t, nil, prepare, func(o *operator) error {
				wait, err := o.Ask(t.Context(), task)
				if err != nil && wait != nil {
					t.Errorf("%+v beside %v", wait, err)
				}
				if wait != nil && strings.Contains(wait.Message, apitest.ErrInjected.Error()) {
					// The ledger is rebuilt, and counts later what could not be counted.
					return apitest.ErrInjected
				}
				return err
			})
		})
	}
}

// What a policy limits is a number, or a percentage up to all; anything else is invalid.
func TestConcurrent(t *testing.T) {
	for value, want := range map[string]string{
		"0": "0 false", "7": "7 false", "-1": "-1 is less than 0", "0%": "0 true", "100%": "100 true", "101%": `"101%" is not a percentage from 0% to 100%`,
		"-1%": "-1% is less than 0", "x%": `"x%" is not a percentage from 0% to 100%`, "x": `"x" is neither a number nor a percentage`,
	} {
		n, percent, err := concurrent(intstr.Parse(value))
		got := fmt.Sprint(n, " ", percent)
		if err != nil {
			if got = err.Error(); n != 0 || percent {
				t.Errorf("%s: %d and %v beside an error", value, n, percent)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// A pass follows what starts, ends or is suspended, and no other write of a task.
func TestWhatIsWatched(t *testing.T) {
	of := func(taskType v1alpha1.TaskType, state v1alpha1.TaskState, suspend bool) *v1alpha1.EtcdOperatorTask {
		task := &v1alpha1.EtcdOperatorTask{}
		task.Spec.Type, task.Spec.Suspend, task.Status.State = taskType, suspend, state
		return task
	}
	before := of(v1alpha1.OnDemandMaintenance, v1alpha1.TaskStatePending, false)
	for name, c := range map[string]struct {
		after   *v1alpha1.EtcdOperatorTask
		watched bool
	}{
		"nothing":     {of(v1alpha1.OnDemandMaintenance, v1alpha1.TaskStatePending, false), false},
		"its start":   {of(v1alpha1.OnDemandMaintenance, v1alpha1.TaskStateInProgress, false), true},
		"suspended":   {of(v1alpha1.OnDemandMaintenance, v1alpha1.TaskStatePending, true), true},
		"needs none":  {of(v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateInProgress, true), false},
		"and nothing": {of(v1alpha1.OnDemandSnapshot, v1alpha1.TaskStatePending, false), false},
	} {
		if got := states.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}); got != c.watched {
			t.Errorf("%s: %v", name, got)
		}
	}
	if states.Create(event.CreateEvent{Object: before}) {
		t.Error("a task that begins asks by itself")
	}
}

// The status of a policy shows paused changes that are asked for first, then what goes on, then other paused ones, each the newest first; those that wait for their first slot count, and those of others do not.
func TestTheOrderOfChanges(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &fleet.Policy{Name: "all"}
	in := fleet.Input{Now: at, Ledger: &fleet.Ledger{}, Covering: map[string][]string{"ns0": {"all"}, "ns1": {"other"}}}
	grant := func(change, policy string, since time.Duration) {
		task := types.UID(change + policy)
		in.Ledger.Grant(fleet.Holder{Task: task, Namespace: "ns0", Etcd: "e" + task, Policies: []string{policy}, Change: change, Granted: at.Add(since)})
	}
	grant("old", "all", 0)
	grant("b", "all", time.Minute)
	grant("a", "all", time.Minute)
	grant("theirs", "other", time.Hour)
	for _, bad := range []string{"bad", "worse"} {
		grant(bad, "all", -time.Hour)
		in.Ledger.Failed(types.UID(bad+"all"), "it crashes", at)
		in.Ledger.Release(types.UID(bad+"all"), at)
	}
	grant("done", "all", time.Hour)
	in.Ledger.Release("doneall", at)
	in.Waiting = []fleet.Candidate{
		{Task: "1", Namespace: "ns0", Change: "next", Since: at.Add(3 * time.Minute)},
		{Task: "2", Namespace: "ns0", Change: "next", Since: at.Add(2 * time.Minute)},
		{Task: "3", Namespace: "ns1", Change: "theirs too", Since: at},
		{Task: "4", Namespace: "ns0", Change: "old", Since: at},
		{Task: "5", Namespace: "ns0", Since: at},
		{Task: "6", Namespace: "ns0", Change: "bad", Since: at},
	}
	var names []string
	for _, c := range changesOf(in, p, map[string]int32{"next": 2, "old": 1, "bad": 1}, (&view{}).wanted(in, p)) {
		names = append(names, fmt.Sprint(c.Change, " ", c.Waiting, " ", c.Since.Sub(at)))
		if (c.Paused != "") != (c.Change == "bad" || c.Change == "worse") {
			t.Errorf("%s: %q", c.Change, c.Paused)
		}
	}
	if want := []string{"bad 1 -1h0m0s", "next 2 2m0s", "a 0 1m0s", "b 0 1m0s", "old 1 0s", "worse 0 -1h0m0s", "done 0 1h0m0s"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// Fingerprints are kept up to a number, and then found again.
func TestPrintsAreBounded(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	for i := range maxPrints {
		o.keep(fmt.Sprint(i), fingerprints{change: "v1"})
	}
	if o.print("0").change != "v1" || len(o.prints) != maxPrints {
		t.Errorf("%d", len(o.prints))
	}
	if o.keep("more", fingerprints{change: "v2"}); o.print("more").change != "v2" || len(o.prints) != 1 {
		t.Errorf("%d", len(o.prints))
	}
}

// A selector chooses the canaries; one that cannot be understood makes the policy invalid, and says where.
func TestChosenCanaries(t *testing.T) {
	w := newWorld(t, 3, 1)
	w.etcdOf(1, func(e *v1alpha1.Etcd) { e.Labels = map[string]string{"canary": "yes"} })
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.Canary.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
	})
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil || len(v.policies["all"].Canary.Chosen) != 1 || !v.policies["all"].Canary.Chosen["etcd1"] || v.policies["all"].Invalid != "" {
		t.Errorf("%+v, %v", v.policies["all"], err)
	}
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.Canary.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "canary", Operator: "Near"}}}
	})
	v, err = w.operator().look(t.Context())
	if err != nil || !strings.HasPrefix(v.policies["all"].Invalid, "spec.canary.selector: ") || len(v.policies["all"].Canary.Chosen) != 0 || v.policies["all"].Clusters != 3 {
		t.Errorf("%+v, %v", v.policies["all"], err)
	}
}

// etcdOf changes the Etcd of a cluster.
func (w *world) etcdOf(i int, change func(*v1alpha1.Etcd)) {
	w.t.Helper()
	etcd := w.task(i).Etcd
	change(etcd)
	if err := w.api.Update(w.t.Context(), etcd); err != nil {
		w.t.Fatal(err)
	}
}

// Which class a task is of follows from who made it, and from what its cluster lacks. A cluster that is being recovered is known once.
func TestClassesAndRecoveries(t *testing.T) {
	w := newWorld(t, 1, 1)
	o := w.operator()
	class := func(change func(tasks.Task)) fleet.Class {
		t.Helper()
		v, err := o.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		task := w.task(0)
		change(task)
		c, err := o.candidate(t.Context(), v, task)
		if err != nil {
			t.Fatal(err)
		}
		return c.Class
	}
	lacks := func(ready metav1.ConditionStatus) func(tasks.Task) {
		return func(task tasks.Task) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(task.Etcd)
			set(v1alpha1.ConditionReady, ready)(task.Etcd)
		}
	}
	if c := class(func(tasks.Task) {}); c != fleet.Person {
		t.Error(c)
	}
	if c := class(func(task tasks.Task) {
		task.Object.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	}); c != fleet.Upkeep {
		t.Error(c)
	}
	if c := class(lacks(metav1.ConditionTrue)); c != fleet.Repair {
		t.Error(c)
	}
	if c := class(lacks(metav1.ConditionFalse)); c != fleet.Person {
		t.Error(c)
	}

	task := w.task(0)
	task.Object.Spec.Type = v1alpha1.Restore
	if err := w.api.Update(t.Context(), task.Object); err != nil {
		t.Fatal(err)
	}
	set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(task.Etcd)
	if err := w.api.Status().Update(t.Context(), task.Etcd); err != nil {
		t.Fatal(err)
	}
	for _, recovery := range []*v1alpha1.RecoveryStatus{nil, {}} {
		task = w.task(0)
		task.Object.Status.State, task.Object.Status.InitiatedAt, task.Object.Status.Recovery = v1alpha1.TaskStateInProgress, &metav1.Time{Time: w.clock.Now()}, recovery
		if err := w.api.Status().Update(t.Context(), task.Object); err != nil {
			t.Fatal(err)
		}
		v, err := w.operator().look(t.Context())
		if err != nil || len(v.impaired) != 1 || v.impaired[0].Recovering != (recovery != nil) || v.impaired[0].Etcd != "etcd0" {
			t.Errorf("%+v, %v", v.impaired, err)
		}
	}
}
