// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// limiting returns a policy with 3 of 12 slots in use.
func limiting(name string, change ...func(*v1alpha1.EtcdFleetPolicy)) v1alpha1.EtcdFleetPolicy {
	p := v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	p.Spec.Canary.Count = ptr.To(int32(0))
	p.Status = v1alpha1.EtcdFleetPolicyStatus{ObservedGeneration: 1, Limit: 12, Used: 3}
	for _, c := range change {
		c(&p)
	}
	return p
}

func full(p *v1alpha1.EtcdFleetPolicy) { p.Status.Used, p.Status.Waiting = 12, 1 }

func paused(reason, message string) func(*v1alpha1.EtcdFleetPolicy) {
	return func(p *v1alpha1.EtcdFleetPolicy) {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
	}
}

// A plan says what its task waits for, and if it has not asked yet, what is known of the policies that it will ask.
func TestWhatARolloutWaitsFor(t *testing.T) {
	task := func(state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
		return clitest.Task("etcd-main-rollout-1", v1alpha1.QuorumAwareRollout, state, 10)
	}
	asked := clitest.With(task(v1alpha1.TaskStatePending), v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSlot, "no slot of EtcdFleetPolicy p is free")
	runs := clitest.With(task(v1alpha1.TaskStateInProgress), v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "all is well")
	clitest.With(runs, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonHeld, "a guard blocks")
	pauses := clitest.With(task(v1alpha1.TaskStateInProgress), v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "all is well")
	clitest.With(pauses, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWindow, "no window is open")
	suspended := asked.DeepCopy()
	suspended.Spec.Suspend = true
	bypasses, changes := task(v1alpha1.TaskStatePending), task(v1alpha1.TaskStatePending)
	bypasses.Annotations = map[string]string{v1alpha1.AnnotationBypassFleet: "true"}
	changes.Status.Change = "v1-bad"
	failed := paused(v1alpha1.ReasonChangeFailed, "change v1-bad is paused")
	opens := func(p *v1alpha1.EtcdFleetPolicy) { p.Status.NextWindow = ptr.To(clitest.Ago(-3600)) }
	unwell := v1alpha1.Conditions{{Condition: metav1.Condition{Type: v1alpha1.ConditionAllMembersReady, Status: metav1.ConditionFalse}}}
	for name, c := range map[string]struct {
		task       *v1alpha1.EtcdOperatorTask
		conditions v1alpha1.Conditions
		policies   []v1alpha1.EtcdFleetPolicy
		want       []string
	}{
		"there is no policy":       {nil, nil, nil, nil},
		"it has asked":             {asked, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full)}, []string{"It waits (WaitingForSlot): no slot of EtcdFleetPolicy p is free."}},
		"it is suspended":          {suspended, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full)}, nil},
		"it runs":                  {runs, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full)}, nil},
		"it is paused":             {pauses, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full)}, []string{"It waits (WaitingForWindow): no window is open."}},
		"it bypasses":              {bypasses, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full)}, nil},
		"it is to come":            {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p")}, []string{"It may wait for EtcdFleetPolicy p: 3 of 12 slots are in use."}},
		"it has yet to ask":        {task(""), nil, []v1alpha1.EtcdFleetPolicy{limiting("p")}, []string{"It may wait for EtcdFleetPolicy p: 3 of 12 slots are in use."}},
		"it is one of those ahead": {task(""), nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full), limiting("q")}, []string{"It will wait for EtcdFleetPolicy p: 12 of 12 slots are in use, and 1 task waits.", "It may wait for EtcdFleetPolicy q: 3 of 12 slots are in use."}},
		"its Etcd uses a slot": {nil, unwell, []v1alpha1.EtcdFleetPolicy{limiting("p", full)}, []string{
			"It may wait for EtcdFleetPolicy p: 12 of 12 slots are in use, and 1 task waits."}},
		"its Etcd holds a slot": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full, func(p *v1alpha1.EtcdFleetPolicy) {
			p.Status.Waiting, p.Status.Holders = 2, []v1alpha1.FleetHolder{{Namespace: "demo", Etcd: "etcd-main"}}
		})}, []string{"It may wait for EtcdFleetPolicy p: 12 of 12 slots are in use, and 2 tasks wait."}},
		"its Etcd may hold one that is not listed": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full, func(p *v1alpha1.EtcdFleetPolicy) { p.Status.Holders = make([]v1alpha1.FleetHolder, maxHolders) })}, []string{
			"It may wait for EtcdFleetPolicy p: 12 of 12 slots are in use, and 1 task waits."}},
		"others hold them": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full, func(p *v1alpha1.EtcdFleetPolicy) {
			p.Status.Holders = []v1alpha1.FleetHolder{{Namespace: "demo", Etcd: "other"}, {Namespace: "other", Etcd: "etcd-main"}}
		})}, []string{"It will wait for EtcdFleetPolicy p: 12 of 12 slots are in use, and 1 task waits."}},
		"no window is open":            {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", opens)}, []string{"It will wait for EtcdFleetPolicy p: no window is open, and the next one opens at 2026-01-02T01:00:30Z; 3 of 12 slots are in use."}},
		"a window has opened":          {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", func(p *v1alpha1.EtcdFleetPolicy) { p.Status.NextWindow = ptr.To(clitest.Ago(1)) })}, []string{"It may wait for EtcdFleetPolicy p: 3 of 12 slots are in use."}},
		"there are canaries":           {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = ptr.To(int32(2)) })}, []string{"It may wait for EtcdFleetPolicy p: 3 of 12 slots are in use; a change that is new is tried in 2 of the Etcds first."}},
		"there is a canary by default": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Canary.Count = nil })}, []string{"It may wait for EtcdFleetPolicy p: 3 of 12 slots are in use; a change that is new is tried in 1 of the Etcds first."}},
		"a change is paused":           {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", failed)}, []string{"It may wait for EtcdFleetPolicy p: a change that failed is paused, which \"kubectl etcdtask fleet p\" shows; 3 of 12 slots are in use."}},
		"its change is paused": {changes, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", failed, func(p *v1alpha1.EtcdFleetPolicy) {
			p.Status.Changes = []v1alpha1.FleetChange{{Change: "v1-good"}, {Change: "v1-bad", Paused: "it crashes"}}
		})}, []string{"It will wait for EtcdFleetPolicy p: it crashes; 3 of 12 slots are in use."}},
		"its change goes on": {changes, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", func(p *v1alpha1.EtcdFleetPolicy) {
			p.Status.Changes = []v1alpha1.FleetChange{{Change: "v1-bad"}, {Change: "v1-worse", Paused: "it crashes"}}
		})}, []string{"It may wait for EtcdFleetPolicy p: 3 of 12 slots are in use."}},
		"the policy is paused":   {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", paused(v1alpha1.ReasonPausedBySpec, "spec.paused is set. Those that run finish."))}, []string{"It will wait for EtcdFleetPolicy p, by which nothing starts: spec.paused is set. Those that run finish."}},
		"it was paused just now": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", func(p *v1alpha1.EtcdFleetPolicy) { p.Spec.Paused = true })}, []string{"It will wait for EtcdFleetPolicy p, by which nothing starts: spec.paused is set."}},
		"it is not in force": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", paused(v1alpha1.ReasonTasksNotCounted, "its tasks cannot be listed"), func(p *v1alpha1.EtcdFleetPolicy) { p.Status.ObservedGeneration = 0 })}, []string{
			"It will wait for EtcdFleetPolicy p, by which nothing starts: its tasks cannot be listed."}},
		"no operator has seen it": {nil, nil, []v1alpha1.EtcdFleetPolicy{limiting("p", full, func(p *v1alpha1.EtcdFleetPolicy) { p.Status = v1alpha1.EtcdFleetPolicyStatus{} })}, []string{"No operator has seen EtcdFleetPolicy p yet."}},
	} {
		p := planned(t, &result{snapshot: snapshot(3), policies: c.policies})
		p.task, p.etcd.Status.Conditions = c.task, c.conditions
		if c.conditions == nil {
			p.etcd.Status.Conditions = v1alpha1.Conditions{{Condition: metav1.Condition{Type: v1alpha1.ConditionAllMembersReady, Status: metav1.ConditionTrue}}}
		}
		if got := p.waits(clitest.Now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if p := planned(t, &result{snapshot: snapshot(3, updated), policies: []v1alpha1.EtcdFleetPolicy{limiting("p", full)}}); len(p.waits(clitest.Now)) > 0 {
		t.Errorf("%q, although there is nothing to do", p.waits(clitest.Now))
	}
}

// The policies of a plan are those that select its namespace, as far as the user may read policies and the namespace.
func TestPoliciesOfAPlan(t *testing.T) {
	selecting := func(name string, labels map[string]string) *v1alpha1.EtcdFleetPolicy {
		return &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.EtcdFleetPolicySpec{NamespaceSelector: metav1.LabelSelector{MatchLabels: labels}}}
	}
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	}
	for name, c := range map[string]struct {
		list, get error
		want      []string
		fails     bool
	}{
		"all may be read":                     {nil, nil, []string{"all", "prod"}, false},
		"the namespace may not":               {nil, forbidden("namespaces"), []string{"all"}, false},
		"policies may not":                    {forbidden("etcdfleetpolicies"), nil, nil, false},
		"there are none":                      {apierrors.NewNotFound(schema.GroupResource{Resource: "etcdfleetpolicies"}, ""), nil, nil, false},
		"policies cannot be read at present":  {apierrors.NewInternalError(context.Canceled), nil, nil, true},
		"namespace cannot be read at present": {nil, apierrors.NewInternalError(context.Canceled), nil, true},
	} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"tier": "prod"}}}
		api := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(namespace, selecting("all", nil), selecting("dev", map[string]string{"tier": "dev"}), selecting("prod", namespace.Labels)).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if c.list != nil {
					return c.list
				}
				return api.List(ctx, list, options...)
			},
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if c.get != nil {
					return c.get
				}
				return api.Get(ctx, key, object, options...)
			},
		}).Build()
		all, err := policiesOf(t.Context(), &kube.Cluster{WithWatch: api, Namespace: "demo"})
		var got []string
		for i := range all {
			got = append(got, all[i].Name)
		}
		if (err != nil) != c.fails || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
		}
	}
}
