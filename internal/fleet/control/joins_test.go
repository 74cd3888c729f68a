// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// another creates a policy beside the one of a world, with a canary, for the namespaces with labels.
func (w *world) another(name string, labels map[string]string) {
	w.t.Helper()
	p := w.read()
	p.Name, p.UID, p.ResourceVersion, p.Generation, p.Status = name, types.UID(name), "", 1, v1alpha1.EtcdFleetPolicyStatus{}
	p.Spec.Canary.Count, p.Spec.NamespaceSelector.MatchLabels = ptr.To(int32(1)), labels
	if err := w.api.Create(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// failures are the clusters in which a change failed, by a policy.
func (o *operator) failures(policy, change string) (all []string) {
	o.world.t.Helper()
	l, err := o.Store.Read(o.world.t.Context())
	if err != nil {
		o.world.t.Fatal(err)
	}
	if c := l.Change(policy, change); c != nil {
		for _, f := range c.Failures {
			all = append(all, f.Namespace)
		}
	}
	return all
}

// fails has the task of a cluster fail.
func (w *world) failed(i int) {
	w.t.Helper()
	task := w.task(i).Object
	task.Status.State = v1alpha1.TaskStateFailed
	if err := w.api.Status().Update(w.t.Context(), task); err != nil {
		w.t.Fatal(err)
	}
}

// What has got a slot of the default is followed by a policy that comes, by which an administrator wants to stop a bad template.
func TestAPolicyFollowsWhatTheDefaultStarted(t *testing.T) {
	w := newWorld(t, 6, 6)
	for i := range w.n {
		w.rolls(i)
	}
	w.automate()
	policy := w.read()
	if err := w.api.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	o.pass(interval)
	o.start(0)
	if h := o.holder(); h.Change != "" || !slices.Equal(h.Policies, []string{fleet.Default}) {
		t.Fatalf("%+v", h)
	}
	policy.ResourceVersion, policy.Spec.Canary.Count = "", ptr.To(int32(1))
	if err := w.api.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	o.pass(2 * interval)
	h := o.holder()
	if h.Change == "" || h.Target == "" || !h.Canary || !slices.Equal(h.Policies, []string{"all"}) {
		t.Errorf("%+v", h)
	}
	w.waits(o.ask(1), v1alpha1.ReasonWaitingForCanary, "in 1 of 6 clusters first: ns0/main runs task task")
	w.failed(0)
	o.pass(2 * interval)
	if all := o.failures("all", h.Change); !slices.Equal(all, []string{"ns0"}) {
		t.Errorf("%q", all)
	}
	w.waits(o.ask(1), v1alpha1.ReasonFleetPaused, "ns0/main")
}

// What a task has brought to all pods by the time that the policy comes is the whole template, and no restart, which would pause all restarts and
// leave the template untried.
func TestAPolicyFollowsWhatAllPodsHaveByNow(t *testing.T) {
	for name, c := range map[string]struct {
		started func(task *v1alpha1.EtcdOperatorTask)
		restart bool
	}{
		"a rollout": {func(*v1alpha1.EtcdOperatorTask) {}, false},
		"a recreation": {func(task *v1alpha1.EtcdOperatorTask) {
			task.Spec.Type = v1alpha1.RecreateRollout
			task.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateWaitingTermination, TargetRevision: "r2"}
		}, false},
		"a restart":                      {func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Config = "restart: true" }, true},
		"a restart, by what it has said": {func(task *v1alpha1.EtcdOperatorTask) { task.Status.Change = fleet.Restart }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 2)
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To(int32(1)) })
			w.rolls(0)
			w.rolls(1)
			task := w.task(0)
			c.started(task.Object)
			started := task.Object.Status.DeepCopy()
			if err := w.api.Update(t.Context(), task.Object); err != nil {
				t.Fatal(err)
			}
			task.Object.Status = *started
			if err := w.begin(task); err != nil {
				t.Fatal(err)
			}
			w.setPods(0, "r2", "r2")
			o := w.operator()
			if err := o.Store.Change(t.Context(), func(l *fleet.Ledger) bool { l.Policies, l.Holders = nil, nil; return true }); err != nil {
				t.Fatal(err)
			}
			o.pass(2 * interval)
			if h := o.holder(); (h.Change == fleet.Restart) != c.restart || (h.Target == "") != c.restart || !h.Canary {
				t.Errorf("%+v", h)
			}
			if c.restart {
				return
			}
			w.waits(o.ask(1), v1alpha1.ReasonWaitingForCanary, "ns0/main runs task task")
			w.failed(0)
			o.pass(2 * interval)
			w.waits(o.ask(1), v1alpha1.ReasonFleetPaused, "ns0/main")
		})
	}
}

// What becomes of a change is recorded by every policy that selects the cluster by then.
func TestAPolicyThatComesLearnsOfAFailure(t *testing.T) {
	for name, comes := range map[string]func(w *world){
		"another policy is created": func(w *world) { w.another("another", nil) },
		"the policy is renamed": func(w *world) {
			w.another("another", nil)
			if err := w.api.Delete(t.Context(), w.read()); err != nil {
				t.Fatal(err)
			}
		},
		"the namespace gets its label": func(w *world) { w.labeled(0, map[string]string{"tier": "prod"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 2)
			w.policy(func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To(int32(1)) })
			w.rolls(0)
			w.rolls(1)
			labeled := name == "the namespace gets its label"
			if labeled {
				w.labeled(1, map[string]string{"tier": "prod"})
				w.another("another", map[string]string{"tier": "prod"})
			}
			o := w.operator()
			o.pass(interval)
			o.start(0)
			change := o.holder().Change
			comes(w)
			o.pass(2 * interval)
			if h := o.holder(); !h.Canary || !slices.Contains(h.Policies, "another") {
				t.Errorf("%+v", h)
			}
			w.failed(0)
			o.pass(2 * interval)
			if all := o.failures("another", change); !slices.Equal(all, []string{"ns0"}) {
				t.Errorf("%q", all)
			}
			w.waits(o.ask(1), v1alpha1.ReasonFleetPaused, "ns0/main")
		})
	}
}

// A rollout that ran before its namespace got the label of a policy has no change until it is found.
func TestAPolicyLearnsOfAChangeThatRuns(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.Canary.Count, p.Spec.NamespaceSelector.MatchLabels = ptr.To(int32(1)), map[string]string{"tier": "prod"}
	})
	w.rolls(0)
	if err := w.begin(w.task(0)); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	o.pass(interval)
	w.labeled(0, map[string]string{"tier": "prod"})
	o.pass(3 * interval)
	if h := o.holder(); h.Change == "" || !h.Canary {
		t.Errorf("%+v", h)
	}
}
